package classify

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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
		behind := BehindWebhook(p)
		for _, find := range []func(*Profile, inventory.Service, []inventory.Workload) *Problem{
			noPods, noSuchPort, foreignPods, unreadyPods,
		} {
			if problem := find(p, service, behind); problem != nil {
				return []Problem{*problem}
			}
		}
		return nil
	},
}

// noPods reports a Service of files whose selector takes in no Pod of what is applied
// with it. Of a cluster, its endpoints say so.
func noPods(p *Profile, service inventory.Service, workloads []inventory.Workload) *Problem {
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
		}
	}
	stopped, beside := -1, ""
	for i := range workloads {
		switch w := &workloads[i]; {
		case hasPods(w) && !lacksPort(p, w):
			return nil
		case hasPods(w):
			beside = fmt.Sprintf(", beside those of %s, which declare another port", w)
		case stopped < 0 || !lacksPort(p, w):
			stopped = i
		}
	}
	if stopped < 0 || beside != "" && lacksPort(p, &workloads[stopped]) {
		return nil
	}
	return &Problem{
		Severity: severity,
		Message:  fmt.Sprintf("calls %s, whose Pods are those of %s, with 0 replicas%s; %s", BackendName(p), &workloads[stopped], beside, consequence),
		Fix:      fmt.Sprintf("set spec.replicas of %s to 2%s", quoted(workloads[stopped].String()), byOwner(p)),
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
func noSuchPort(p *Profile, service inventory.Service, workloads []inventory.Workload) *Problem {
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
		Message:  fmt.Sprintf("calls %s, whose targetPort %s is the name of no container port of %s; %s", BackendName(p), name, &workloads[0], consequence),
		Brief:    briefly(consequence, fmt.Sprintf("targetPort %s of %s is no port of %s", name, BackendName(p), &workloads[0])),
		Fix:      fmt.Sprintf("set targetPort of Service %s to the name or number of the port that the container serves%s", quoted(service.Key.String()), byOwner(p)),
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
func WithoutPort(p *Profile, workloads []inventory.Workload) (own, foreign []*inventory.Workload) {
	if targetName(p.Snapshot.Services[p.State.Service.Key], p.State.Service.Port) != "" {
		return nil, nil // endpoints are made of the Pods that have the name
	}
	for i := range workloads {
		w := &workloads[i]
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
func foreignPods(p *Profile, service inventory.Service, workloads []inventory.Workload) *Problem {
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

// unreadyPods reports a Service that sends calls to Pods that are not ready.
func unreadyPods(p *Profile, service inventory.Service, _ []inventory.Workload) *Problem {
	if !service.PublishNotReady {
		return nil
	}
	return &Problem{
		Severity: Info,
		Message:  fmt.Sprintf("calls %s with publishNotReadyAddresses: calls go to Pods that are not ready, and no-ready-endpoints cannot see an outage", BackendName(p)),
		Fix:      fmt.Sprintf("set publishNotReadyAddresses of Service %s to false%s", quoted(service.Key.String()), byOwner(p)),
	}
}
