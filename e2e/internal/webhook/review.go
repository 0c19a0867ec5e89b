package webhook

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// review is a call's body: exactly one of the two has a Request.
type review struct {
	admission  admissionv1.AdmissionReview
	conversion apiextensionsv1.ConversionReview
}

func readReview(body io.Reader) (review, error) {
	var r review
	raw, err := io.ReadAll(body)
	if err != nil {
		return r, fmt.Errorf("reading the review: %w", err)
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return r, fmt.Errorf("decoding the review: %w", err)
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "admission.k8s.io/v1 AdmissionReview", "admission.k8s.io/v1beta1 AdmissionReview":
		err = json.Unmarshal(raw, &r.admission)
	case "apiextensions.k8s.io/v1 ConversionReview":
		err = json.Unmarshal(raw, &r.conversion)
	default:
		return r, fmt.Errorf("decoding the review: unknown kind %s %s", kind.APIVersion, kind.Kind)
	}
	if err == nil && r.admission.Request == nil && r.conversion.Request == nil {
		return r, fmt.Errorf("decoding the review: it has no request")
	}
	return r, err
}

func (r review) call() Call {
	if c := r.conversion.Request; c != nil {
		return Call{UID: c.UID, Operation: "CONVERT", Version: c.DesiredAPIVersion}
	}
	a := r.admission.Request
	resource := a.Resource.Resource
	if a.SubResource != "" {
		resource += "/" + a.SubResource
	}
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(a.Object.Raw, &object) // else there is none
	uid := a.UID
	a.UID = ""
	request, err := json.Marshal(a)
	if err != nil {
		panic(err) // unreachable: it was read from JSON
	}
	a.UID = uid
	return Call{
		UID:       a.UID,
		Operation: string(a.Operation),
		Group:     a.Resource.Group,
		Version:   a.Resource.Version,
		Resource:  resource,
		Namespace: a.Namespace,
		Name:      a.Name,
		DryRun:    a.DryRun != nil && *a.DryRun,

		Annotations: strings.Join(slices.Sorted(maps.Keys(object.Annotations)), " "),
		Request:     request,
	}
}

// answer is the body of the reply.
func (r review) answer(b Behaviour) []byte {
	var out any
	if r.conversion.Request != nil {
		out = apiextensionsv1.ConversionReview{TypeMeta: r.conversion.TypeMeta, Response: convert(r.conversion.Request, b)}
	} else {
		out = admissionv1.AdmissionReview{TypeMeta: r.admission.TypeMeta, Response: admit(r.admission.Request, b)}
	}
	body, err := json.Marshal(out)
	if err != nil {
		return []byte(err.Error()) // no review: the API server will say so
	}
	return body
}

func admit(request *admissionv1.AdmissionRequest, b Behaviour) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: b.Deny == ""}
	if b.Warn != "" {
		response.Warnings = []string{b.Warn}
	}
	if !response.Allowed {
		response.Result = &metav1.Status{Message: b.Deny, Code: http.StatusForbidden}
		return response
	}
	if b.Patch != "" {
		kind := admissionv1.PatchTypeJSONPatch
		response.PatchType, response.Patch = &kind, []byte(b.Patch)
	}
	return response
}

// convert changes the apiVersion and nothing else: the schemas of the tests'
// versions are equal.
func convert(request *apiextensionsv1.ConversionRequest, b Behaviour) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: request.UID}
	if b.Deny != "" {
		response.Result = metav1.Status{Status: metav1.StatusFailure, Message: b.Deny}
		return response
	}
	for _, object := range request.Objects {
		converted, err := withAPIVersion(object.Raw, request.DesiredAPIVersion)
		if err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			return response
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	response.Result = metav1.Status{Status: metav1.StatusSuccess}
	return response
}

func withAPIVersion(object []byte, version string) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, fmt.Errorf("decoding the object: %w", err)
	}
	fields["apiVersion"] = version
	return json.Marshal(fields)
}
