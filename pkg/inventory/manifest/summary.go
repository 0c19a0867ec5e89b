package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Summary says what was read.
type Summary struct {
	// Objects counts what was read, and Skipped what was not: other kinds, and
	// YAML that is no object of Kubernetes.
	Objects, Skipped int
	Inputs           []Input
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
	{[]string{"Version", "ClusterVersion", "ClusterOperator", "Node"}, "no server version: it is taken to be the newest known"},
}

// input says what a source was taken for and what it lacked, going by what was
// read from it.
func (s source) input(read contents) Input {
	if s.absent {
		return Input{Path: s.path}
	}
	in := Input{Path: s.path, Kind: s.layout.name(), Taken: s.taken(), Objects: read.objects, Skipped: read.skipped}
	if s.archive {
		in.Kind += " (archive)"
	}
	in.Lacks = lacking(read.kinds)
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
	if kinds["Node"] && !kinds["Version"] && !kinds["ClusterVersion"] && !kinds["ClusterOperator"] {
		out = append(out, "no server version but that of the newest kubelet")
	}
	return out
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
