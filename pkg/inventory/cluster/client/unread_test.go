package client

import (
	"bytes"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// protobuf returns the serializer of clients, and what it decodes with.
func protobuf(t *testing.T) (plain, partial runtime.Serializer) {
	t.Helper()
	c := codecs{serializer.NewCodecFactory(scheme()).WithoutConversion()}
	before, ok1 := runtime.SerializerInfoForMediaType(c.NegotiatedSerializer.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	now, ok2 := runtime.SerializerInfoForMediaType(c.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok1 || !ok2 {
		t.Fatal("no serializer of protobuf")
	}
	return before.Serializer, now.Serializer
}

func meta(name string, fieldsV1 *metav1.FieldsV1) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"app": name},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: fieldsV1}},
	}
}

// crd has what a start reads of a CRD, and the unread fields that set fills in.
func crd(name string, fieldsV1 *metav1.FieldsV1, set func(*apiextensionsv1.CustomResourceDefinitionVersion)) apiextensionsv1.CustomResourceDefinition {
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Served: true, Storage: true,
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
	}
	set(&version)
	path := "/convert"
	return apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: meta(name, fieldsV1),
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: name, Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version, {Name: "v2"}},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "a", Name: "b", Path: &path}},
					ConversionReviewVersions: []string{"v1"},
				},
			},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
}

func full(v *apiextensionsv1.CustomResourceDefinitionVersion) {
	v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Description: "of a widget"}},
	}}
	v.AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Age", Type: "date", JSONPath: ".x"}}
	v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.x"}}
}

func bare(*apiextensionsv1.CustomResourceDefinitionVersion) {}

// TestUnread: of an object, and of a list, everything is decoded but the unread
// fields; what the program writes is decoded whole.
func TestUnread(t *testing.T) {
	set, unset := metav1.NewFieldsV1(`{"f:spec":{}}`), (*metav1.FieldsV1)(nil)
	one, oneBare := crd("widgets.example.com", set, full), crd("widgets.example.com", unset, bare)
	two, twoBare := crd("gadgets.example.com", set, full), crd("gadgets.example.com", unset, bare)
	list := func(items ...apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinitionList {
		out := &apiextensionsv1.CustomResourceDefinitionList{
			TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinitionList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"},
		}
		for _, item := range items {
			item.TypeMeta = metav1.TypeMeta{}
			out.Items = append(out.Items, item)
		}
		return out
	}
	lease := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: meta("webhook-auditor", set),
	}
	for name, c := range map[string]struct{ sent, want runtime.Object }{
		"a CRD":          {&one, &oneBare},
		"a list of CRDs": {list(one, two), list(oneBare, twoBare)},
		"an empty list":  {list(), list()},
		"a lease":        {lease, lease},
	} {
		t.Run(name, func(t *testing.T) {
			plain, partial := protobuf(t)
			var b bytes.Buffer
			must.Succeed(t, plain.Encode(c.sent, &b))
			sent := bytes.Clone(b.Bytes())
			got, _, err := partial.Decode(b.Bytes(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			expect.Equal(t, c.want, got)
			if !bytes.Equal(sent, b.Bytes()) {
				t.Error("decoding changed what was received")
			}
		})
	}
}

// TestUnreadBroken: what is cut off anywhere is decoded, or refused, as by the
// decoder itself.
func TestUnreadBroken(t *testing.T) {
	plain, partial := protobuf(t)
	var b bytes.Buffer
	one := crd("widgets.example.com", metav1.NewFieldsV1("{}"), full)
	must.Succeed(t, plain.Encode(&one, &b))
	for n := range b.Len() {
		_, _, want := plain.Decode(b.Bytes()[:n], nil, nil)
		_, _, got := partial.Decode(b.Bytes()[:n], nil, nil)
		if (want == nil) != (got == nil) {
			t.Errorf("the first %d of %d bytes: %v, want %v", n, b.Len(), got, want)
		}
	}
}
