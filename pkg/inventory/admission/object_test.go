package admission

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestRootFields: the fields are those of all kinds of Kubernetes' own.
func TestRootFields(t *testing.T) {
	want := map[string]bool{"apiVersion": true, "kind": true}
	for _, kind := range scheme.Scheme.AllKnownTypes() {
		if _, isObject := kind.FieldByName("ObjectMeta"); !isObject {
			continue
		}
		for field := range kind.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				want[name] = true
			}
		}
	}
	expect.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(slices.Values(rootFields)))
}

// TestObjectsAsAdmissionMeetsThem: what the API server fills in is not missing. The
// answers agree with e2e/suites/explain, which asks a real API server.
func TestObjectsAsAdmissionMeetsThem(t *testing.T) {
	const (
		pod        = `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: a}}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1000m}}}]}}`
		privileged = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, securityContext: {privileged: true}}]}}`
		job        = `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {metadata: {labels: {app: a}}}}}`
		configMap  = `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`
		secret     = `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: b}}`
		nameless   = `{apiVersion: v1, kind: ConfigMap, metadata: {generateName: c-}}`
		space      = `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`
		token      = `{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {audiences: [a]}}`
		binding    = `{apiVersion: v1, kind: Binding, metadata: {name: p}, target: {kind: Node, name: node}}`
	)
	labeled := Subject{Name: "x", Labels: map[string]string{"app": "a"}}
	for _, test := range []struct {
		op         Operation
		resource   string
		subject    Subject
		file       string
		expression string
		want       Match
		refused    bool
	}{
		{Create, "configmaps", Subject{Namespace: "shop"}, configMap, `object.metadata.namespace == "shop"`, Yes, false},
		{Create, "configmaps", Subject{Namespace: "shop"}, configMap, `object.metadata.namespace == "other"`, No, false},
		{Create, "configmaps", Subject{}, nameless, `object.metadata.name.startsWith("c-")`, Maybe, false},
		{Create, "configmaps", Subject{}, configMap, `has(object.data)`, Maybe, false},
		{Create, "configmaps", Subject{}, configMap, `object.metadata.annotations["a"] == "b"`, Yes, true},
		{Create, "configmaps", Subject{}, configMap, `object.metadata.labels["a"] == "b"`, Yes, true},
		{Create, "configmaps", Subject{Labels: map[string]string{}}, "", `has(object.metadata.labels)`, No, false},
		{Update, "configmaps", Subject{Labels: map[string]string{}, Patch: true}, "", `has(object.metadata.labels)`, Maybe, false},
		{Create, "configmaps", Subject{}, configMap, `!has(object.metadata.deletionTimestamp)`, Yes, false},
		{Create, "configmaps", Subject{}, configMap, `has(object.metadata.uid)`, Maybe, false},
		{Create, "secrets", Subject{}, secret, `object.data["a"] == "x"`, Maybe, false},
		{Create, "namespaces", Subject{}, space, `object.metadata.labels["` + corev1.LabelMetadataName + `"] == "shop"`, Yes, false},
		{Create, "namespaces", Subject{}, space, `has(object.metadata.namespace)`, No, false},
		{Create, "serviceaccounts/token", Subject{Name: "sa", Namespace: "shop"}, token, `object.metadata.namespace == "shop"`, Yes, false},
		{Create, "serviceaccounts/token", Subject{Name: "sa"}, token, `object.metadata.name == "sa"`, Maybe, false},
		{Create, "pods/binding", Subject{Name: "p", Namespace: "shop"}, binding, `object.metadata.name == "p" && object.metadata.namespace == "shop"`, Yes, false},
		{Create, "pods", Subject{}, pod, `object.spec.serviceAccountName == "default"`, Maybe, false},
		{Create, "pods", Subject{}, pod, `has(object.spec.hostNetwork) && object.spec.hostNetwork`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.spec.containers.all(c, c.image == "i" && !has(c.securityContext))`, Yes, false},
		{Create, "pods", Subject{}, privileged, `object.spec.containers.exists(c, c.?securityContext.privileged.orValue(false))`, Yes, false},
		{Create, "pods", Subject{}, pod, `object.spec.containers.exists(c, c.?securityContext.privileged.orValue(false))`, No, false},
		{Create, "pods", Subject{}, pod, `object.spec.containers.exists(c, c.terminationMessagePath == "x")`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.spec.containers[0].resources.limits.cpu == "1"`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.spec.tolerations.exists(t, t.key == "x")`, Maybe, false},
		{Create, "pods", Subject{}, pod, `"schedulerName" in object.spec`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.?spec.schedulerName.orValue("") == "x"`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.spec.exists(k, k == "schedulerName")`, Maybe, false},
		{Create, "pods", Subject{}, pod, `has(object.status)`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.apiVersion == "v1" && object.kind == "Pod"`, Yes, false},
		{Create, "pods", Subject{}, "", `object.zz == 1`, Yes, true},
		{Create, "pods", Subject{}, pod, `object.replicas > 1`, Yes, true},
		{Create, "pods", Subject{}, "", `has(object.replicas) && object.replicas > 1`, No, false},
		{Create, "pods", Subject{}, "", `object.?metadata.?label.hasValue()`, No, false},
		{Create, "pods", Subject{}, "", `object.metadata.uuid == "x"`, Yes, true},
		{Create, "pods", Subject{}, "", `object.spec.zz == 1`, Maybe, false},
		{Update, "pods", labeled, "", `has(oldObject.replicas)`, No, false},
		{Create, "pods/binding", Subject{Name: "p", Namespace: "shop"}, binding, `has(object.target) && !has(object.spec.zz)`, Maybe, false},

		{Create, "pods", labeled, "", `object.metadata.?labels[?"app"].orValue("") == "a"`, Yes, false},
		{Create, "pods", labeled, "", `"skip" in object.metadata.labels`, No, false},
		{Create, "pods", Subject{Labels: map[string]string{}}, "", `has(object.metadata.labels)`, No, false},
		{Create, "pods", Subject{}, "", `has(object.metadata.labels)`, Maybe, false},
		{Create, "pods", labeled, "", `has(object.spec.nodeName)`, Maybe, false},
		{Create, "pods", labeled, "", `oldObject == null && object != null`, Yes, false},
		{Update, "pods", labeled, "", `oldObject != null`, Yes, false},
		{Update, "pods", labeled, "", `oldObject.metadata.labels["app"] == "a"`, Maybe, false},
		{Update, "pods", labeled, "", `oldObject.metadata.name == "x"`, Yes, false},
		{Delete, "pods", labeled, "", `object == null && oldObject != null`, Yes, false},
		{Delete, "pods", labeled, "", `oldObject.metadata.labels["app"] == "a"`, Yes, false},
		{Update, "pods", Subject{Name: "x", Stored: map[string]any{"name": "x", "labels": map[string]any{"app": "a"}}}, "", `oldObject.metadata.labels["app"] == "a" && !has(oldObject.metadata.annotations)`, Yes, false},
		{Delete, "pods", Subject{Name: "x", Stored: map[string]any{"name": "x"}}, "", `has(oldObject.metadata.labels)`, No, false},
		{Create, "pods", Subject{User: NewUser("alice", nil)}, "", `request.userInfo.username == "alice"`, Yes, false},
		{Create, "pods", Subject{User: NewUser("alice", nil)}, "", `"system:masters" in request.userInfo.groups`, Maybe, false},
		{Create, "pods", Subject{User: NewUser("alice", []string{"dev"})}, "", `"system:masters" in request.userInfo.groups`, No, false},
		{Create, "pods", Subject{User: NewUser("alice", []string{"dev"})}, "", `"system:authenticated" in request.userInfo.groups`, Yes, false},
		{Create, "pods", Subject{User: NewUser("admin", []string{"system:masters"})}, "", `authorizer.group("").resource("pods").check("get").allowed()`, Maybe, false},
		{Create, "pods", Subject{User: NewUser("admin", []string{"system:masters"})}, "", `request.userInfo.username == "admin" || authorizer.serviceAccount("shop", "a").path("/").check("get").allowed()`, Yes, false},
		{Create, "jobs.batch", Subject{}, job, `object.metadata.labels["app"] == "a"`, Yes, false},
		{Create, "jobs.batch", Subject{}, job, `has(object.metadata.labels.other)`, Maybe, false},
		{Create, "pods", Subject{User: NewUser("system:serviceaccount:shop:a", nil)}, "", `"system:serviceaccounts:shop" in request.userInfo.groups`, Yes, false},
		{Create, "pods", Subject{User: NewUser("alice", nil)}, "", `has(request.userInfo.uid)`, Maybe, false},
		{Connect, "pods/exec", Subject{}, "", `object != null && oldObject == null`, Yes, false},
		// What is known in part has no size, and is equal to nothing for certain.
		{Create, "namespaces", Subject{Name: "x"}, "", `object.?metadata.?labels.orValue({}).size() > 1`, Maybe, false},
		{Create, "pods", labeled, "", `object.metadata.labels.size() == 1`, Yes, false},
		{Create, "pods", Subject{Object: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}, Partial: true}, "", `size(object.metadata.annotations) == 1`, Maybe, false},
		{Create, "pods", Subject{Object: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}, Partial: true}, "", `object.metadata.annotations.exists(k, k == "c")`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.spec.size() > 3`, Maybe, false},
		{Create, "pods", Subject{}, pod, `size(object.spec.containers[0]) > 4`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.metadata.size() > 4`, Maybe, false},
		{Create, "pods", Subject{}, pod, `object.spec.containers.size() == 1`, Yes, false},
		{Create, "pods", Subject{}, pod, `object.spec.containers == [{"name": "c", "image": "i"}]`, Maybe, false},
		{Create, "pods", Subject{}, pod, `{"name": "c", "image": "i"} in object.spec.containers`, Maybe, false},
		{Create, "pods", Subject{}, "", `{"app": "a"} != object.metadata.labels`, Maybe, false},
		{Create, "pods", Subject{}, "", `request.resource.resource.size() == 4 && "pods" != request.operation`, Yes, false},
		{Create, "configmaps", Subject{}, configMap, `object.metadata.labels.map(k, k).size() > 0`, Yes, true},
		{Update, "pods", Subject{Name: "x", Stored: map[string]any{"name": "x", "labels": map[string]any{"app": "a"}}}, "", `oldObject.metadata.labels.size() == 1`, Yes, false},
	} {
		t.Run(string(test.op)+" "+test.resource+" "+test.expression, func(t *testing.T) {
			s := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{validating("a", func(w *admissionv1.ValidatingWebhook) {
				w.Rules[0].APIGroups, w.Rules[0].APIVersions, w.Rules[0].Resources = []string{"*"}, []string{"*"}, []string{"*/*"}
				w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: test.expression}}
			})}}.Snapshot(time.Time{})
			if test.file != "" {
				must.Succeed(t, yaml.Unmarshal([]byte(test.file), &test.subject.Object))
			}
			r := must.Get(New(s).OpenRequest(test.op, resource(t, test.resource), test.subject))(t)
			if got := r.Match(s.Webhooks[0]); got.Match != test.want || got.Refused != test.refused {
				t.Errorf("%+v, want %s, refused %t", got, test.want, test.refused)
			}
		})
	}
}
