package manifest

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type layout uint8

const (
	// plain files are manifests: none of them is known to be complete.
	plain layout = iota
	mustGather
	// inspect is what oc adm inspect writes: the same, of less.
	inspect
	insights
	clusterDump
)

func (l layout) name() string {
	return [...]string{"manifests", "must-gather", "oc adm inspect", "insights archive", "cluster-info dump"}[l]
}

// recognize notes the layout that a file shows. A file of an insights archive
// outweighs those of a must-gather: an insights archive has a folder
// cluster-scoped-resources, too, with roles and bindings.
func (in *input) recognize(name string) {
	for _, s := range layoutSigns {
		if s.file.MatchString(name) {
			if in.layout == plain || s.layout == insights {
				in.layout = s.layout
			}
			return
		}
	}
}

// layoutSigns are the files that only one layout has.
var layoutSigns = []struct {
	layout layout
	file   *regexp.Regexp
}{
	{inspect, regexp.MustCompile(`^inspect\.local\.`)},
	{mustGather, regexp.MustCompile(`^must-gather\.local\.`)},
	{insights, regexp.MustCompile(`(^|/)(config/(clusteroperator|(validating|mutating)webhookconfigurations)/[^/]+|config/version|insights-operator/gathers)\.json$`)},
	{mustGather, regexp.MustCompile(`(^|/)(cluster-scoped-resources/|must-gather\.logs$|event-filter\.html$)`)},
	{clusterDump, regexp.MustCompile(`(^|/)replication-controllers\.(json|yaml)$`)},
}

// fileRole is the content of a file by its path in a layout.
type fileRole struct {
	// implied is the type of objects that do not state theirs.
	implied schema.GroupVersionKind
	// complete is the resource, as GROUP/RESOURCE, of which all objects of the namespace are in
	// the file, if it is a list that can be read: a full disk leaves empty files behind.
	complete, namespace string
}

// The resources of which it matters that a file holds all.
const (
	allServices = "core/services"
	allSlices   = "discovery.k8s.io/endpointslices"
	allPods     = "core/pods"
	allNodes    = "core/nodes"
)

// role returns the role of a file. It reports false for those that are not
// read: logs, and kinds that no check needs.
func (l layout) role(name string) (fileRole, bool) {
	switch l {
	case mustGather, inspect, insights:
		// An insights archive may be recognized by a later file, and a folder may hold
		// one of each.
		if r, read := mustGatherRole(name); read {
			return r, true
		}
		return insightsRole(name)
	case clusterDump:
		return clusterDumpRole(name)
	}
	// An archive may be recognized by a later file.
	role, _ := insightsRole(name)
	return fileRole{implied: role.implied}, isManifest(name)
}

// isManifest reports whether a file of a directory is read, as kubectl does.
func isManifest(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// gathered are the resources of a must-gather that are read, as GROUP/RESOURCE.
var gathered = func() map[string]bool {
	out := map[string]bool{}
	for name := range decoders {
		kind := schema.ParseGroupKind(name)
		resource, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
		out[cmp.Or(kind.Group, "core")+"/"+resource.Resource] = true
	}
	return out
}()

// gatheredFile matches the files of all objects of a resource, GROUP/RESOURCE.yaml, or
// of one, GROUP/RESOURCE/NAME.yaml; both may be in folders of the images that
// collected them.
var gatheredFile = regexp.MustCompile(`(?:^|/)(?:cluster-scoped-resources|namespaces/([^/]+))/([^/]+/[^/]+?)(/[^/]+)?\.[^./]+$`)

// namespaceFile matches namespaces/NAMESPACE/NAMESPACE.yaml.
var namespaceFile = regexp.MustCompile(`(?:^|/)namespaces/([^/]+)/([^/]+)\.[^./]+$`)

func mustGatherRole(name string) (fileRole, bool) {
	if !isManifest(name) || hostedFolder(name) != "" {
		return fileRole{}, false
	}
	if m := namespaceFile.FindStringSubmatch(name); m != nil && m[1] == m[2] {
		return fileRole{}, true
	}
	m := gatheredFile.FindStringSubmatch(name)
	if m == nil {
		return fileRole{}, false
	}
	namespace, resource, one := m[1], m[2], m[3]
	role := fileRole{complete: resource, namespace: namespace}
	if one != "" {
		role.complete = ""
	}
	return role, gathered[resource]
}

// hostedFolder returns the folder of a cluster that is hosted on this one, "" for a
// file of none.
func hostedFolder(name string) string {
	i := strings.Index("/"+name, "/hostedcluster-")
	if i < 0 {
		return ""
	}
	folder, _, _ := strings.Cut(name[i:], "/")
	return name[:i] + folder
}

// insightsTypes are the files of an insights archive that are read, and the folders.
// Its objects do not state their types.
var insightsTypes = map[string]schema.GroupVersionKind{
	"version":                         schema.FromAPIVersionAndKind("config.openshift.io/v1", "ClusterVersion"),
	"clusteroperator":                 schema.FromAPIVersionAndKind("config.openshift.io/v1", "ClusterOperator"),
	"validatingwebhookconfigurations": schema.FromAPIVersionAndKind("admissionregistration.k8s.io/v1", inventory.KindValidating),
	"mutatingwebhookconfigurations":   schema.FromAPIVersionAndKind("admissionregistration.k8s.io/v1", inventory.KindMutating),
	"crd":                             schema.FromAPIVersionAndKind("apiextensions.k8s.io/v1", inventory.KindCRD),
	"apiservice":                      schema.FromAPIVersionAndKind("apiregistration.k8s.io/v1", "APIService"),
}

// insightsFile matches config/NAME.json and config/FOLDER/NAME.json.
var insightsFile = regexp.MustCompile(`(?:^|/)config/([^/]+?)(?:/[^/]+)?\.json$`)

func insightsRole(name string) (fileRole, bool) {
	if !isManifest(name) {
		return fileRole{}, false
	}
	m := insightsFile.FindStringSubmatch(name)
	if m == nil {
		return fileRole{}, false
	}
	implied, read := insightsTypes[m[1]]
	return fileRole{implied: implied}, read
}

// dumpedLists are the files of a cluster-info dump that are read, and what they
// are complete of.
var dumpedLists = map[string]string{
	"services":    allServices,
	"pods":        allPods,
	"deployments": "apps/deployments",
	"daemonsets":  "apps/daemonsets",
	"nodes":       allNodes,
}

// clusterDumpRole knows nodes.json and NAMESPACE/RESOURCE.json.
func clusterDumpRole(name string) (fileRole, bool) {
	folder, base := path.Split(name)
	all, read := dumpedLists[strings.TrimSuffix(base, path.Ext(base))]
	switch {
	case !read || !isManifest(base):
		return fileRole{}, false
	case all == allNodes:
		return fileRole{complete: all}, true
	}
	return fileRole{complete: all, namespace: path.Base(folder)}, folder != ""
}
