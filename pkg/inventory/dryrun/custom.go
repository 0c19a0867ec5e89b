package dryrun

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// SchemaOf is the schema of a version of a custom resource; nil where the version has none.
func SchemaOf(crd *v1.CustomResourceDefinition, version string) (*structuralschema.Structural, error) {
	hasName := func(v v1.CustomResourceDefinitionVersion) bool { return v.Name == version }
	i := slices.IndexFunc(crd.Spec.Versions, hasName)
	if i < 0 || crd.Spec.PreserveUnknownFields {
		return nil, nil
	}
	written := ptr.Deref(crd.Spec.Versions[i].Schema, v1.CustomResourceValidation{})
	internal := &apiextensions.CustomResourceValidation{}
	err := v1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(&written, internal, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", crd.Name, err)
	}
	return structuralschema.NewStructural(internal.OpenAPIV3Schema)
}

// pruned is a custom resource without the fields that its schema lacks, as the API server decodes
// what is sent. Source: schemaCoercer in k8s.io/apiextensions-apiserver/pkg/apiserver.
func (x *run) pruned(object map[string]any) map[string]any {
	if x.Schema == nil {
		return object
	}
	out := runtime.DeepCopyJSON(object)
	if own, found, err := objectmeta.GetObjectMeta(out, false); err == nil && found {
		_ = objectmeta.SetObjectMeta(out, own) // it was read from there
	}
	pruning.Prune(out, x.Schema, true)
	structuraldefaulting.PruneNonNullableNullsWithoutDefaults(out, x.Schema)
	return out
}
