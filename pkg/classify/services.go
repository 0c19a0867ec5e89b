package classify

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var backendSelector = &Check{
	Name:     "backend-selector",
	Summary:  "The Service of a webhook selects no Pods, Pods of another workload, or Pods without the port, or sends calls to Pods that are not ready.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		service, ok := p.Snapshot.Services[p.State.Service.Key]
		if !ok || p.Platform || p.Webhook.Backend.Kind == inventory.BackendURL || len(service.Selector) == 0 {
			return nil
		}
		pods := BehindWebhook(p)
		problem := cmp.Or(noPods(p, service, pods), noSuchPort(p, service, pods), foreignPods(p, service, pods))
		switch {
		case problem != nil:
			return []Problem{*problem}
		case service.PublishNotReady:
			return []Problem{{
				Severity: Info,
				Message:  fmt.Sprintf("calls %s with publishNotReadyAddresses: calls go to Pods that are not ready, and no-ready-endpoints cannot see an outage", BackendName(p)),
				Fix:      fmt.Sprintf("set publishNotReadyAddresses of Service %s to false%s", quoted(service.Key.String()), byOwner(p)),
			}}
		}
		return nil
	},
}

// noPods reports a Service of files whose selector takes in no Pod of what is applied
// with it. Of a cluster, its endpoints say so.
func noPods(p *Profile, service inventory.Service, workloads []*inventory.Workload) *Problem {
	if p.State.Known || len(p.Snapshot.Manifests) == 0 {
		return nil
	}
	severity, consequence := consequences(p)
	if len(workloads) == 0 {
		inNamespace := slices.ContainsFunc(p.Snapshot.Workloads,
			func(w inventory.Workload) bool { return w.Namespace == service.Namespace })
		others := slices.ContainsFunc(p.Snapshot.Manifests, func(m inventory.Manifest) bool {
			return slices.Contains(makersOfPods, m.Kind) && (m.Namespace == "" || m.Namespace == service.Namespace)
		})
		if !inNamespace || others {
			return nil
		}
		return &Problem{
			Severity: min(severity, Warning),
			Message:  fmt.Sprintf("calls %s, whose selector takes in no Pod of the workloads in the input; if no other is installed, %s", BackendName(p), consequence),
			Fix:      fmt.Sprintf("set spec.selector of Service %s to the labels of the Pods that serve the webhook%s", quoted(service.Key.String()), byOwner(p)),
			NoAnswer: true,
		}
	}
	own := lists.Filter(workloads, func(w *inventory.Workload) bool { return !lacksPort(p, w) })
	if len(own) == 0 {
		own = workloads
	}
	if slices.ContainsFunc(own, hasPods) {
		return nil
	}
	return &Problem{
		Severity: severity,
		Message:  fmt.Sprintf("calls %s, whose Pods are those of %s, with 0 replicas; %s", BackendName(p), own[0], consequence),
		Fix:      fmt.Sprintf("set spec.replicas of %s to 2%s", quoted(own[0].String()), byOwner(p)),
		NoAnswer: true,
	}
}

func hasPods(w *inventory.Workload) bool { return w.Replicas > 0 || w.Daemon }

// lacksPort reports whether the workload is none of the webhook's by the ports that each of
// its containers declares. One that declares none may listen at any, but in a Job.
func lacksPort(p *Profile, w *inventory.Workload) bool {
	return w.Declared != nil && (!w.Undeclared || w.Kind == "Job") &&
		!slices.Contains(w.Declared, p.Snapshot.TargetPort(p.State.Service, w))
}

// makersOfPods are the kinds beside those of Workloads whose objects make Pods that serve:
// those of Kubernetes, OpenShift, Argo Rollouts and OpenKruise.
var makersOfPods = []string{"ReplicaSet", "ReplicationController", "DeploymentConfig", "Rollout", "CloneSet", "AdvancedStatefulSet"}

// noSuchPort reports a target port by a name that no container has.
func noSuchPort(p *Profile, service inventory.Service, workloads []*inventory.Workload) *Problem {
	name := targetName(service, p.State.Service.Port)
	if p.State.Known || name == "" || len(workloads) == 0 {
		return nil
	}
	for _, w := range workloads {
		if _, ok := w.Ports[name]; ok || w.Declared == nil {
			return nil
		}
	}
	severity, consequence := consequences(p)
	return &Problem{
		Severity: severity,
		Message:  fmt.Sprintf("calls %s, whose targetPort %s is the name of no container port of %s; %s", BackendName(p), name, workloads[0], consequence),
		Brief:    briefly(consequence, fmt.Sprintf("targetPort %s of %s is no port of %s", name, BackendName(p), workloads[0])),
		Fix:      fmt.Sprintf("set targetPort of Service %s to the name or number of the port that the container serves%s", quoted(service.Key.String()), byOwner(p)),
		NoAnswer: true,
	}
}

// targetName is the targetPort of the port by name, "" where it is a number.
func targetName(service inventory.Service, port int32) string {
	for _, p := range service.Ports {
		if p.Port == port && p.TargetPort.Type == intstr.String &&
			(p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			return p.TargetPort.StrVal
		}
	}
	return ""
}

// WithoutPort splits what is behind the webhook into the workloads that declare its port,
// and those that get calls and, by their ports, are none of the webhook's.
func WithoutPort(p *Profile, workloads []*inventory.Workload) (own, foreign []*inventory.Workload) {
	if targetName(p.Snapshot.Services[p.State.Service.Key], p.State.Service.Port) != "" {
		return nil, nil // endpoints are made of the Pods that have the name
	}
	for _, w := range workloads {
		switch {
		case w.Declared == nil || !hasPods(w):
		case lacksPort(p, w):
			foreign = append(foreign, w)
		case slices.Contains(w.Declared, p.Snapshot.TargetPort(p.State.Service, w)):
			own = append(own, w)
		}
	}
	return own, foreign
}

// foreignPods reports workloads of which only one has the webhook's port.
func foreignPods(p *Profile, service inventory.Service, workloads []*inventory.Workload) *Problem {
	own, foreign := WithoutPort(p, workloads)
	if len(own) == 0 || len(foreign) == 0 {
		return nil
	}
	port := p.Snapshot.TargetPort(p.State.Service, foreign[0])
	return &Problem{
		Message: fmt.Sprintf("calls %s, whose selector takes in %s beside %s; only the latter declares port %d, so that part of the calls meet connection refused: then %s",
			BackendName(p), foreign[0], own[0], port, Consequence(p)),
		Brief: fmt.Sprintf("part of the calls meet connection refused: %s also selects %s, which has no port %d", BackendName(p), foreign[0], port),
		Fix:   fmt.Sprintf("add a label to the selector of Service %s that only the Pods of %s have%s", quoted(service.Key.String()), quoted(own[0].String()), byOwner(p)),
	}
}

var serviceElsewhere = &Check{
	Name:     "service-elsewhere",
	Summary:  "The Service that a webhook calls is missing, and one of almost its name, or in other namespaces, is there.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		called := p.State.Service
		if p.State.Known || p.Platform || p.Webhook.Backend.Kind == inventory.BackendURL || called.Name == "" ||
			called.Key == scaffolded || called.Key == apiServers {
			return nil
		}
		if _, ok := p.Snapshot.Services[called.Key]; ok {
			return nil
		}
		severity, consequence := consequences(p)
		likely, found := p.Snapshot.LikelyService(called)
		namespaces := p.Snapshot.NamespacesOfService(called.Name)
		guess, value, field := "", quoted(likely.Namespace), "namespace"
		switch {
		case found && likely.Namespace == called.Namespace:
			value, field = quoted(likely.Name), "name"
			fallthrough
		case found:
			guess = fmt.Sprintf("did you mean Service %s?", likely)
		case len(namespaces) > 1 && !p.Snapshot.Unplaced(called.Name): // which of them, or another one, is unknown
			severity, value = Info, "that of the Service of its software"
			guess = "a Service of that name is in " + theNamespaces(namespaces)
		default:
			return nil
		}
		fix := fmt.Sprintf("set clientConfig.service.%s to %s%s", field, value, byOwner(p))
		callsLikely := func(w *inventory.Webhook) bool { // what an earlier installation left
			return w.Type == p.Type && w.Backend.Service.Key == likely && reflect.DeepEqual(w.Rules, p.Rules)
		}
		if i := slices.IndexFunc(p.Snapshot.Webhooks, callsLikely); i >= 0 && p.Type != inventory.Conversion {
			guess = fmt.Sprintf("%s, of the same rules, calls Service %s", objectName(&p.Snapshot.Webhooks[i].Registration), likely)
			fix = "remove it where it is left over of an earlier installation, else " + fix
		}
		return []Problem{{
			Severity: min(severity, Warning),
			Message: fmt.Sprintf("calls %s, which the input lacks (%s); if %s is not installed by other means, %s",
				BackendName(p), guess, called.Key, consequence),
			Fix: fix,
		}}
	},
}

var (
	// apiServers is the Service of the API servers, which each cluster has.
	apiServers = inventory.Key{Namespace: "default", Name: "kubernetes"}
	// scaffolded is the Service that kubebuilder writes into registrations, for a
	// kustomization to rename. Source: kubebuilder's scaffold config/webhook.
	scaffolded = inventory.Key{Namespace: "system", Name: "webhook-service"}
)

var sameNodeService = &Check{
	Name:     "same-node-service",
	Summary:  "The Service of a webhook leads to Pods on the API server's own node alone (internalTrafficPolicy Local).",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		service := p.Snapshot.Services[p.State.Service.Key]
		routed := p.Snapshot.Routing == inventory.RoutingEndpoints // which asks no cluster IP
		if !service.SameNode || routed || p.Platform || p.State.Fault != inventory.Sound ||
			len(p.Snapshot.Nodes) == 1 || onEachNode(p.Snapshot, service) {
			return nil
		}
		severity, consequence := consequences(p)
		if slices.ContainsFunc(BehindWebhook(p), func(w *inventory.Workload) bool { return w.Daemon }) {
			severity = Info // it may run on that node
		}
		return []Problem{{
			Severity: min(severity, Warning),
			Message: fmt.Sprintf("calls %s, whose internalTrafficPolicy Local leads to Pods on the node of the API server, or of its tunnel: where none runs there, calls end in a timeout, and %s",
				BackendName(p), consequence),
			Brief: fmt.Sprintf("Service %s leads to Pods on the API server's own node alone (internalTrafficPolicy Local): without one there, calls end in a timeout", service.Key),
			Fix:   changed("patch", "service", service.Key, `--type=merge -p '{"spec":{"internalTrafficPolicy":"Cluster"}}'`),
		}}
	},
}

// onEachNode reports whether each node of the cluster has a ready endpoint.
func onEachNode(s *inventory.Snapshot, service inventory.Service) bool {
	lacks := func(node string) bool {
		return !slices.ContainsFunc(service.Endpoints,
			func(e inventory.Endpoint) bool { return e.Ready && e.Node == node })
	}
	return len(s.Nodes) > 0 && !slices.ContainsFunc(s.Nodes, lacks)
}
