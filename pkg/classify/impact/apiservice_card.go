package impact

import (
	"fmt"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// APIServiceCards are those of the aggregated API server that the APIService of the name
// puts behind a group and version; none where the API server itself serves that, or the
// input has no such object. Source of what its loss stops: kubernetes
// pkg/controller/namespace/deletion, whose discovery must succeed for all groups.
func APIServiceCards(r *classify.Report, name string) []Card {
	a, ok := r.Snapshot.APIServices[name]
	if !ok || a.Service == nil {
		return nil
	}
	return []Card{{APIService: &a, Sections: []Section{
		apiAdds(r, a), apiModifies(r, a), apiIndicators(a), apiFailures(a), apiHealth(), apiDetection(a), apiDisabling(a), apiResuming(a),
	}}}
}

// AggregatedAPIs are the names of the APIServices that have cards.
func AggregatedAPIs(s *inventory.Snapshot) []string {
	var out []string
	for name, a := range s.APIServices {
		if a.Service != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func groupVersion(a inventory.APIService) string { return a.Group + "/" + a.Version }

func apiAdds(r *classify.Report, a inventory.APIService) Section {
	s := Section{ID: "adds", Heading: headingExtensions, Question: "Which API extensions are added", Answers: []string{
		fmt.Sprintf("the API %s, which Service %s serves: an aggregated API server, to which the API server passes requests on", groupVersion(a), a.Service.Key),
	}}
	if served := servedBy(r.Snapshot, a); len(served) > 0 {
		s.Answers = append(s.Answers, fmt.Sprintf("it serves %s: %s", inventory.Counted(len(served), "resource"), some(served)))
	} else {
		s.Answers = append(s.Answers, "which resources it serves is not known: the input has none, or it does not answer")
	}
	return s
}

// servedBy are the resources of the group and version.
func servedBy(s *inventory.Snapshot, a inventory.APIService) []string {
	var out []string
	for _, served := range s.Served {
		if served.Group == a.Group && served.Version == a.Version {
			out = append(out, served.Resource.String())
		}
	}
	return out
}

// apiModifies names the webhooks of its resources, which it calls itself.
func apiModifies(r *classify.Report, a inventory.APIService) Section {
	s := Section{ID: "modifies", Heading: headingExtensions, Question: "How the behavior of existing resources is modified", Answers: []string{"existing resources stay as they are"}}
	var called []string
	for i := range r.Profiles {
		p := &r.Profiles[i]
		if slices.ContainsFunc(p.Rules, func(rule admissionv1.RuleWithOperations) bool {
			return admission.CoversGroup(&rule, a.Group) && admission.CoversVersion(&rule, a.Version)
		}) {
			called = append(called, p.Name)
		}
	}
	if called = text.Distinct(called); len(called) > 0 {
		s.Answers = append(s.Answers, fmt.Sprintf("its own admission calls %s for those of its resources that their rules name: %s; it finds Services by DNS, and verifies and counts such calls itself", inventory.Counted(len(called), "webhook"), some(called)))
	}
	return s
}

func apiIndicators(a inventory.APIService) Section {
	group := "group=" + strconv.Quote(a.Group) + ",version=" + strconv.Quote(a.Version)
	return Section{
		ID: "slis", Heading: headingExtensions, Question: "Which SLIs show the health of the API extensions",
		Answers: []string{"the API servers' own series, and its own on its /metrics, of its webhooks as well"},
		Queries: []Query{
			{"whether it is unavailable", `max(aggregator_unavailable_apiservice{name=` + strconv.Quote(a.Name) + `})`},
			{"share of its requests that fail", `sum(rate(apiserver_request_total{` + group + `,code=~"5.."}[5m])) / sum(rate(apiserver_request_total{` + group + `}[5m]))`},
		},
	}
}

func apiFailures(a inventory.APIService) Section {
	return Section{ID: "failure-modes", Heading: headingFailures, Question: "Which failures are possible", Answers: []string{
		fmt.Sprintf("Service %s has no endpoint that answers, or its certificate does not verify: every request to %s fails with 503", a.Service.Key, groupVersion(a)),
		"it answers slowly: requests to it wait as long, a minute at most",
		"a webhook that it calls fails: writes of its resources are refused, or not changed or checked, as for any webhook",
	}}
}

func apiHealth() Section {
	return Section{ID: "cluster-health", Heading: headingFailures, Question: "How a failure affects the health of the cluster", Answers: []string{
		"no namespace can be deleted: the namespace controller must know all resources, and the discovery of this group fails (NamespaceDeletionDiscoveryFailure)",
		"its objects are not collected as garbage until it answers again",
		"clients that ask for all resources (kubectl get all, kubectl api-resources, Helm) print errors or fail",
	}}
}

func apiDetection(a inventory.APIService) Section {
	return Section{
		ID: "detection", Heading: headingSupport, Question: "How a failure is detected",
		Answers:  []string{"the condition Available of the APIService is False, with the reason"},
		Commands: []string{"kubectl describe " + apiObject(a)},
	}
}

func apiObject(a inventory.APIService) string { return classify.TypeAndName("apiservice", a.Name) }

func apiDisabling(a inventory.APIService) Section {
	commands := classify.DeleteCommands(apiObject(a), inventory.Owner{})
	return Section{
		ID: "disabling", Heading: headingSupport, Question: "How it is disabled",
		Answers: []string{
			"delete the APIService: discovery works again within seconds, and namespaces are deleted, without its objects",
			"its objects stay where it stores them, and clients find no such resource",
		},
		Commands: []string{commands.Save, commands.Disable},
		Blanks:   []string{"who needs its resources (autoscalers those of metrics, for example), and whether its operator creates the APIService anew"},
	}
}

func apiResuming(a inventory.APIService) Section {
	return Section{
		ID: "resuming", Heading: headingSupport, Question: "Whether functionality resumes when it is enabled again, without risk to consistency",
		Answers:  []string{fmt.Sprintf("requests to %s are passed on again; its objects of namespaces that were deleted meanwhile are left over", groupVersion(a))},
		Commands: []string{classify.DeleteCommands(apiObject(a), inventory.Owner{}).Restore},
	}
}
