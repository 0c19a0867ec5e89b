package classify

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// ReleaseNote is what a release of Kubernetes changes for webhooks as they are.
type ReleaseNote struct {
	Release  string `json:"release" jsonschema:"Release is the first that does, as \"v1.37\"."`
	Text     string `json:"text"`
	Source   string `json:"source"`
	Webhooks int    `json:"webhooks" jsonschema:"Webhooks counts those that it is for."`
}

// releaseChange is a change, and the webhooks that it is one for.
type releaseChange struct {
	minor        int
	text, source string
	applies      func(*inventory.Webhook) bool
}

// releaseChanges are those that no rule of the webhook shows. The check subresource-gap
// is about subresources that a release adds.
var releaseChanges = []releaseChange{
	{32, "garbage collection goes on after 30 s without the resources whose conversion fails; before, it stopped for all", "kubernetes/kubernetes PR 125796", isConversion},
	{34, "where the API server dials Pods rather than the address of a Service, it finds them by EndpointSlices, no longer by Endpoints", "k8s.io/apiserver pkg/util/proxy", hasService},
	{36, "MutatingAdmissionPolicies are on: they change requests before mutating webhooks do, which are called again for that if their reinvocationPolicy is IfNeeded", "k8s.io/apiserver pkg/admission/plugin/policy/mutating", isMutating},
	{37, "the six reviews of authentication and authorization are no longer sent to webhooks", "gate ExcludeAdmissionWebhookVirtualResources, beta", coversReviews},
	{37, "the API server resolves the Service before each call: a proxy exemption of .svc alone no longer matches, the network of Services must be exempt too, and with aggregator routing that of Pods", "gate WebhookRoundTripLoadBalancing, beta", hasService},
	{37, "an object whose conversion fails counts as corrupt: a delete with ignoreStoreReadErrorWithClusterBreakingPotential removes it though nothing is wrong with it", "gate AllowUnsafeMalformedObjectDeletion, beta", isConversion},
}

func isConversion(w *inventory.Webhook) bool { return w.Type == inventory.Conversion }
func isMutating(w *inventory.Webhook) bool   { return w.Type == inventory.Mutating }
func hasService(w *inventory.Webhook) bool   { return w.Backend.Kind == inventory.BackendService }

// coversReviews reports whether a rule asks for the reviews, by name or with others.
func coversReviews(w *inventory.Webhook) bool {
	return slices.ContainsFunc(w.Rules, func(r admissionv1.RuleWithOperations) bool {
		group := slices.ContainsFunc(r.APIGroups, func(g string) bool {
			return g == "*" || g == "authentication.k8s.io" || g == "authorization.k8s.io"
		})
		return group && slices.ContainsFunc(r.Resources, func(name string) bool { return name == "*" || name == "*/*" || strings.HasSuffix(name, "reviews") })
	})
}

// ReleaseNotes are those of the API server's own release and of the next one, as far as
// they are for any of its webhooks; none where its version is not known.
func (r *Report) ReleaseNotes() []ReleaseNote {
	server := r.Snapshot.Server
	if !server.Known() {
		return nil
	}
	var out []ReleaseNote
	for _, release := range []inventory.Version{server.Recorded(), {Major: server.Major, Minor: server.Recorded().Minor + 1}} {
		for _, change := range releaseChanges {
			if n := r.count(change.applies); n > 0 && change.minor == release.Minor {
				out = append(out, ReleaseNote{inventory.Version{Major: release.Major, Minor: release.Minor}.String(), change.text, change.source, n})
			}
		}
	}
	return out
}

func (r *Report) count(applies func(*inventory.Webhook) bool) int {
	n := 0
	for _, w := range r.Snapshot.Webhooks {
		if applies(w) {
			n++
		}
	}
	return n
}
