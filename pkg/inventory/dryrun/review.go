package dryrun

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var reviewVersions = []string{"v1", "v1beta1"}

// newReview is the AdmissionReview that the API server sends to the webhook, with its
// version. Source: CreateAdmissionObjects in
// k8s.io/apiserver/pkg/admission/plugin/webhook/request.
func (r Request) newReview(w *inventory.Webhook, object map[string]any) (admissionv1.AdmissionReview, error) {
	version := slices.IndexFunc(w.ReviewVersions, func(v string) bool { return slices.Contains(reviewVersions, v) })
	if version < 0 {
		return admissionv1.AdmissionReview{}, errors.New("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)")
	}
	kind := metav1.GroupVersionKind{Group: r.Kind.Group, Version: r.Kind.Version, Kind: r.Kind.Kind}
	resource := metav1.GroupVersionResource{Group: r.Resource.Group, Version: r.Version, Resource: r.Resource.Name}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.GroupName + "/" + w.ReviewVersions[version], Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: uuid.NewUUID(), Kind: kind, RequestKind: &kind, Resource: resource, RequestResource: &resource,
			Namespace: r.Namespace, Name: r.nameIn(object), Operation: admissionv1.Operation(r.Operation),
			UserInfo: r.User, DryRun: new(true),
		},
	}
	for field, value := range map[*runtime.RawExtension]map[string]any{
		&review.Request.Object: object, &review.Request.OldObject: r.Stored, &review.Request.Options: r.Options,
	} {
		if value == nil {
			continue
		}
		field.Raw, _ = json.Marshal(value) // it was read from JSON
	}
	return review, nil
}

// nameIn is the name of the request, or the one that was generated for the object meanwhile.
func (r Request) nameIn(object map[string]any) string {
	generated, _ := mapAt(object, "metadata")["name"].(string)
	return cmp.Or(r.Name, generated)
}

// verify returns the response in an answer, or why the API server takes it for none. Source:
// VerifyAdmissionResponse in the same package.
func verify(body []byte, review admissionv1.AdmissionReview,
	mutating inventory.Type,
) (*admissionv1.AdmissionResponse, error) {
	var answer admissionv1.AdmissionReview
	err := error(nil)
	if !yaml.IsJSONBuffer(body) { // API servers take YAML as well
		body, err = yaml.ToJSON(body)
	}
	if err == nil {
		err = utiljson.Unmarshal(body, &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	response, first := answer.Response, review.APIVersion == admissionv1.SchemeGroupVersion.String()
	patched := response != nil && len(response.Patch) > 0
	typed := response != nil && response.PatchType != nil
	const invalid = "received invalid webhook response: "
	switch {
	case response == nil:
		return nil, errors.New(invalid + "webhook response was absent")
	case first && response.UID != review.Request.UID:
		return nil, fmt.Errorf(invalid+"response.uid must be %q, not %q", review.Request.UID, response.UID)
	case first && answer.TypeMeta != review.TypeMeta:
		return nil, fmt.Errorf(invalid+"must be %s, not %s", review.GroupVersionKind(), answer.GroupVersionKind())
	case first && mutating != inventory.Mutating && (patched || typed):
		return nil, errors.New(invalid + "validating webhook may not return response.patch or response.patchType")
	case first && mutating == inventory.Mutating && patched != typed:
		return nil, errors.New(invalid + "webhook returned one of response.patch and response.patchType without the other")
	case first && patched && *response.PatchType != admissionv1.PatchTypeJSONPatch:
		return nil, fmt.Errorf("unsupported patch type %q", *response.PatchType)
	case mutating != inventory.Mutating:
		response.Patch = nil
	}
	return response, nil
}
