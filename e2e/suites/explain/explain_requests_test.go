package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// dryRun makes requests that meet admission and leave nothing behind.
var dryRun = []string{metav1.DryRunAll}

// The namespaces in which requests are made, with the labels that selectors
// distinguish.
var explainedNamespaces = map[string]map[string]string{
	"explain-a": {"tier": "a"},
	"explain-b": {"tier": "b", "app": "a"},
	"explain-c": nil,
}

// request is one request, as it is made and as explain is asked about it.
type request struct {
	operation, resource string
	args                []string
	do                  func(context.Context) error
}

// String returns the command that asks explain about it.
func (q request) String() string {
	return fmt.Sprintf("explain %s %s %s", q.operation, q.resource, strings.Join(q.args, " "))
}

// requests can make requests to the objects that exist.
type requests struct {
	env environment
	// files is a directory for the objects of requests.
	files string
	// context is what the auditor knows of the cluster besides the webhooks.
	context []any
}

// explained is a kind of objects that requests are made for: an object called
// exp of each exists, in each namespace.
type explained struct {
	resource, version string
	// manifest is the object; NAME stands for its name.
	manifest string
	// subresources that can be updated as the object itself.
	subresources []string
	cluster      bool
	// only are the operations that are asked for; none: create, update, patch
	// and delete.
	only []string
}

var explainedKinds = []explained{
	{resource: "configmaps", version: "v1", manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}}`},
	{resource: "configmaps", version: "v1", manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}}`},
	{resource: "pods", version: "v1", manifest: `{apiVersion: v1, kind: Pod, metadata: {name: NAME}, spec: {containers: [{name: c, image: i}]}}`, subresources: []string{"status"}},
	{resource: "services", version: "v1", manifest: `{apiVersion: v1, kind: Service, metadata: {name: NAME}, spec: {ports: [{port: 80}]}}`, subresources: []string{"status"}},
	{resource: "serviceaccounts", version: "v1", manifest: `{apiVersion: v1, kind: ServiceAccount, metadata: {name: NAME}}`},
	{resource: "deployments.apps", version: "v1", manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME}, spec: {replicas: 0, selector: {matchLabels: {x: "1"}}, template: {metadata: {labels: {x: "1"}}, spec: {containers: [{name: c, image: i}]}}}}`, subresources: []string{"status"}},
	{resource: "leases.coordination.k8s.io", version: "v1", manifest: `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: NAME}}`},
	{resource: "horizontalpodautoscalers.autoscaling", version: "v1", manifest: `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: NAME}, spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: exp}}}`, subresources: []string{"status"}},
	{resource: "horizontalpodautoscalers.autoscaling", version: "v2", manifest: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: NAME}, spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: exp}}}`},
	{resource: "events", version: "v1", manifest: `{apiVersion: v1, kind: Event, metadata: {name: NAME}, involvedObject: {namespace: NAMESPACE}}`},
	{resource: "events.events.k8s.io", version: "v1", manifest: `{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: NAME}, eventTime: "2026-01-01T00:00:00.000000Z", action: a, reason: r, type: Normal, reportingController: example.com/c, reportingInstance: i, regarding: {namespace: NAMESPACE}}`, only: []string{"create"}},
	{resource: "widgets.explain.example.com", version: "v1", manifest: `{apiVersion: explain.example.com/v1, kind: Widget, metadata: {name: NAME}, spec: {replicas: 1}}`, subresources: []string{"status"}},
	{resource: "widgets.explain.example.com", version: "v2", manifest: `{apiVersion: explain.example.com/v2, kind: Widget, metadata: {name: NAME}, spec: {replicas: 1}}`, subresources: []string{"status"}},
	{resource: "clusterroles.rbac.authorization.k8s.io", version: "v1", manifest: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NAME}}`, cluster: true},
	{resource: "nodes", version: "v1", manifest: `{apiVersion: v1, kind: Node, metadata: {name: NAME}}`, subresources: []string{"status"}, cluster: true},
	{resource: "namespaces", version: "v1", manifest: `{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`, subresources: []string{"status", "finalize"}, cluster: true},
	{resource: "validatingwebhookconfigurations.admissionregistration.k8s.io", version: "v1", manifest: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NAME}}`, cluster: true, only: []string{"create"}},
	{resource: "tokenreviews.authentication.k8s.io", version: "v1", manifest: `{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {token: t}}`, cluster: true, only: []string{"create"}},
	{resource: "subjectaccessreviews.authorization.k8s.io", version: "v1", manifest: `{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: u, resourceAttributes: {verb: get, resource: pods}}}`, cluster: true, only: []string{"create"}},
	{resource: "localsubjectaccessreviews.authorization.k8s.io", version: "v1", manifest: `{apiVersion: authorization.k8s.io/v1, kind: LocalSubjectAccessReview, metadata: {namespace: NAMESPACE}, spec: {user: u, resourceAttributes: {namespace: NAMESPACE, verb: get, resource: pods}}}`, only: []string{"create"}},
}

// explainedWidget serves v1 (stored) and v2, and declares v3.
const explainedWidget = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.explain.example.com}
spec:
  group: explain.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - &v
    name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - {<<: *v, name: v2, storage: false}
  - {<<: *v, name: v3, storage: false, served: false}
`

// explainedObjects makes what the requests are about.
func (w environment) explainedObjects(t *testing.T) requests {
	t.Helper()
	q := requests{env: w, files: t.TempDir()}
	var crd apiextensionsv1.CustomResourceDefinition
	testenv.Must(t, yaml.Unmarshal([]byte(explainedWidget), &crd))
	made, err := w.CRDs.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &crd, metav1.CreateOptions{})
	testenv.Must(t, err)
	t.Cleanup(func() { w.Uninstall(t, crd.Name) })
	made.APIVersion, made.Kind = crd.APIVersion, crd.Kind
	q.context = append(q.context, made)
	testenv.Eventually(t, func() error { // served
		_, err := w.Dynamic.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: "v2", Resource: "widgets"}).List(t.Context(), metav1.ListOptions{})
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(explainedNamespaces)) {
		namespace, err := w.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: explainedNamespaces[name]}}, metav1.CreateOptions{})
		testenv.Must(t, err)
		t.Cleanup(func() {
			testenv.Gone(t, w.Kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}))
		})
		namespace.APIVersion, namespace.Kind = "v1", "Namespace"
		q.context = append(q.context, namespace)
		q.makeAll(t, name)
	}
	return q
}

// makeAll makes an object of each kind in the namespace.
func (q requests) makeAll(t *testing.T, namespace string) {
	t.Helper()
	for _, k := range explainedKinds {
		if slices.Contains(k.only, "create") || k.resource == "namespaces" {
			continue
		}
		object := k.object("exp", namespace)
		object.SetLabels(map[string]string{"app": "a"})
		_, err := q.client(k, namespace).Create(t.Context(), object, metav1.CreateOptions{})
		testenv.Must(t, testenv.IgnoreExisting(err))
		if k.cluster {
			t.Cleanup(func() { testenv.Gone(t, q.client(k, "").Delete(context.Background(), "exp", metav1.DeleteOptions{})) })
		}
	}
}

// object returns the object with the name, in the namespace where it has one.
func (k explained) object(name, namespace string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	text := strings.NewReplacer("NAMESPACE", namespace, "NAME", name).Replace(k.manifest)
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		panic(err) // a mistake in the table above
	}
	return out
}

func (k explained) gvr() schema.GroupVersionResource {
	name, group, _ := strings.Cut(k.resource, ".")
	return schema.GroupVersionResource{Group: group, Version: k.version, Resource: name}
}

func (q requests) client(k explained, namespace string) dynamic.ResourceInterface {
	client := q.env.Dynamic.Resource(k.gvr())
	if k.cluster {
		return client
	}
	return client.Namespace(namespace)
}

// pick makes any request up.
func (q requests) pick(r *rand.Rand) request {
	namespace := pick(r, slices.Sorted(maps.Keys(explainedNamespaces))...)
	if r.IntN(5) == 0 {
		return q.special(r, namespace)
	}
	k := pick(r, explainedKinds...)
	operation := pick(r, "create", "create", "update", "patch", "delete")
	if len(k.only) > 0 {
		operation = pick(r, k.only...)
	}
	out := request{operation: operation, resource: k.resource, args: []string{"--api-version=" + k.version}}
	name := "exp"
	if k.resource == "namespaces" {
		name = namespace
	}
	if !k.cluster {
		out.args = append(out.args, "--namespace="+namespace)
	}
	if operation == "create" {
		return q.create(r, k, namespace, out)
	}
	sub := ""
	if len(k.subresources) > 0 && operation != "delete" && r.IntN(2) == 0 {
		sub = pick(r, k.subresources...)
		out.resource += "/" + sub
	}
	if sub == "finalize" {
		out.operation = "update" // there is no patch
	}
	return q.change(r, k, out, target{namespace, name, sub})
}

// create creates an object with labels of its own.
func (q requests) create(r *rand.Rand, k explained, namespace string, out request) request {
	object := k.object("explained", namespace)
	labels := pick(r, map[string]string{}, map[string]string{"app": "a"}, map[string]string{"app": "b", "tier": "a"})
	if !strings.Contains(k.resource, "reviews") {
		object.SetLabels(labels)
	} else {
		labels = map[string]string{}
	}
	switch {
	case k.resource == "namespaces":
		out.args = append(out.args, "explained")
	case r.IntN(2) == 0 && !strings.Contains(k.resource, "reviews"):
		out.args = append(out.args, "explained")
	}
	switch r.IntN(3) {
	case 0:
		out.args = append(out.args, "--filename="+q.written(object))
	case 1:
		out.args = append(out.args, labeled(labels))
	}
	out.do = func(ctx context.Context) error {
		_, err := q.client(k, namespace).Create(ctx, object, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	return out
}

// written writes the object to a file.
func (q requests) written(object *unstructured.Unstructured) string {
	text, err := object.MarshalJSON()
	file, err2 := os.CreateTemp(q.files, "*.json")
	if err == nil && err2 == nil {
		_, err = file.Write(text)
		err2 = file.Close()
	}
	if err != nil || err2 != nil {
		panic(errors.Join(err, err2)) // the disk is full, or the table above has a mistake
	}
	return file.Name()
}

func labeled(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return "--labels=" + strings.Join(pairs, ",")
}

// target is the object that a request changes, or a subresource of it.
type target struct{ namespace, name, subresource string }

// change updates, patches or deletes an object that exists. Where explain is
// given the labels, they may be new ones.
func (q requests) change(r *rand.Rand, k explained, out request, at target) request {
	if k.resource == "namespaces" || r.IntN(2) == 0 {
		out.args = append(out.args, at.name)
	}
	labels := map[string]string{"app": "a"}
	if k.resource == "namespaces" {
		labels = explainedNamespaces[at.name]
	}
	relabeled := at.subresource == "" && out.operation != "delete" && r.IntN(2) == 0
	if relabeled {
		labels = map[string]string{"app": "b", "tier": "b"}
	}
	if relabeled || r.IntN(3) > 0 {
		out.args = append(out.args, labeled(labels))
	}
	client := q.client(k, at.namespace)
	var sub []string
	if at.subresource != "" {
		sub = []string{at.subresource}
	}
	out.do = func(ctx context.Context) error {
		switch out.operation {
		case "delete":
			return client.Delete(ctx, at.name, metav1.DeleteOptions{DryRun: dryRun})
		case "patch":
			patch := map[string]any{"annotations": map[string]string{"explained": "true"}}
			if relabeled {
				patch["labels"] = labels
			}
			body, err := json.Marshal(map[string]any{"metadata": patch})
			if err != nil {
				return err
			}
			_, err = client.Patch(ctx, at.name, types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun}, sub...)
			return err
		}
		object, err := client.Get(ctx, at.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.SetAnnotations(map[string]string{"explained": "true"})
		if relabeled {
			object.SetLabels(labels)
		}
		_, err = client.Update(ctx, object, metav1.UpdateOptions{DryRun: dryRun}, sub...)
		return err
	}
	return out
}

// special is a request to a subresource that is not the object itself.
func (q requests) special(r *rand.Rand, namespace string) request {
	w, ns := q.env, "--namespace="+namespace
	core := w.Kube.CoreV1().RESTClient()
	post := func(resource, sub, body string) func(context.Context) error {
		return func(ctx context.Context) error {
			return core.Post().Namespace(namespace).Resource(resource).Name("exp").SubResource(sub).Param("dryRun", "All").Body([]byte(body)).SetHeader("Content-Type", "application/json").Do(ctx).Error()
		}
	}
	connect := func(resource, sub string) func(context.Context) error {
		return func(ctx context.Context) error {
			err := core.Post().Namespace(namespace).Resource(resource).Name("exp").SubResource(sub).Param("command", "true").Param("container", "c").Param("stdout", "true").Do(ctx).Error()
			if refusedByCondition(err) {
				return err
			}
			return nil // after admission it fails, for nothing runs behind it
		}
	}
	scale := func(client dynamic.ResourceInterface) func(context.Context) error {
		return func(ctx context.Context) error {
			s := &autoscalingv1.Scale{
				TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
				ObjectMeta: metav1.ObjectMeta{Name: "exp", Namespace: namespace},
				Spec:       autoscalingv1.ScaleSpec{Replicas: 0},
			}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
			if err != nil {
				return err
			}
			_, err = client.Update(ctx, &unstructured.Unstructured{Object: object}, metav1.UpdateOptions{DryRun: dryRun}, "scale")
			return err
		}
	}
	put := func(resource, sub, body string) func(context.Context) error {
		return func(ctx context.Context) error {
			at := core.Put().AbsPath("/api/v1/namespaces", namespace, resource, "missing", sub)
			return at.Param("dryRun", "All").Body([]byte(body)).SetHeader("Content-Type", "application/json").Do(ctx).Error()
		}
	}
	kind := func(resource string) dynamic.ResourceInterface {
		i := slices.IndexFunc(explainedKinds, func(k explained) bool { return k.resource == resource })
		return q.client(explainedKinds[i], namespace)
	}
	return pick(
		r,
		request{"create", "pods/exec", []string{ns, "exp"}, connect("pods", "exec")},
		request{"connect", "pods/attach", []string{ns}, connect("pods", "attach")},
		request{"create", "pods/portforward", []string{ns}, connect("pods", "portforward")},
		request{"create", "services/proxy", []string{ns, "exp"}, connect("services", "proxy")},
		request{"create", "pods/binding", []string{ns}, post("pods", "binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"exp"},"target":{"kind":"Node","name":"exp"}}`)},
		request{"create", "pods/eviction", []string{ns, "exp"}, post("pods", "eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"exp"},"deleteOptions":{"dryRun":["All"]}}`)},
		request{"create", "serviceaccounts/token", []string{ns}, post("serviceaccounts", "token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["a"]}}`)},
		request{"update", "deployments.apps/scale", []string{ns}, scale(kind("deployments.apps"))},
		request{"patch", "deployments.apps/scale", []string{ns, "--labels=app=a"}, scale(kind("deployments.apps"))},
		request{"update", "services", []string{ns, "missing", "--labels=app=a"}, put("services", "", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"missing","labels":{"app":"a"}},"spec":{"clusterIP":"None","clusterIPs":["None"],"ports":[{"port":80}]}}`)},
		request{"update", "services/status", []string{ns, "missing", "--labels=app=a"}, put("services", "status", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"missing","labels":{"app":"a"}},"spec":{"clusterIP":"None","clusterIPs":["None"],"ports":[{"port":80}]}}`)},
		request{"update", "widgets.explain.example.com/scale", []string{ns, "exp", "--api-version=v1"}, scale(kind("widgets.explain.example.com"))},
	)
}
