package manifest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Summary says what was read.
type Summary struct {
	// Objects counts what was read, and Skipped what was not: other kinds, and
	// YAML that is no object of Kubernetes.
	Objects, Skipped int
	Inputs           []Input
	// Empty are what was collected or packed and has no webhook in it, where
	// nothing else has: that none is registered is not known by that.
	Empty []inventory.Error
}

// Input is what one path was taken for.
type Input = inventory.Input

// lacks are what an input may lack: what counts as having it, and what follows
// if it has not.
var lacks = []struct {
	kinds  []string
	lacked string
}{
	{[]string{inventory.KindValidating, inventory.KindMutating}, "no webhook configurations: nothing to audit but conversions"},
	{[]string{inventory.KindCRD}, "no CustomResourceDefinitions: conversions are unknown"},
	{[]string{"Namespace"}, "no Namespaces: their labels are unknown"},
	{[]string{"Service"}, "no Services: backends are unknown"},
	{[]string{"EndpointSlice", "Endpoints"}, "no EndpointSlices: endpoints are unknown"},
	{[]string{inventory.KindPod, inventory.KindDeployment, inventory.KindStatefulSet, inventory.KindDaemonSet}, "no Pods or workloads: what runs behind Services is unknown"},
}

// input says what a source was taken for and what it lacked, going by what was
// read from it.
func (s source) input(read contents, server inventory.Version) Input {
	if s.absent {
		return Input{Path: s.path}
	}
	in := Input{Path: s.path, Kind: s.layout.name(), Taken: s.taken(), Objects: read.objects, Skipped: read.skipped}
	if s.archive {
		in.Kind += " (archive)"
	}
	in.Lacks = lacking(read.kinds)
	if !server.Known() && len(read.kinds) > 0 {
		in.Lacks = append(in.Lacks, versionLack(read.kinds)...)
	}
	if len(read.removed) > 0 {
		in.Lacks = append(in.Lacks, removedVersions(read.removed))
	}
	if s.layout == insights {
		in.Lacks = append(in.Lacks, "no CA bundles: insights archives blank them")
	}
	for _, name := range slices.Sorted(maps.Keys(s.hosted)) {
		in.Lacks = append(in.Lacks, fmt.Sprintf("%s is another cluster: audit it by itself", name))
	}
	return in
}

// lacking says what follows from the kinds that there are not.
func lacking(kinds map[string]bool) []string {
	if len(kinds) == 0 {
		return []string{"nothing that tells of webhooks"}
	}
	var out []string
	for _, l := range lacks {
		if !slices.ContainsFunc(l.kinds, func(kind string) bool { return kinds[kind] }) {
			out = append(out, l.lacked)
		}
	}
	return out
}

// versionLack says what the version of the server is taken from, where nothing
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

// noteHosted remembers the folder of another cluster that is left out.
func (s *source) noteHosted(name string) {
	if s.layout != mustGather && s.layout != inspect {
		return
	}
	segments := strings.Split(name, "/")
	if i := slices.IndexFunc(segments, hosted); i >= 0 {
		s.hosted[strings.Join(segments[:i+1], "/")] = true
	}
}

// configurationList matches the file of a must-gather that lists all webhook
// configurations of a type.
var configurationList = regexp.MustCompile(`(^|/)admissionregistration\.k8s\.io/(validating|mutating)webhookconfigurations\.[a-z]+$`)

// empty is Summary.Empty.
func empty(o inventory.Objects, inputs []source) []inventory.Error {
	if len(o.Validating)+len(o.Mutating) > 0 || slices.ContainsFunc(o.CRDs, convertedByWebhook) {
		return nil
	}
	var out []inventory.Error
	for _, in := range inputs {
		if in.absent || in.listed || in.layout == plain && !in.archive {
			continue
		}
		cure := "; add what this prints: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,customresourcedefinitions -o yaml"
		if in.layout == plain {
			cure = "; templates are not read: render it first, as with helm template"
		}
		out = append(out, inventory.Error{
			Source:  inventory.Source{File: in.name()},
			Message: fmt.Sprintf("no webhook in it, read as %s, nor a list that says that there is none%s", in.layout.name(), cure),
		})
	}
	return out
}

func convertedByWebhook(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}

// name is the path as places in it are written.
func (s source) name() string {
	if s.path == "-" {
		return stdinName
	}
	return s.path
}

// removedVersions names the objects in versions of the API that are gone.
func removedVersions(names []string) string {
	text := fmt.Sprintf("%s is in v1beta1, which no API server since v1.22 takes: write it in v1", names[0])
	if len(names) > 1 {
		text = fmt.Sprintf("%s and %d more are in v1beta1, which no API server since v1.22 takes: write them in v1", names[0], len(names)-1)
	}
	return text
}
