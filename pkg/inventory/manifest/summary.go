package manifest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type Summary struct {
	Inputs []Input
	// Empty are archives and collections without a webhook, where no other input
	// has one: that none is registered does not follow.
	Empty []inventory.Error
}

type Input = inventory.Input

var policyKinds = []string{
	inventory.KindValidatingPolicy, inventory.KindValidatingPolicyBinding, inventory.KindMutatingPolicy,
	inventory.KindMutatingPolicyBinding,
}

// lacks are what an input may lack: the kinds of which it needs one, and what
// follows if it has none.
var lacks = []struct {
	kinds   []string
	message string
}{
	{[]string{inventory.KindValidating, inventory.KindMutating}, "no webhook configurations: nothing to audit but conversions"},
	{[]string{inventory.KindCRD}, "no CustomResourceDefinitions: conversions are unknown"},
	{[]string{"Namespace"}, "no Namespaces: their labels are unknown"},
	{[]string{"Service"}, "no Services: backends are unknown"},
	{[]string{"EndpointSlice"}, "no EndpointSlices: endpoints are unknown"},
	{[]string{"Pod", "Deployment", "StatefulSet", "DaemonSet"}, "no Pods or workloads: what runs behind Services is unknown"},
}

// maxLacks is how many objects of one kind a line about an input names.
const maxLacks = 5

func (in *input) summary(server inventory.Version) Input {
	if in.absent {
		return Input{Path: in.path}
	}
	out := Input{Path: in.path, Kind: in.layout.name(), Taken: in.takenTime(), Objects: in.objects, Skipped: in.skipped}
	if in.archive {
		out.Kind += " (archive)"
	}
	out.Lacks = append(lists.Bounded(in.unread, maxLacks, "%d more are not read either"), missingKinds(in.kinds)...)
	if (in.kinds[inventory.KindValidatingPolicy] || in.kinds[inventory.KindMutatingPolicy]) &&
		!in.kinds[inventory.KindValidatingPolicyBinding] && !in.kinds[inventory.KindMutatingPolicyBinding] {
		out.Lacks = append(out.Lacks, "no policy bindings: whether the policies have an effect is unknown")
	}
	if in.layout != plain && len(in.kinds) > 0 && !in.policiesListed &&
		!slices.ContainsFunc(policyKinds, func(kind string) bool { return in.kinds[kind] }) {
		out.Lacks = append(out.Lacks, "no admission policies: whether there are any is unknown")
	}
	if !server.Known() && len(in.kinds) > 0 {
		out.Lacks = append(out.Lacks, versionLack(in.kinds)...)
	}
	if len(in.partial) > 0 {
		out.Lacks = append(out.Lacks, partialServices(in.partial))
	}
	if bundles := in.placeholders.texts(); len(bundles) > 0 {
		out.Lacks = append(out.Lacks, fmt.Sprintf("%s to be filled in later, as %s: unknown", inventory.Counted(len(bundles), "CA bundle"), bundles[0]))
	}
	out.Lacks = append(out.Lacks, lists.Bounded(in.duplicates, maxLacks, "%d more objects have the name of another")...)
	out.Lacks = append(out.Lacks, lists.Bounded(in.ended.texts(), maxLacks, "%d more objects are in such a version")...)
	if in.layout == plain && !in.archive && len(in.roots) == 0 {
		out.Lacks = append(out.Lacks, lists.Bounded(in.patches.texts(), maxLacks, "%d more are patches")...)
	}
	if in.layout == plain && len(in.packed) > 0 {
		out.Lacks = append(out.Lacks, fmt.Sprintf("%s, as %s: not read; unpack first what holds manifests", inventory.Counted(len(in.packed), "packed file"), in.packed[0]))
	}
	if in.layout == insights {
		out.Lacks = append(out.Lacks, "no CA bundles: insights archives blank them")
	}
	for _, name := range slices.Sorted(maps.Keys(in.hosted)) {
		out.Lacks = append(out.Lacks, fmt.Sprintf("%s is another cluster: audit it by itself", name))
	}
	return out
}

func missingKinds(kinds map[string]bool) []string {
	if len(kinds) == 0 {
		return []string{"no webhook configurations, CRDs or related objects found"}
	}
	var out []string
	for _, l := range lacks {
		if !slices.ContainsFunc(l.kinds, func(kind string) bool { return kinds[kind] }) {
			out = append(out, l.message)
		}
	}
	return out
}

// versionLack says how the version of the server is guessed, where no object
// states it.
func versionLack(kinds map[string]bool) []string {
	switch {
	case kinds["Version"], kinds["ClusterVersion"], kinds["ClusterOperator"]:
		return nil
	case kinds["Node"]:
		return []string{"no server version but that of the newest kubelet"}
	}
	return []string{"no server version: it is taken to be the newest known"}
}

// noteHosted keeps the folder of a hosted cluster, which is left out.
func (in *input) noteHosted(name string) {
	if in.layout != mustGather && in.layout != inspect {
		return
	}
	if folder := hostedFolder(name); folder != "" {
		in.hosted[folder] = true
	}
}

// configurationList matches the file of a must-gather that lists all webhook
// configurations of a type.
var configurationList = regexp.MustCompile(`(^|/)admissionregistration\.k8s\.io/(validating|mutating)webhookconfigurations\.[a-z]+$`)

// policyList matches the same of admission policies.
var policyList = regexp.MustCompile(`(^|/)admissionregistration\.k8s\.io/(validating|mutating)admissionpolicies\.[a-z]+$`)

// withoutWebhooks is Summary.Empty.
func withoutWebhooks(o inventory.Objects, inputs []*input) []inventory.Error {
	if len(o.Validating)+len(o.Mutating) > 0 || slices.ContainsFunc(o.CRDs, convertedByWebhook) {
		return nil
	}
	var out []inventory.Error
	for _, input := range inputs {
		if input.absent || input.listed || input.layout == plain && !input.archive {
			continue
		}
		cure := "; add what this prints: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,customresourcedefinitions -o yaml"
		switch {
		case len(input.ended.texts()) > 0:
			cure = "; " + input.ended.texts()[0]
		case input.layout == plain && len(input.packed) > 0:
			cure = "; unpack " + input.packed[0]
		case input.layout == plain:
			cure = "; templates are not read: render it first, as with helm template"
		}
		out = append(out, inventory.Error{
			Source: inventory.Source{File: input.name()}, Resources: inventory.AnyResource,
			Message: fmt.Sprintf("no webhook in it, read as %s, nor a list that says that there is none%s", input.layout.name(), cure),
		})
	}
	return out
}

func convertedByWebhook(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}

func partialServices(names []string) string {
	if len(names) > 1 {
		return fmt.Sprintf("Services %s and %d more have no ports, which no API server takes: what they lead to is unknown", names[0], len(names)-1)
	}
	return fmt.Sprintf("Service %s has no ports, which no API server takes: what it leads to is unknown", names[0])
}
