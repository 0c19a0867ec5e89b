package impact

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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
	return []Card{{
		APIService: &a, Name: a.Name, Title: fmt.Sprintf("APIService %s, served by Service %s", a.Name, a.Service.Key),
		Commands: []string{commands.Disable}, Sections: []Section{},
		Summary: []Fact{
			{"called for", servesInWords(r, a)},
			{"if it fails", fmt.Sprintf("every request to %s/%s fails with 503", a.Group, a.Version)},
			{"stops", "deletion of namespaces (NamespaceDeletionDiscoveryFailure); garbage collection of its objects; kubectl get all and Helm print errors"},
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
	return strings.Join(out, ", ")
}
