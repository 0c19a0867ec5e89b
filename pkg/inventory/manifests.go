package inventory

import (
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

// Manifest is what a Snapshot keeps of an object that is still to be applied: a file
// has it, and no API server has stored it.
type Manifest struct {
	// Input is the file that holds it, the folder of the file in a directory that was read, or
	// that of the kustomization that makes it: what one holds is applied together.
	Input                string
	Group, Version, Kind string
	// Key lacks the namespace where the file states none: the installer adds its own.
	Key
	Labels map[string]string
	// Finalizers keep it from being removed until a controller takes them away; without
	// those that the API server takes away itself.
	Finalizers []string
	// Order are those of OrderAnnotations that it has.
	Order []string
	// Content is the object in JSON where it may be params of a policy, else "".
	Content string
}

// Applied is an object that is still to be applied, with the API's defaults.
type Applied struct {
	Object any
	// Unknown are the fields that it has and its kind has not, as paths.
	Unknown []string
}

// Misspelt are the Unknown fields of a CRD's conversion, and those that are nearly a field beside
// it; none of an object that is stored.
func (a *Applied) Misspelt() []string {
	if a == nil {
		return nil
	}
	return lists.Filter(a.Unknown, func(path string) bool {
		name, inSpec := strings.CutPrefix(path, "spec.")
		return strings.HasPrefix(path, "spec.conversion.") ||
			inSpec && LikelyName(name, []string{"conversion", "group", "names", "scope"}) != ""
	})
}

// The annotations by which installers order what they apply.
const (
	AnnotationHelmHook   = "helm.sh/hook"
	AnnotationArgoHook   = "argocd.argoproj.io/hook"
	AnnotationSyncWave   = "argocd.argoproj.io/sync-wave"
	AnnotationHelmPolicy = "helm.sh/resource-policy"
)

var OrderAnnotations = []string{AnnotationHelmHook, AnnotationArgoHook, AnnotationSyncWave, AnnotationHelmPolicy}

func (m *Manifest) String() string {
	if m.Namespace == "" {
		return m.Kind + " " + m.Name
	}
	return m.Kind + " " + m.Key.String()
}
