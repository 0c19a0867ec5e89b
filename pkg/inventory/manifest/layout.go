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
	// plain files are manifests: nothing is known to be complete.
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

// with is what is known of the layout after one more file. The marks of an
// insights archive outweigh those of a must-gather, for it has folders of a
// must-gather in it: cluster-scoped-resources, with the roles and bindings.
func (l layout) with(mark layout) layout {
	if l == plain || mark == insights {
		return mark
	}
	return l
}

// recognize says what layout a file of that path belongs to; plain is no
// evidence for anything.
func recognize(name string) layout {
	segments := strings.Split(name, "/")
	base := segments[len(segments)-1]
	switch stem, _, _ := strings.Cut(base, "."); {
	case strings.HasPrefix(segments[0], "inspect.local."):
		return inspect
	case strings.HasPrefix(segments[0], "must-gather.local."):
		return mustGather
	case insightsMark(segments):
		return insights
	case slices.Contains(segments, "cluster-scoped-resources"),
		base == "must-gather.logs", base == "event-filter.html":
		return mustGather
	case stem == "replication-controllers" && dumped(base):
		return clusterDump
	}
	return plain
}

// insightsMark reports whether only an insights archive has such a file.
func insightsMark(segments []string) bool {
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

// role is what a file of a layout is for.
type role struct {
	// implied is the type of objects that do not say theirs.
	implied typeMeta
	// collected says of what the file holds all that there is in the
	// namespace.
	collected collected
	namespace string
}

// claim says that a file holds all that there was of something, if its input
// turns out to have the layout, and the file to be a list and readable: a full
// disk leaves empty files behind.
type claim struct {
	input  int
	layout layout
	role
}

// claims returns what a file may claim. While an archive's layout is not known
// yet, that is up to each of the layouts.
func (l layout) claims(input int, name string) []claim {
	layouts := []layout{l}
	if l == plain {
		// A packed archive may be recognized only further on.
		layouts = []layout{mustGather, inspect, clusterDump}
	}
	var out []claim
	for _, l := range layouts {
		if r, ok := l.role(name); ok && r.collected != nothing {
			out = append(out, claim{input: input, layout: l, role: r})
		}
	}
	return out
}

// collected is a kind of objects that a file holds all of.
type collected uint8

const (
	nothing collected = iota
	allServices
	allSlices
	allEndpoints
	allPods
	allNodes
)

// role returns what a file is for. It reports false for those that are not
// read: logs, and kinds that nobody asks for.
func (l layout) role(name string) (role, bool) {
	segments := strings.Split(name, "/")
	switch l {
	case mustGather, inspect:
		return firstRole(segments, mustGatherRole, insightsRole)
	case insights:
		return firstRole(segments, insightsRole, mustGatherRole)
	case clusterDump:
		return clusterDumpRole(segments)
	}
	// An archive may be recognized only further on.
	unsaid, _ := insightsRole(segments)
	return role{implied: unsaid.implied}, manifestName(name)
}

// firstRole asks for both layouts: a packed insights archive may be recognized
// only further on, and a folder may hold one of each.
func firstRole(segments []string, layouts ...func([]string) (role, bool)) (role, bool) {
	for _, roleIn := range layouts {
		if r, read := roleIn(segments); read {
			return r, true
		}
	}
	return role{}, false
}

// manifestName reports whether a file of a directory is read, as kubectl does.
func manifestName(name string) bool {
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

// mustGatherRole reads cluster-scoped-resources/GROUP/RESOURCE.yaml,
// namespaces/NS/NS.yaml and namespaces/NS/GROUP/RESOURCE.yaml, or a file for
// each object in a folder of the resource. All of that may stand in folders of
// the images that collected it.
func mustGatherRole(segments []string) (role, bool) {
	if !manifestName(segments[len(segments)-1]) || slices.ContainsFunc(segments, hosted) {
		return role{}, false
	}
	if i := slices.Index(segments, "cluster-scoped-resources"); i >= 0 {
		group, resource, _ := resourceOf(segments[i+1:])
		return role{}, slices.Contains(clusterScoped[group], resource)
	}
	i := slices.Index(segments, "namespaces")
	if i < 0 || len(segments) < i+3 {
		return role{}, false
	}
	namespace, rest := segments[i+1], segments[i+2:]
	if len(rest) == 1 {
		return role{}, strings.TrimSuffix(rest[0], path.Ext(rest[0])) == namespace
	}
	group, resource, all := resourceOf(rest)
	c, read := namespaced[group+"/"+resource]
	if !all {
		c = nothing
	}
	return role{collected: c, namespace: namespace}, read
}

// hosted reports whether the folder holds another cluster, one that is hosted
// on this one.
func hosted(segment string) bool { return strings.HasPrefix(segment, "hostedcluster-") }

// namespaced are the resources in the namespaces of a must-gather that are
// read, and what a list of them tells.
var namespaced = map[string]collected{
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
// objects do not say their types.
var insightsTypes = map[string]typeMeta{
	"version.json":                    {"config.openshift.io/v1", "ClusterVersion"},
	"clusteroperator":                 {"config.openshift.io/v1", "ClusterOperator"},
	"validatingwebhookconfigurations": {"admissionregistration.k8s.io/v1", inventory.KindValidating},
	"mutatingwebhookconfigurations":   {"admissionregistration.k8s.io/v1", inventory.KindMutating},
	"crd":                             {"apiextensions.k8s.io/v1", inventory.KindCRD},
	"apiservice":                      {"apiregistration.k8s.io/v1", "APIService"},
}

func insightsRole(segments []string) (role, bool) {
	i := slices.Index(segments, "config")
	if i < 0 || !strings.HasSuffix(segments[len(segments)-1], ".json") || len(segments) < i+2 || len(segments) > i+3 {
		return role{}, false
	}
	implied, read := insightsTypes[segments[i+1]]
	return role{implied: implied}, read
}

// dumpedLists are the files of a cluster-info dump that are read, and what
// they tell.
var dumpedLists = map[string]collected{
	"services":    allServices,
	"pods":        allPods,
	"deployments": nothing,
	"daemonsets":  nothing,
	"nodes":       allNodes,
}

// dumped reports whether kubectl cluster-info dump could have written a file of
// that name.
func dumped(base string) bool {
	ext := path.Ext(base)
	return ext == ".json" || ext == ".yaml"
}

// clusterDumpRole reads nodes.json and NAMESPACE/RESOURCE.json.
func clusterDumpRole(segments []string) (role, bool) {
	n := len(segments)
	stem := strings.TrimSuffix(segments[n-1], path.Ext(segments[n-1]))
	c, read := dumpedLists[stem]
	if !read || !dumped(segments[n-1]) || c != allNodes && n < 2 {
		return role{}, false
	}
	r := role{collected: c}
	if c != allNodes {
		r.namespace = segments[n-2]
	}
	return r, true
}
