package classify

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// ReleaseNote is what a release of Kubernetes changes for webhooks as they are.
type ReleaseNote struct {
	Release  string `json:"release" jsonschema:"Release is the first that does, as \"v1.37\"."`
	Text     string `json:"text"`
	Source   string `json:"source"`
	Webhooks int    `json:"webhooks" jsonschema:"Webhooks counts those that it is for."`
	// StopsServer says that an API server of the release may not start.
	StopsServer bool `json:"-"`
}

// releaseChange is a change, and the webhooks that it is one for.
type releaseChange struct {
	minor        int
	text, source string
	// applies is nil of what API servers write since then.
	applies func(*inventory.Webhook) bool
	// routing is the only one that it is for; RoutingUnknown is all.
	routing inventory.Routing
}

// serverWritesMinor is the release since which API servers write to networking.k8s.io.
const serverWritesMinor = 33

// releaseChanges are those that no rule of the webhook shows. The check subresource-gap
// is about subresources that a release adds.
var releaseChanges = []releaseChange{
	{32, "garbage collection goes on after 30 s without the resources whose conversion fails; before, it stopped for all", "kubernetes/kubernetes PR 125796", isConversion, inventory.RoutingUnknown},
	{serverWritesMinor, "API servers write servicecidrs and ipaddresses of networking.k8s.io through admission: refused, a new one does not start and no Service gets a cluster IP", "kubernetes/kubernetes issue 137356", nil, inventory.RoutingUnknown},
	{34, "the API server finds the Pods behind a Service by EndpointSlices, no longer by Endpoints (--enable-aggregator-routing)", "k8s.io/apiserver pkg/util/proxy", hasService, inventory.RoutingEndpoints},
	{36, "MutatingAdmissionPolicies are on: they change requests before mutating webhooks do, which are called again for that if their reinvocationPolicy is IfNeeded", "k8s.io/apiserver pkg/admission/plugin/policy/mutating", isMutating, inventory.RoutingUnknown},
	{37, "the six reviews of authentication and authorization are no longer sent to webhooks", "gate ExcludeAdmissionWebhookVirtualResources, beta", coversReviews, inventory.RoutingUnknown},
	{37, "the API server resolves the Service before each call: a proxy exemption of .svc alone no longer matches, the network of Services must be exempt too, and with aggregator routing that of Pods", "gate WebhookRoundTripLoadBalancing, beta", hasService, inventory.RoutingUnknown},
	{37, "an object whose conversion fails counts as corrupt: a delete with ignoreStoreReadErrorWithClusterBreakingPotential removes it though nothing is wrong with it", "gate AllowUnsafeMalformedObjectDeletion, beta", isConversion, inventory.RoutingUnknown},
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
		return group && slices.ContainsFunc(r.Resources,
			func(name string) bool { return name == "*" || name == "*/*" || strings.HasSuffix(name, "reviews") })
	})
}

// refusesServerWrites reports of a webhook whether it may refuse what API servers write since
// 1.33: requests as an API server of that release makes them.
func (r *Report) refusesServerWrites() func(*inventory.Webhook) bool {
	next := *r.Snapshot
	next.Served = inventory.Builtins(inventory.Version{Major: 1, Minor: serverWritesMinor}, false)
	m := admission.New(&next)
	return func(w *inventory.Webhook) bool {
		return w.Type != inventory.Conversion && w.FailsClosed() &&
			slices.ContainsFunc(allFunctions(), func(f function) bool {
				return f.resource.Group == "networking.k8s.io" && admission.RulesCover(&w.Registration, f.resource) && f.meets(m, w)
			})
	}
}

func (r *Report) releaseNotes() []ReleaseNote {
	server := r.Snapshot.Server
	if !server.Known() {
		return nil
	}
	var out []ReleaseNote
	for _, release := range []inventory.Version{
		server.Recorded(), {Major: server.Major, Minor: server.Recorded().Minor + 1},
	} {
		for _, change := range releaseChanges {
			routed := change.routing == inventory.RoutingUnknown || change.routing == r.Snapshot.Routing
			if !routed || change.minor != release.Minor {
				continue
			}
			applies := change.applies
			if applies == nil {
				applies = r.refusesServerWrites()
			}
			isOther := func(w *inventory.Webhook) bool { return !applies(w) }
			if n := len(slices.DeleteFunc(slices.Clone(r.Snapshot.Webhooks), isOther)); n > 0 {
				out = append(out,
					ReleaseNote{
						inventory.Version{Major: release.Major, Minor: release.Minor}.String(), change.text,
						change.source, n, change.minor == serverWritesMinor,
					})
			}
		}
	}
	return out
}
