package classify

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// edit is one operation of a JSON patch, RFC 6902.
type edit struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch is the command that makes the edits to the webhook. It tests the
// webhook's name first, so that it never hits another one that took its place.
func patch(p *Profile, edits ...edit) string {
	test := edit{"test", fieldPointer(p, "name"), p.Name}
	return edited(&p.Registration, append([]edit{test}, edits...)...)
}

func fieldPointer(p *Profile, field string) string {
	return fmt.Sprintf("/webhooks/%d/%s", p.Index, field)
}

func document(edits []edit) string {
	b, _ := text.JSON(edits, "") // strings, numbers and lists of them
	return strings.TrimSpace(string(b))
}

// set replaces a field of the webhook, or adds it.
func set(p *Profile, field string, value any) edit { return edit{"add", fieldPointer(p, field), value} }

// fill adds a field that the webhook has not, or has empty. It tests that first: of two such patches
// the second would replace what the first one added.
func fill(p *Profile, field string, empty, value any) []edit {
	return []edit{{"test", fieldPointer(p, field), empty}, set(p, field, value)}
}

func excludeNamespaces(p *Profile, namespaces []string) []edit {
	return excludeLabel(p, metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: namespaces,
	})
}

func excludeLabel(p *Profile, e metav1.LabelSelectorRequirement) []edit {
	switch {
	case p.NamespaceSelector.Empty(): // as API servers store it
		return fill(p, "namespaceSelector", struct{}{}, map[string][]metav1.LabelSelectorRequirement{"matchExpressions": {e}})
	case len(p.NamespaceSelector.Raw.MatchExpressions) == 0:
		return fill(p, "namespaceSelector/matchExpressions", nil, []metav1.LabelSelectorRequirement{e})
	}
	return []edit{set(p, "namespaceSelector/matchExpressions/-", e)}
}

// excludeRequests adds a matchCondition that is false for the requests, which
// the CEL expression describes.
func excludeRequests(p *Profile, requests string) []edit {
	c := admissionv1.MatchCondition{Name: "exclude", Expression: "!(" + requests + ")"}
	isTaken := func(other admissionv1.MatchCondition) bool { return other.Name == c.Name }
	for i := 2; slices.ContainsFunc(p.MatchConditions, isTaken); i++ {
		c.Name = fmt.Sprintf("exclude-%d", i)
	}
	if len(p.MatchConditions) == 0 {
		return fill(p, "matchConditions", nil, []admissionv1.MatchCondition{c})
	}
	return []edit{set(p, "matchConditions/-", c)}
}

// requestsTo is the CEL expression that is true for requests to the resources.
// A resource stands for its subresources too.
func requestsTo(resources []inventory.Resource) string {
	type parent struct{ group, subresource string }
	var parents []parent
	names := map[parent][]string{}
	for _, r := range resources {
		p := parent{r.Group, r.Subresource}
		if r.Subresource != "" && slices.Contains(resources, r.Parent()) {
			continue
		}
		if names[p] == nil {
			parents = append(parents, p)
		}
		if name := fmt.Sprintf("%q", r.Name); !slices.Contains(names[p], name) {
			names[p] = append(names[p], name)
		}
	}
	terms := make([]string, len(parents))
	for i, p := range parents {
		terms[i] = fmt.Sprintf("request.resource.group == %q && request.resource.resource in [%s]", p.group, strings.Join(names[p], ", "))
		if p.subresource != "" {
			terms[i] += fmt.Sprintf(" && has(request.subResource) && request.subResource == %q", p.subresource)
		}
	}
	return strings.Join(terms, " || ")
}

// byOwner says where to make a change that would be reverted otherwise.
func byOwner(p *Profile) string { return changedBy(p.Object.Owner) }

// changedBy is byOwner for the owner of any object.
func changedBy(owner inventory.Owner) string {
	if reverter := revertedBy(owner); reverter != "" {
		return "; " + reverter
	}
	return ""
}

// revertedBy says who undoes a change of the object, and where to change it for
// good; "" where nothing is known to own it.
func revertedBy(owner inventory.Owner) string {
	name := quoted(owner.Name)
	switch owner.Tool {
	case "", "webhook-auditor": // itself reverts nothing
		return ""
	case "helm":
		return fmt.Sprintf("the next helm upgrade reverts that: change the values or templates of release %s", name)
	case "olm":
		return fmt.Sprintf("OLM reverts that: change the ClusterServiceVersion %s, or the settings of its operator", name)
	case "argocd":
		return fmt.Sprintf("Argo CD reverts that: change the source of application %s", name)
	case "flux":
		return fmt.Sprintf("Flux reverts that: change the source of %s", name)
	}
	return fmt.Sprintf("%s owns the object and reverts that: change it there", quoted(owner.String()))
}
