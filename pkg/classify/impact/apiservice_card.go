package impact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	commands := classify.DeleteCommands("apiservice", a.Name, inventory.Owner{})
	serves, down := servesInWords(r, a), fmt.Sprintf("every request to %s fails with 503", groupVersion(a))
	return []Card{{
		APIService: &a, Name: a.Name, Title: fmt.Sprintf("APIService %s, served by Service %s", a.Name, a.Service.Key),
		Sections: sections(apiAnswers(a, serves, calledWebhooks(r, a), down, commands)), Commands: []string{commands.Save, commands.Disable},
		Summary: []Fact{
			{"called for", strings.Join(append([]string{serves}, calledWebhooks(r, a)...), "; ")},
			{"if it fails", down},
			{"stops", strings.Join(withoutAPI, "; ")},
			{"way out", "bring its Service back; else the commands below: its objects stay where it stores them"},
		},
	}}
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

// withoutAPI is what stops where it does not answer.
var withoutAPI = []string{
	"no namespace can be deleted: the namespace controller must know all resources, and the discovery of this group fails (NamespaceDeletionDiscoveryFailure)",
	"its objects are not collected as garbage until it answers again",
	"clients that ask for all resources (kubectl get all, kubectl api-resources, Helm) print errors or fail",
}

// apiAnswers are the answers to the questions, of an aggregated API server.
func apiAnswers(a inventory.APIService, serves string, called []string, down string, commands classify.Commands) map[string]Answer {
	of := "group=" + strconv.Quote(a.Group) + ",version=" + strconv.Quote(a.Version)
	return map[string]Answer{
		"adds":     {Answers: []string{fmt.Sprintf("the API %s, which Service %s serves: an aggregated API server, to which the API server passes requests on; %s", groupVersion(a), a.Service.Key, serves)}},
		"modifies": {Answers: called},
		"slis": {Queries: []Query{
			{"whether it is unavailable", `max(aggregator_unavailable_apiservice{name=` + strconv.Quote(a.Name) + `})`},
			{"share of its requests that fail", `sum(rate(apiserver_request_total{` + of + `,code=~"5.."}[5m])) / sum(rate(apiserver_request_total{` + of + `}[5m]))`},
		}},
		"failure-modes":  {Answers: []string{"its Service has no endpoint that answers, or its certificate does not verify: " + down, "it answers slowly: requests to it wait as long, a minute at most"}},
		"cluster-health": {Answers: withoutAPI},
		"detection":      {Answers: []string{"the condition Available of the APIService is False, with the reason"}, Commands: []string{"kubectl describe " + classify.TypeAndName("apiservice", a.Name)}},
		"disabling":      disabling(commands),
		"resuming":       {Answers: []string{"requests are passed on again; its objects of namespaces that were deleted meanwhile are left over"}, Commands: []string{commands.Restore}},
	}
}

// servesInWords are the resources of the group and version.
func servesInWords(r *classify.Report, a inventory.APIService) string {
	var out []string
	for _, served := range r.Snapshot.Served {
		if served.Group == a.Group && served.Version == a.Version {
			out = append(out, served.Resource.String())
		}
	}
	if len(out) == 0 {
		return "which resources it serves is not known: the input has none, or it does not answer"
	}
	return fmt.Sprintf("it serves %s: %s", inventory.Counted(len(out), "resource"), some(out))
}

// calledWebhooks names the webhooks of its resources, which it calls itself; nil without
// any.
func calledWebhooks(r *classify.Report, a inventory.APIService) []string {
	var called []string
	for i := range r.Profiles {
		p := &r.Profiles[i]
		if slices.ContainsFunc(p.Rules, func(rule admissionv1.RuleWithOperations) bool {
			return admission.CoversGroup(&rule, a.Group) && admission.CoversVersion(&rule, a.Version)
		}) {
			called = append(called, p.Name)
		}
	}
	if called = text.Distinct(called); len(called) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("its own admission calls %s for those of its resources that their rules name: %s; it finds Services by DNS, and verifies and counts such calls itself", inventory.Counted(len(called), "webhook"), some(called))}
}
