package manifest

import (
	"path"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// layout is how files are laid out in a directory or archive.
type layout uint8

const (
	// plain files are manifests: none of them is known to be complete.
	plain layout = iota
	// mustGather is what oc adm must-gather writes.
	mustGather
	// inspect is what oc adm inspect writes: the same, of less.
	inspect
	// insights is an archive of OpenShift's Insights Operator.
	insights
	// clusterDump is what kubectl cluster-info dump writes.
	clusterDump
)

// name is the layout as a report writes it.
func (l layout) name() string {
	return [...]string{"manifests", "must-gather", "oc adm inspect", "insights archive", "cluster-info dump"}[l]
}

// recognize notes the layout that a file shows. A file of an insights archive
// outweighs those of a must-gather: an insights archive has a folder
// cluster-scoped-resources, too, with roles and bindings.
func (in *input) recognize(name string) {
	if shown := layoutOf(name); in.layout == plain || shown == insights {
		in.layout = shown
	}
}

// layoutOf returns the layout that a file of that path belongs to; plain where
// any layout may have such a file.
func layoutOf(name string) layout {
	segments := strings.Split(name, "/")
	base := segments[len(segments)-1]
	switch stem, _, _ := strings.Cut(base, "."); {
	case strings.HasPrefix(segments[0], "inspect.local."):
		return inspect
	case strings.HasPrefix(segments[0], "must-gather.local."):
		return mustGather
	case onlyInsights(segments):
		return insights
	case slices.Contains(segments, "cluster-scoped-resources"),
		base == "must-gather.logs", base == "event-filter.html":
		return mustGather
	case stem == "replication-controllers" && isDumped(base):
		return clusterDump
	}
	return plain
}

// onlyInsights reports whether only an insights archive has such a file.
func onlyInsights(segments []string) bool {
	n := len(segments)
	if n < 2 || !strings.HasSuffix(segments[n-1], ".json") {
		return false
	}
	if n > 2 && segments[n-3] == "config" {
		switch segments[n-2] {
		case "clusteroperator", "validatingwebhookconfigurations", "mutatingwebhookconfigurations":
			return true
		}
	}
	return segments[n-2] == "insights-operator" && segments[n-1] == "gathers.json" ||
		segments[n-2] == "config" && segments[n-1] == "version.json"
}

// fileRole is the content of a file by its path in a layout.
type fileRole struct {
	// implied is the type of objects that do not state theirs.
	implied typeMeta
	// complete are the objects of the namespace that are all in the file.
	complete  objectSet
	namespace string
}

// completeness is that a file holds all objects of a set. It is confirmed if the
// input has the layout and the file is a readable list: a full disk leaves empty
// files behind.
type completeness struct {
	layout layout
	fileRole
}

// completeness returns what a file may be complete of. While the layout of an
// archive is not known yet, each layout counts.
func (l layout) completeness(name string) []completeness {
	layouts := []layout{l}
	if l == plain {
		layouts = []layout{mustGather, inspect, clusterDump}
	}
	var out []completeness
	for _, l := range layouts {
		if r, ok := l.role(name); ok && r.complete != nothing {
			out = append(out, completeness{l, r})
		}
	}
	return out
}

// objectSet are objects that a file may hold all of.
type objectSet uint8

const (
	nothing objectSet = iota
	allServices
	allSlices
	allEndpoints
	allPods
	allNodes
)

// role returns the role of a file. It reports false for those that are not
// read: logs, and kinds that no check needs.
func (l layout) role(name string) (fileRole, bool) {
	segments := strings.Split(name, "/")
	switch l {
	case mustGather, inspect:
		return firstRole(segments, mustGatherRole, insightsRole)
	case insights:
		return firstRole(segments, insightsRole, mustGatherRole)
	case clusterDump:
		return clusterDumpRole(segments)
	}
	// An archive may be recognized by a later file.
	in, _ := insightsRole(segments)
	return fileRole{implied: in.implied}, isManifest(name)
}

// firstRole tries both layouts: an insights archive may be recognized by a later
// file, and a folder may hold one of each.
func firstRole(segments []string, layouts ...func([]string) (fileRole, bool)) (fileRole, bool) {
	for _, roleIn := range layouts {
		if r, read := roleIn(segments); read {
			return r, true
		}
	}
	return fileRole{}, false
}

// isManifest reports whether a file of a directory is read, as kubectl does.
func isManifest(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// clusterScoped are the resources of a must-gather that are read, by the
// folder of their group.
var clusterScoped = map[string][]string{
	"admissionregistration.k8s.io": {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"},
	"apiextensions.k8s.io":         {"customresourcedefinitions"},
	"apiregistration.k8s.io":       {"apiservices"},
	"config.openshift.io":          {"clusterversions", "clusteroperators"},
	"core":                         {"namespaces", "nodes"},
}

// mustGatherRole knows cluster-scoped-resources/GROUP/RESOURCE.yaml,
// namespaces/NS/NS.yaml and namespaces/NS/GROUP/RESOURCE.yaml, or a file for
// each object in a folder of the resource. These may be in folders of the images
// that collected them.
func mustGatherRole(segments []string) (fileRole, bool) {
	if !isManifest(segments[len(segments)-1]) || slices.ContainsFunc(segments, isHosted) {
		return fileRole{}, false
	}
	if i := slices.Index(segments, "cluster-scoped-resources"); i >= 0 {
		group, resource, _ := resourceOf(segments[i+1:])
		return fileRole{}, slices.Contains(clusterScoped[group], resource)
	}
	i := slices.Index(segments, "namespaces")
	if i < 0 || len(segments) < i+3 {
		return fileRole{}, false
	}
	namespace, rest := segments[i+1], segments[i+2:]
	if len(rest) == 1 {
		return fileRole{}, strings.TrimSuffix(rest[0], path.Ext(rest[0])) == namespace
	}
	group, resource, all := resourceOf(rest)
	c, read := namespaced[group+"/"+resource]
	if !all {
		c = nothing
	}
	return fileRole{complete: c, namespace: namespace}, read
}

// isHosted reports whether the folder is of a cluster that is hosted on this one.
func isHosted(segment string) bool { return strings.HasPrefix(segment, "hostedcluster-") }

// namespaced are the resources in the namespaces of a must-gather that are
// read, and what a list of them is complete of.
var namespaced = map[string]objectSet{
	"core/services":                   allServices,
	"core/endpoints":                  allEndpoints,
	"core/pods":                       allPods,
	"discovery.k8s.io/endpointslices": allSlices,
	"apps/deployments":                nothing,
	"apps/statefulsets":               nothing,
	"apps/daemonsets":                 nothing,
}

// resourceOf splits GROUP/RESOURCE.yaml or GROUP/RESOURCE/NAME.yaml, and says
// whether the file holds all objects rather than one.
func resourceOf(segments []string) (group, resource string, all bool) {
	switch len(segments) {
	case 2:
		return segments[0], strings.TrimSuffix(segments[1], path.Ext(segments[1])), true
	case 3:
		return segments[0], segments[1], false
	}
	return "", "", false
}

// insightsTypes are the files of an insights archive that are read. Its
// objects do not state their types.
var insightsTypes = map[string]typeMeta{
	"version.json":                    {"config.openshift.io/v1", "ClusterVersion"},
	"clusteroperator":                 {"config.openshift.io/v1", "ClusterOperator"},
	"validatingwebhookconfigurations": {"admissionregistration.k8s.io/v1", inventory.KindValidating},
	"mutatingwebhookconfigurations":   {"admissionregistration.k8s.io/v1", inventory.KindMutating},
	"crd":                             {"apiextensions.k8s.io/v1", inventory.KindCRD},
	"apiservice":                      {"apiregistration.k8s.io/v1", "APIService"},
}

func insightsRole(segments []string) (fileRole, bool) {
	i := slices.Index(segments, "config")
	if i < 0 || !strings.HasSuffix(segments[len(segments)-1], ".json") || len(segments) < i+2 || len(segments) > i+3 {
		return fileRole{}, false
	}
	implied, read := insightsTypes[segments[i+1]]
	return fileRole{implied: implied}, read
}

// dumpedLists are the files of a cluster-info dump that are read, and what they
// are complete of.
var dumpedLists = map[string]objectSet{
	"services":    allServices,
	"pods":        allPods,
	"deployments": nothing,
	"daemonsets":  nothing,
	"nodes":       allNodes,
}

// isDumped reports whether kubectl cluster-info dump writes files of that name.
func isDumped(base string) bool {
	ext := path.Ext(base)
	return ext == ".json" || ext == ".yaml"
}

// clusterDumpRole knows nodes.json and NAMESPACE/RESOURCE.json.
func clusterDumpRole(segments []string) (fileRole, bool) {
	n := len(segments)
	stem := strings.TrimSuffix(segments[n-1], path.Ext(segments[n-1]))
	c, read := dumpedLists[stem]
	if !read || !isDumped(segments[n-1]) || c != allNodes && n < 2 {
		return fileRole{}, false
	}
	r := fileRole{complete: c}
	if c != allNodes {
		r.namespace = segments[n-2]
	}
	return r, true
}
