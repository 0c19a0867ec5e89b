package cluster

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// heavy is metadata as kubectl and controllers leave it, of an object that two
// changed, last at minute 2, and whose status was written at minute 5.
func heavy(name string) metav1.ObjectMeta {
	managed := func(manager string, minute int, subresource string) metav1.ManagedFieldsEntry {
		t := metav1.NewTime(minuteTime(minute))
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "DROP", APIVersion: "DROP", Time: &t, Subresource: subresource,
			FieldsV1: metav1.NewFieldsV1(`{"DROP":{}}`),
		}
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: "policy", UID: "keep-uid", Generation: 7, ResourceVersion: "DROP",
		CreationTimestamp: metav1.NewTime(minuteTime(0)),
		Labels:            map[string]string{"keep": "label"},
		Annotations: map[string]string{
			"keep": "annotation",
			"kubectl.kubernetes.io/last-applied-configuration": "DROP",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{managed("keep-apply", 1, ""), managed("keep-update", 0, ""), managed("keep-apply", 2, ""), managed("DROP", 5, "status")},
	}
}

func heavyCRD() *apiextensionsv1.CustomResourceDefinition {
	crd := convertedCRD("things", "convert", "keep-service")
	crd.ObjectMeta = heavy("things.example.com")
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "DROP"
	crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "DROP"}}
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: "keep-scale"}}
	crd.Status.StoredVersions = []string{"keep-stored"}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "Keep-Established", Status: "True", Message: "DROP", LastTransitionTime: metav1.NewTime(minuteTime(5))}}
	return crd
}

func heavyService() *corev1.Service {
	svc := service("policy", "a")
	svc.ObjectMeta = heavy("a")
	svc.Spec.Selector = map[string]string{"keep": "selector"}
	svc.Spec.ExternalIPs = []string{"DROP"}
	svc.Status.Conditions = []metav1.Condition{{Type: "DROP"}}
	return svc
}

func heavySlice() *discoveryv1.EndpointSlice {
	slice := endpointSlice("policy", "a", true)
	slice.ObjectMeta = heavy("a-1")
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "keep-name", "DROP": "DROP"}
	zone := "keep-zone"
	slice.Endpoints[0].Zone = &zone
	slice.Endpoints[0].Addresses = []string{"keep-address", "DROP"}
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Name: "DROP"}
	return slice
}

func heavyTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"keep-pod": "label"}, Annotations: map[string]string{"DROP": "DROP"}},
		Spec: corev1.PodSpec{HostNetwork: true, PriorityClassName: "keep-class", Containers: []corev1.Container{{
			Name:           "DROP",
			Ports:          []corev1.ContainerPort{{Name: "keep-port", ContainerPort: 8443}, {Name: "DROP", Protocol: corev1.ProtocolUDP}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "DROP"}}},
			Lifecycle:      &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"DROP"}}}},
		}}},
	}
}

func heavyConfiguration() *admissionv1.ValidatingWebhookConfiguration {
	config := validating("v", kubetest.Client("policy", "keep-backend"))
	config.ObjectMeta = heavy("v")
	config.Webhooks[0].ClientConfig.CABundle = []byte("keep-ca")
	return config
}

var (
	policyMatch = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{Rule: admissionv1.Rule{Resources: []string{"keep-resource"}}},
	}}}
	policyConditions = []admissionv1.MatchCondition{{Name: "keep-condition", Expression: "true"}}
	policyVariables  = []admissionv1.Variable{{Name: "keep-variable", Expression: "true"}}
)

func heavyValidatingPolicy() *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: heavy("v"),
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: policyMatch,
			MatchConditions:  policyConditions,
			Variables:        policyVariables,
			Validations:      []admissionv1.Validation{{Expression: "keep-validation"}},
			AuditAnnotations: []admissionv1.AuditAnnotation{{Key: "DROP"}},
		},
		Status: admissionv1.ValidatingAdmissionPolicyStatus{
			TypeChecking: &admissionv1.TypeChecking{ExpressionWarnings: []admissionv1.ExpressionWarning{{Warning: "keep-warning"}}},
			Conditions:   []metav1.Condition{{Type: "DROP"}},
		},
	}
}

func heavyMutatingPolicy() *admissionv1.MutatingAdmissionPolicy {
	return &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: heavy("m"),
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: policyMatch,
			MatchConditions:  policyConditions,
			Variables:        policyVariables,
			Mutations:        []admissionv1.Mutation{{JSONPatch: &admissionv1.JSONPatch{Expression: "keep-patch"}}, {ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "keep-configuration"}}},
		},
	}
}

// unconvertedCRD is a CRD of whose metadata two annotations count.
func unconvertedCRD() *apiextensionsv1.CustomResourceDefinition {
	crd := heavyCRD()
	crd.Spec.Conversion = nil
	crd.Annotations = map[string]string{"api-approved.openshift.io": "https://example.com/1", "api-approved.kubernetes.io": "https://example.com/2", "note": "DROP"}
	return crd
}

func TestStrip(t *testing.T) {
	for _, tt := range []struct {
		name  string
		obj   metav1.Object
		strip func(metav1.Object)
		keeps []string
		// writers says that it is kept who wrote, and when.
		writers bool
	}{
		{"configuration", heavyConfiguration(), stripMeta, []string{"keep-uid", "keep-backend", "a2VlcC1jYQ"}, true},
		{"validating policy", heavyValidatingPolicy(), stripPolicy, []string{"keep-uid", "keep-resource", "keep-condition", "keep-warning", "keep-variable", "keep-validation"}, true},
		{"mutating policy", heavyMutatingPolicy(), stripPolicy, []string{"keep-uid", "keep-resource", "keep-condition", "keep-patch", "keep-variable", "keep-configuration"}, true},
		{"CRD", heavyCRD(), stripCRD, []string{"keep-uid", "keep-service", "keep-scale", "keep-stored", "Keep-Established"}, true},
		{"CRD without conversion", unconvertedCRD(), stripCRD, []string{"api-approved.openshift.io", "api-approved.kubernetes.io", "keep-scale", "keep-stored"}, false},
		{"namespace", &metav1.PartialObjectMetadata{ObjectMeta: heavy("policy")}, stripNamespace, []string{"label", "annotation"}, false},
		{"Service", heavyService(), stripService, []string{"selector", "127.10.0.1", "443"}, false},
		{"EndpointSlice", heavySlice(), stripSlice, []string{"keep-name", "keep-zone", "keep-address", "8443"}, false},
		{"Deployment", &appsv1.Deployment{ObjectMeta: heavy("a"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(7)), Template: heavyTemplate()}, Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: "DROP"}}}}, stripDeployment, []string{"keep-pod", "keep-class", "hostNetwork", `"replicas":7`}, false},
		{"PodDisruptionBudget", &policyv1.PodDisruptionBudget{ObjectMeta: heavy("a"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"keep": "selector"}}, MaxUnavailable: new(intstr.FromInt32(17))}, Status: policyv1.PodDisruptionBudgetStatus{Conditions: []metav1.Condition{{Type: "DROP"}}}}, stripDisruptionBudget, []string{"selector", "17"}, false},
		{"Pod", &corev1.Pod{ObjectMeta: heavy("a"), Spec: heavyTemplate().Spec, Status: corev1.PodStatus{Message: "DROP"}}, stripPod, []string{"keep-class", "keep-port", "readinessProbe", "preStop"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.strip(tt.obj)
			once := asJSON(t, tt.obj)
			expect.Contains(t, once, tt.keeps...)
			if strings.Contains(once, "DROP") {
				t.Errorf("kept too much: %s", once)
			}
			written := map[string]time.Time{}
			for _, f := range tt.obj.GetManagedFields() {
				written[f.Manager] = f.Time.UTC()
			}
			want := map[string]time.Time{}
			if tt.writers {
				want = map[string]time.Time{"keep-apply": minuteTime(2).UTC(), "keep-update": minuteTime(0).UTC()}
			}
			expect.Equal(t, want, written) // last written by
			tt.strip(tt.obj)
			expect.Equal(t, once, asJSON(t, tt.obj))                   // stripping twice is no other
			expect.Equal(t, once, asJSON(t, unpacked(packed(tt.obj)))) // packing loses nothing
		})
	}
}

// TestLastChanges: what was changed last is the same of an object as a cluster and as a
// must-gather has it.
func TestLastChanges(t *testing.T) {
	lastChange := func(crd *apiextensionsv1.CustomResourceDefinition) time.Time {
		objects := inventory.Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}
		return objects.Snapshot(minuteTime(9)).CRDs[crd.Name].Object.LastChanged
	}
	stripped := heavyCRD()
	stripCRD(stripped)
	expect.Equal(t, lastChange(heavyCRD()), lastChange(stripped))
}

func asJSON(t *testing.T, obj any) string {
	t.Helper()
	b := must.Get(json.Marshal(obj))(t)
	return string(b)
}
