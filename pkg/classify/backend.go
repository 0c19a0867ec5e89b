package classify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var (
	serviceMissing = backendCheck(inventory.ServiceNotFound, Check{
		Name:    "service-missing",
		Summary: "The Service that a webhook calls does not exist.",
		Cause:   "Service does not exist",
		Reason:  "WebhookServiceNotFound",
	})
	servicePortMissing = backendCheck(inventory.PortNotFound, Check{
		Name:    "service-port-missing",
		Summary: "The Service that a webhook calls does not have the port that it calls.",
		Cause:   "Service has no such port",
		Reason:  "WebhookServicePortNotFound",
	})
	serviceUnroutable = backendCheck(inventory.ServiceUnroutable, Check{
		Name:    "service-unroutable",
		Summary: "The API server cannot call the type of Service that a webhook names.",
		Cause:   "API servers cannot call such a Service",
		Reason:  "WebhookServiceNotReady",
	})
	noReadyEndpoints = backendCheck(inventory.NoReadyEndpoints, Check{
		Name:    "no-ready-endpoints",
		Summary: "The Service that a webhook calls has no ready endpoint behind the port that it calls.",
		Cause:   "Service has no ready endpoint",
		Reason:  "WebhookServiceNoEndpoints",
	})
)

func backendCheck(fault inventory.BackendFault, c Check) *Check {
	c.Severity = Critical
	c.Condition = map[inventory.Type]string{
		inventory.Mutating:   "MutatingAdmissionWebhookConfigurationError",
		inventory.Validating: "ValidatingAdmissionWebhookConfigurationError",
		inventory.Conversion: "CRDConversionWebhookConfigurationError",
	}
	// Who pages depends on what the absence of the backend does.
	c.Alerts = map[Severity]string{Critical: "WebhookBackendDown", Warning: "WebhookBackendDownWarning"}
	c.ConversionAlert = "WebhookConversionBackendDown"
	c.For = 4 * time.Minute
	c.Find = findFault(fault)
	return &c
}

// findFault reports a backend with the fault, as severe as its consequences.
func findFault(fault inventory.BackendFault) func(*Profile) []Problem {
	return func(p *Profile) []Problem {
		if p.State.Fault != fault {
			return nil
		}
		severity, consequence := consequences(p)
		detail := p.State.Detail
		if late := waitsFirst(p); fault == inventory.NoReadyEndpoints && late != "" {
			consequence += "; where the network drops packets to such a Service" + late
		}
		if p.State.Routing != inventory.RoutingUnknown {
			severity = min(severity, Warning)
			flag := fmt.Sprintf("--enable-aggregator-routing=%t", p.State.Routing == inventory.RoutingEndpoints)
			detail = strings.Replace(detail, " ("+flag+")", "", 1) + "; whether this one does is not known: set --aggregator-routing"
			consequence = "with " + flag + ", " + consequence
		}
		if p.State.Draining {
			severity = min(severity, Warning)
			detail, consequence = "has terminating endpoints alone, which still answer", "once they stop, "+consequence
		}
		return []Problem{{
			Severity: severity,
			Message:  fmt.Sprintf("calls %s, which %s; %s", BackendName(p), detail, consequence),
			Brief:    briefly(consequence, BackendName(p)+" "+detail),
			Fix:      repair(p),
		}}
	}
}

// ReadyElsewhere says that the Pods behind the webhook count as ready by another port than
// it is called on; "" where they do not. Most real ones do, and serve all the same.
func ReadyElsewhere(p *Profile) string {
	for _, w := range BehindWebhook(p) {
		if port := p.Snapshot.TargetPort(p.State.Service, w); port > 0 && w.ReadinessPort > 0 &&
			w.ReadinessPort != port {
			return fmt.Sprintf("the readinessProbe of %s asks port %d, and the webhook is called on %d: its Pods may be ready and not listen", w, w.ReadinessPort, port)
		}
	}
	return ""
}

// BackendName names what is really called: behind the API server itself, the
// Service of an APIService.
func BackendName(p *Profile) string {
	if p.Webhook.Backend.Kind == inventory.BackendAPIServer {
		return fmt.Sprintf("Service %s:%d through the API server", p.State.Service.Key, p.State.Service.Port)
	}
	return p.Webhook.Backend.String()
}

// backend is called, quoted as a Fix needs it.
func backend(p *Profile) string {
	if p.Webhook.Backend.Kind == inventory.BackendAPIServer {
		return fmt.Sprintf("Service %s through the API server", quoted(fmt.Sprintf("%s:%d", p.State.Service.Key, p.State.Service.Port)))
	}
	kind, name, _ := strings.Cut(p.Webhook.Backend.String(), " ")
	return kind + " " + quoted(name)
}

// Consequence says what breaks while the backend is dead.
func Consequence(p *Profile) string {
	_, consequence := consequences(p)
	return consequence
}

// consequences says how bad a dead backend is, and what it breaks.
func consequences(p *Profile) (Severity, string) {
	switch {
	case p.Type == inventory.Conversion:
		return conversionConsequences(p)
	case len(p.Matched) == 0 && p.FailsClosed():
		return Critical, "whatever it intercepts is refused (failurePolicy Fail)"
	case len(p.Matched) == 0:
		return Warning, "requests pass without it (failurePolicy Ignore)"
	case p.FailsClosed():
		return Critical, intercepted(p) + " is refused (failurePolicy Fail)" + withoutNewNamespaces(p)
	}
	return Warning, intercepted(p) + " passes without it (failurePolicy Ignore)"
}

// waitsFirst completes a consequence where packets are dropped rather than refused: a
// request that passes without the webhook waits for its timeout first, if it has that
// long.
func waitsFirst(p *Profile) string {
	switch o := p.Outlasting; {
	case p.Type == inventory.Conversion || p.FailsClosed():
		return ""
	case o != nil && o.Webhooks == 1:
		return fmt.Sprintf(", but is refused after %s (%s)", text.Seconds(o.End), o.By)
	case o != nil:
		return fmt.Sprintf(", after %s each; where %s hang together, it is refused after %s (%s)", text.Seconds(p.Timeout), inventory.Counted(o.Webhooks, "such webhook"), text.Seconds(o.End), o.By)
	}
	return fmt.Sprintf(", after %s each", text.Seconds(p.Timeout))
}

// withoutNewNamespaces says that no Pod starts in namespaces that are created from now
// on: the controllers create a ConfigMap and a ServiceAccount there that each Pod needs.
// Sources: k8s.io/kubernetes pkg/controller/certificates/rootcacertpublisher and
// pkg/controller/serviceaccount.
func withoutNewNamespaces(p *Profile) string {
	for _, f := range functions {
		if f.inNew != "" &&
			p.Matcher.InterceptsSubject(p.Webhook, f.resource, f.operation, f.subject()).Match == admission.Yes {
			return fmt.Sprintf("; Pods of new namespaces do not start, as they need %s %s", f.resource, f.inNew)
		}
	}
	return ""
}

func briefly(consequence, reason string) string {
	consequence, _, _ = strings.Cut(consequence, " (failurePolicy")
	consequence, _, _ = strings.Cut(consequence, ":")
	return consequence + ": " + reason
}

func conversionConsequences(p *Profile) (Severity, string) {
	if p.ServesNothing() {
		return Critical, fmt.Sprintf("no %s is read or written, in any version%s", p.CRD.Resource, stopping(p))
	}
	switch p.Matcher.ConversionNeed(p.CRD) {
	case admission.Unserved:
		return Info, "no version of it is served, so nothing calls it"
	case admission.NeverConverted:
		return Info, "only one version is in use, so nothing calls it"
	case admission.WritesConvert:
		registration := p.Matcher.GetsOther(p.CRD)
		return Critical, fmt.Sprintf("requests that %s %s gets in another version are refused, whatever its failurePolicy", registration.Type.Noun(), quoted(registration.Name))
	case admission.ClientsConvert:
		return Warning, fmt.Sprintf("clients of versions other than %s get errors, and so may lists and watches once a cache has to be filled", p.CRD.StorageVersion)
	}
	return Critical, "objects stored in another version cannot be read" + stopping(p)
}

// stopping is what stops as controllers of the control plane cannot read the objects.
func stopping(p *Profile) string {
	switch functions := p.Functions(); len(functions) {
	case 0:
		return ""
	case 1:
		return ": " + functions[0] + " stops"
	default:
		return ": " + sentence(functions, 0) + " stop"
	}
}

func repair(p *Profile) string {
	if p.Type == inventory.Conversion {
		return fmt.Sprintf("%s; never force-delete the objects: they are healthy, only unreadable; %s", restore(p), removal(p))
	}
	return fmt.Sprintf("%s%s; %s", restore(p), hasten(p), removal(p))
}

// hasten is about the Pods that come back late: those of the backend, and those that it
// has refused.
func hasten(p *Profile) string {
	commands := "kubectl rollout restart deployment NAME -n NAMESPACE"
	switch {
	case p.State.Fault == inventory.NoReadyEndpoints:
		commands = strings.Join(restart(p), " && ")
	case !p.FailsClosed() || !CoversPods(p.Matched):
		return ""
	}
	return fmt.Sprintf("; %s; to create them at once: %s", Late, commands)
}

// CoversPods reports whether controllers meet the webhook or policy where they create Pods.
func CoversPods(matched []admission.MatchedResource) bool {
	return slices.ContainsFunc(matched,
		func(m admission.MatchedResource) bool { return m.Resource == inventory.Resource{Name: "pods"} })
}

func restore(p *Profile) string {
	switch {
	case p.State.APIService != "":
		return fmt.Sprintf("bring APIService %s back (kubectl get apiservices)", quoted(p.State.APIService))
	case p.State.Fault == inventory.PortNotFound:
		return callOther(p, p.Snapshot.Services[p.State.Service.Key].Ports)
	}
	if likely, found := p.Snapshot.LikelyService(p.State.Service); found &&
		p.State.Fault == inventory.ServiceNotFound {
		return fmt.Sprintf("bring %s back (%s); did you mean Service %s?", backend(p), p.lookAtBackend(), quoted(likely.String()))
	}
	return fmt.Sprintf("bring %s back (%s)", backend(p), p.lookAtBackend())
}

// callOther has the webhook call a port that its Service has: the one, if there
// is no other.
func callOther(p *Profile, ports []corev1.ServicePort) string {
	give := fmt.Sprintf("give Service %s port %d", quoted(p.State.Service.Key.String()), p.State.Service.Port)
	switch {
	case len(ports) != 1:
		return "set clientConfig.service.port to a port of the Service, or " + give
	case p.Type == inventory.Conversion:
		patch := edited(&p.Registration, edit{"add", "/spec/conversion/webhook/clientConfig/service/port", ports[0].Port})
		return fmt.Sprintf("call the port that the Service has: %s; or %s", patch, give)
	}
	return fmt.Sprintf("call the port that the Service has: %s; or %s", patch(p, set(p, "clientConfig/service/port", ports[0].Port)), give)
}
