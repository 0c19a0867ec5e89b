package dryrun

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

// SchemaOf is the schema of a version of a custom resource; nil where the version has none.
func SchemaOf(crd *v1.CustomResourceDefinition, version string) (*structuralschema.Structural, error) {
	internal := &apiextensions.CustomResourceDefinition{}
	err := v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil)
	if err != nil || crd.Spec.PreserveUnknownFields {
		return nil, err
	}
	written, err := apiextensions.GetSchemaForVersion(internal, version)
	if err != nil || written == nil {
		return nil, err
	}
	return structuralschema.NewStructural(written.OpenAPIV3Schema)
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
