package classify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var virtualResource = &Check{
	Name:     "virtual-resource",
	Summary:  "A webhook intercepts resources that are never stored, such as reviews or pods/binding.",
	Severity: Critical,
	Condition: map[inventory.Type]string{
		inventory.Mutating:   "VirtualResourceAdmissionError",
		inventory.Validating: "VirtualResourceAdmissionError",
	},
	Reason: "AdmissionWebhookMatchesVirtualResource",
	Alerts: map[Severity]string{Critical: "WebhookOnVirtualResource", Warning: "WebhookOnVirtualResourceWarning"},
	For:    5 * time.Minute,
	Find:   findVirtualResource,
}

func findVirtualResource(p *Profile) []Problem {
	virtual := slices.DeleteFunc(slices.Clone(p.ByClass[ClassVirtual]), func(r inventory.Resource) bool {
		// A Binding has no labels of its Pod. Source: pkg/scheduler/framework/plugins/defaultbinder of k8s.io/kubernetes.
		return r == placement &&
			(optIn(p.ObjectSelector) ||
				p.Matcher.CallsFor(p.Webhook, r, admission.Create, admission.Subject{User: scheduler}) == admission.No)
	})
	if len(virtual) == 0 {
		return nil
	}
	consequence := "while it cannot be called, this is refused (failurePolicy Fail)"
	if !p.FailsClosed() {
		consequence = fmt.Sprintf("while its backend hangs, this waits %s each time (failurePolicy Ignore)", text.Seconds(p.Timeout))
	}
	decided := decidedBy(virtual, p.FailsClosed())
	return []Problem{{
		Severity: virtualSeverity(p, virtual),
		Message:  fmt.Sprintf("intercepts %s%s, never stored; %s: %s", byRule(p, virtual), scopeOf(p, virtual), consequence, decided),
		Brief:    virtualBrief(p, virtual),
		Fix:      fmt.Sprintf("take %s out of the rules of %s, or exclude the requests: %s", listed(virtual), ObjectName(p), patch(p, excludeRequests(p, requestsTo(virtual))...)),
	}}
}

// virtualBrief says what fails of the gravest of the resources.
func virtualBrief(p *Profile, virtual []inventory.Resource) string {
	down := "while it is down, "
	if !p.FailsClosed() {
		return fmt.Sprintf("while its backend hangs, requests for %s%s wait %s each time", listed(virtual), scopeOf(p, virtual), text.Seconds(p.Timeout))
	}
	for _, d := range virtualDecisions {
		if slices.Contains(virtual, d.resource) && d.consequence != "" {
			return down + d.consequence + scopeOf(p, []inventory.Resource{d.resource})
		}
	}
	return down + "requests for " + listed(virtual) + scopeOf(p, virtual) + " are refused"
}

// scopeOf is Scope for those of the resources that the webhook is called for.
func scopeOf(p *Profile, resources []inventory.Resource) string {
	return Scope(p, slices.DeleteFunc(slices.Clone(p.Matched), func(m admission.MatchedResource) bool {
		return !slices.Contains(resources, m.Resource)
	}))
}

// decision is a virtual resource and what it decides.
type decision struct {
	resource inventory.Resource
	decides  string
	// consequence completes "so that …" where it is refused; it may be "".
	consequence string
}

// virtualDecisions says what each virtual resource decides, the gravest first.
// The API server itself authenticates and authorizes without the reviews of
// Kubernetes. Sources: k8s.io/kubernetes pkg/scheduler/util (which binds by
// Pods.Bind of k8s.io/client-go), k8s.io/apiserver pkg/server/options
// (delegated authentication and authorization), github.com/openshift/oauth-apiserver,
// oauth-proxy and oc (pkg/cli/policy, pkg/cli/admin/policy).
var virtualDecisions = []decision{
	{placement, "the scheduler's placement of each Pod", "no new Pod starts"},
	{inventory.Resource{Group: "oauth.openshift.io", Name: "tokenreviews"}, "the API server's check of OAuth tokens", "oc login and the console fail"},
	{inventory.Resource{Group: "authorization.k8s.io", Name: "subjectaccessreviews"}, "the authorization of requests that kubelets (logs, exec, metrics), aggregated API servers and proxies serve", ""},
	{inventory.Resource{Group: "authentication.k8s.io", Name: "tokenreviews"}, "the check of tokens that kubelets, aggregated API servers and proxies are shown, which the webhook reads in plain text", ""},
	{inventory.Resource{Group: "authorization.openshift.io", Name: "subjectaccessreviews"}, "the authorization by OpenShift's OAuth proxies, which stand before consoles and dashboards", ""},
	{inventory.Resource{Group: "authorization.k8s.io", Name: "localsubjectaccessreviews"}, "the authorization of requests in a namespace by applications that ask the API server", ""},
	{inventory.Resource{Group: "authorization.openshift.io", Name: "localsubjectaccessreviews"}, "the authorization of requests in a namespace by applications that ask OpenShift's API server", ""},
	{inventory.Resource{Group: "authorization.k8s.io", Name: "selfsubjectaccessreviews"}, "what users and controllers ask about their own rights (kubectl auth can-i, consoles)", ""},
	{inventory.Resource{Group: "authorization.k8s.io", Name: "selfsubjectrulesreviews"}, "the list of a user's own rights (kubectl auth can-i --list)", ""},
	{inventory.Resource{Group: "authentication.k8s.io", Name: "selfsubjectreviews"}, "who a user is to the API server (kubectl auth whoami)", ""},
	{inventory.Resource{Group: "authorization.openshift.io", Name: "selfsubjectrulesreviews"}, "the list of a user's own rights (oc policy can-i --list)", ""},
	{inventory.Resource{Group: "authorization.openshift.io", Name: "subjectrulesreviews"}, "the list of another user's rights (oc policy can-i --list --user)", ""},
	{inventory.Resource{Group: "authorization.openshift.io", Name: "resourceaccessreviews"}, "the question who may do something in the cluster (oc adm policy who-can)", ""},
	{inventory.Resource{Group: "authorization.openshift.io", Name: "localresourceaccessreviews"}, "the question who may do something in a namespace (oc adm policy who-can)", ""},
	{inventory.Resource{Group: "security.openshift.io", Name: "podsecuritypolicyreviews"}, "the question which service account could create a Pod (oc policy scc-review); Pods are admitted without it", ""},
	{inventory.Resource{Group: "security.openshift.io", Name: "podsecuritypolicysubjectreviews"}, "the question whether another user could create a Pod (oc policy scc-subject-review -u); Pods are admitted without it", ""},
	{inventory.Resource{Group: "security.openshift.io", Name: "podsecuritypolicyselfsubjectreviews"}, "the question whether the user could create a Pod (oc policy scc-subject-review); Pods are admitted without it", ""},
	{legacyBindings, "a legacy way to place Pods, which kube-scheduler does not use", ""},
}

var (
	// placement is what the scheduler writes.
	placement = inventory.Resource{Name: "pods", Subresource: "binding"}
	// legacyBindings is the enhancement's "bindings".
	legacyBindings = inventory.Resource{Name: "bindings"}
)

// decidedBy says what the resources decide, and what follows where that is refused. Those that
// only the Policy calls virtual are named alone.
func decidedBy(virtual []inventory.Resource, isRefused bool) string {
	var names []string
	rest := slices.Clone(virtual)
	for _, d := range virtualDecisions {
		i := slices.Index(rest, d.resource)
		if i < 0 {
			continue
		}
		rest = slices.Delete(rest, i, i+1)
		name := fmt.Sprintf("%s: %s", d.resource, d.decides)
		if isRefused && d.consequence != "" {
			name += ", so that " + d.consequence
		}
		names = append(names, name)
	}
	names = append(names, lists.Map(rest, func(r inventory.Resource) string { return r.String() })...)
	return strings.Join(lists.Bounded(names, maxListed, "and %d more"), "; ")
}

// virtualSeverity: with failurePolicy Ignore a webhook that asks for them by
// name still delays and reads them; a mere wildcard shows no intent, and
// pods/binding is delayed as the Pod itself was. Where a wildcard reaches the
// legacy bindings alone, hardly any request is refused.
func virtualSeverity(p *Profile, virtual []inventory.Resource) Severity {
	named := func(r admission.MatchedResource) bool { return r.Named && slices.Contains(virtual, r.Resource) }
	read := func(r admission.MatchedResource) bool { return named(r) && r.Resource != placement }
	legacy := slices.Equal(virtual, []inventory.Resource{legacyBindings})
	switch {
	case p.FailsClosed() && legacy && !slices.ContainsFunc(p.Matched, named):
		return Warning
	case p.FailsClosed():
		return Critical
	case slices.ContainsFunc(p.Matched, read):
		return Warning
	}
	return Info
}
