package manifest

import (
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func (r *reader) manifest(f *file, meta schema.GroupVersionKind, object metav1.Object, content []byte) {
	switch {
	case !f.plain || object.GetName() == "":
		return
	case object.GetUID() != "" || object.GetResourceVersion() != "":
		f.input.stored = f.input.stored || !f.lenient || isRegistration(meta.Kind) ||
			slices.Contains(policyKinds, meta.Kind)
		return
	}
	m := inventory.Manifest{
		Input: f.name,
		Group: meta.Group, Version: meta.Version, Kind: meta.Kind,
		Key:    inventory.Key{Namespace: object.GetNamespace(), Name: object.GetName()},
		Labels: object.GetLabels(), Content: string(content),
	}
	m.Finalizers = slices.DeleteFunc(slices.Clone(object.GetFinalizers()), removedByCluster)
	switch {
	case f.unit != nil && f.unit.kustomized:
		m.Input = f.unit.name
	case f.member != "":
		m.Input = filepath.Dir(f.name)
	}
	for _, key := range inventory.OrderAnnotations {
		if _, annotated := object.GetAnnotations()[key]; annotated {
			m.Order = append(m.Order, key)
		}
	}
	if len(f.input.manifests) < r.limits.objects {
		f.input.manifests = append(f.input.manifests, noted{m, f.unit})
	}
}

// metadata notes an object of a kind that is not read, which need not be valid
// otherwise. One that is stored is of a copy of a cluster.
func (r *reader) metadata(v value, meta schema.GroupVersionKind) {
	var object metav1.PartialObjectMetadata
	if v.file.plain && decode(v.json, &object) == nil && object.ResourceVersion == "" {
		r.manifest(v.file, meta, &object, v.json)
	}
}

// toApply reports whether the input is no copy of a cluster, as far as it is known.
func (in *input) toApply() bool { return !in.stored && !in.archive && in.layout == plain }

// toApply are the objects of the inputs that are no copy of a cluster, as far as it
// is known.
func toApply(inputs []*input) []inventory.Manifest {
	var out []inventory.Manifest
	for _, input := range inputs {
		for _, m := range input.manifests {
			if input.toApply() && (m.unit == nil || !m.unit.left) {
				out = append(out, m.Manifest)
			}
		}
	}
	return out
}

// removedByCluster reports whether the API server or a controller of the cluster itself
// takes the finalizer away. Source: pkg/volume/util/finalizer.go of k8s.io/kubernetes, and
// the constants of k8s.io/api and k8s.io/cloud-provider.
func removedByCluster(finalizer string) bool {
	return !strings.Contains(finalizer, "/") || slices.Contains([]string{
		"batch.kubernetes.io/job-tracking", "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection", "kubernetes.io/vac-protection",
		"networking.k8s.io/service-cidr-finalizer", "resource.kubernetes.io/delete-protection", "service.kubernetes.io/load-balancer-cleanup",
	}, finalizer)
}
