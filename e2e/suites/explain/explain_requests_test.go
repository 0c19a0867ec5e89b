package explain

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// name is that of the object, where args may lack it.
	name string
	// labels are those of the object after the request; nil: not to be known.
	labels map[string]string
	// object is what is sent, or what the object becomes; nil where a request has none.
	object *unstructured.Unstructured
}

// knowledge is what explain knows of a request besides its operation, resource,
// name and namespace.
type knowledge string

const (
	bare     knowledge = "bare"    // nothing
	byLabels knowledge = "labels"  // its labels, with --labels
	byObject knowledge = "file"    // the object, with --filename
	live     knowledge = "live"    // the object, and the cluster in place of a file of it
	offline  knowledge = "offline" // the same without the objects of the cluster
)

// line returns the words that ask explain about the request; files are written to
// the folder.
func (q request) line(t *testing.T, k knowledge, folder string) string {
	t.Helper()
	words := append([]string{q.operation, q.resource}, q.args...)
	if k != bare && k != byLabels && q.name != "" {
		words = append(words, q.name)
	}
	switch {
	case k == byLabels && q.labels != nil:
		words = append(words, labeled(q.labels))
	case (k == byObject || k == live || k == offline) && q.object != nil:
		file := testenv.Get(os.CreateTemp(folder, "object-*.json"))(t)
		_, err := file.Write(encoded(q.object))
		testenv.Must(t, errors.Join(err, file.Close()))
		words = append(words, "--filename="+file.Name())
	}
	return strings.Join(words, " ")
}

// requests can make requests to the objects that exist.
type requests struct {
	env environment
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

//go:embed testdata/kinds.tsv
var kinds string

// explainedKinds are what requests are about, and claimedKinds, of the second part of the file, what claims
// are about besides: nothing but the probes writes those.
var explainedKinds, claimedKinds = func() (requested, claimed []explained) {
	first, second, _ := strings.Cut(kinds, "\n\n")
	return readKinds(first), readKinds(second)
}()

// readKinds reads resource, version, scope, subresources, operations and manifest of each kind.
func readKinds(text string) []explained {
	var out []explained
	for line := range strings.Lines(text) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		out = append(out, explained{
			resource: c[0], version: c[1], cluster: c[2] == "cluster",
			subresources: strings.Fields(c[3]), only: strings.Fields(c[4]), manifest: c[5],
		})
	}
	return out
}

// explainedWidget serves v1 (stored) and v2, and declares v3.
//
//go:embed testdata/widget.yaml
var explainedWidget string

func (w environment) explainedObjects(t *testing.T) requests {
	t.Helper()
	q := requests{env: w}
	var crd apiextensionsv1.CustomResourceDefinition
	testenv.Must(t, yaml.Unmarshal([]byte(explainedWidget), &crd))
	var made *apiextensionsv1.CustomResourceDefinition
	testenv.Eventually(t, func() (err error) { // an earlier test's may still be in deletion
		made, err = w.CRDs.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &crd, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() { w.Uninstall(t, crd.Name) })
	made.APIVersion, made.Kind = crd.APIVersion, crd.Kind
	q.context = append(q.context, made)
	testenv.Eventually(t, func() error { // served
		_, err := w.Dynamic.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: "v2", Resource: "widgets"}).List(t.Context(), metav1.ListOptions{})
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(explainedNamespaces)) {
		namespace := w.LabelledNamespace(t, name, explainedNamespaces[name])
		t.Cleanup(func() {
			testenv.Gone(t, w.Kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}))
		})
		namespace.APIVersion, namespace.Kind = "v1", "Namespace"
		q.context = append(q.context, namespace)
		q.makeAll(t, name)
	}
	return q
}

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

func (k explained) object(name, namespace string) *unstructured.Unstructured {
	return decoded(strings.NewReplacer("NAMESPACE", namespace, "NAME", name).Replace(k.manifest))
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

func (q requests) pick(r *rand.Rand) request {
	namespace := pick(r, slices.Sorted(maps.Keys(explainedNamespaces))...)
	if r.IntN(5) == 0 {
		return q.special(r, namespace)
	}
	k := pick(r, explainedKinds...)
	operation := pick(r, "create", "create", "update", "patch", "apply", "delete")
	if len(k.only) > 0 {
		operation = pick(r, k.only...)
	}
	at := target{namespace: namespace, name: "exp"}
	out := request{operation: operation, resource: k.resource, args: []string{"--api-version=" + k.version}}
	if k.resource == "namespaces" {
		at.name = namespace
	}
	if !k.cluster {
		out.args = append(out.args, "--namespace="+namespace)
	}
	switch operation {
	case "create":
		return q.create(r, k, namespace, out)
	case "apply":
		out.operation = "patch" // as the API server calls it
		at.name = pick(r, at.name, "explained")
		return q.apply(r, k, out, at)
	}
	if len(k.subresources) > 0 && operation != "delete" && r.IntN(2) == 0 {
		at.subresource = pick(r, k.subresources...)
		out.resource += "/" + at.subresource
	}
	if at.subresource == "finalize" {
		out.operation = "update" // there is no patch
	}
	return q.change(r, k, out, at)
}

// someLabels are those of an object that is created.
func someLabels(r *rand.Rand) map[string]string {
	return pick(r, map[string]string{}, map[string]string{"app": "a"}, map[string]string{"app": "b", "tier": "a"})
}

// create creates an object with labels of its own. A file may leave its namespace
// out, and have a name generated.
func (q requests) create(r *rand.Rand, k explained, namespace string, out request) request {
	object := k.object("explained", namespace)
	review := strings.Contains(k.resource, "reviews")
	out.labels = map[string]string{}
	if !review {
		out.labels = someLabels(r)
		object.SetLabels(out.labels)
	}
	switch {
	case k.resource == "namespaces":
		out.args = append(out.args, "explained")
	case review:
	case r.IntN(3) == 0:
		object.SetName("")
		object.SetGenerateName("exp")
	case r.IntN(2) == 0:
		out.args = append(out.args, "explained")
	}
	if !k.cluster && r.IntN(2) == 0 {
		object.SetNamespace(namespace)
	}
	out.object = object
	out.do = func(ctx context.Context) error {
		_, err := q.client(k, namespace).Create(ctx, object.DeepCopy(), metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	return out
}

func labeled(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return "--labels=" + strings.Join(pairs, ",")
}

type target struct{ namespace, name, subresource string }

// apply is a server-side apply, to an object that exists or that it creates. The
// labels of one that exists stay beside those that are applied.
func (q requests) apply(r *rand.Rand, k explained, out request, place target) request {
	out.args = append(out.args, place.name)
	object := k.object(place.name, place.namespace)
	object.SetLabels(someLabels(r))
	out.object = object
	if place.name != "explained" {
		exists, err := q.client(k, place.namespace).Get(context.Background(), place.name, metav1.GetOptions{})
		if err != nil {
			panic(err) // it was created before
		}
		merged := exists.GetLabels()
		if merged == nil {
			merged = map[string]string{}
		}
		maps.Copy(merged, object.GetLabels())
		out.object = exists
		out.object.SetLabels(merged)
	}
	out.labels = out.object.GetLabels()
	out.do = func(ctx context.Context) error {
		_, err := q.client(k, place.namespace).Apply(ctx, place.name, object.DeepCopy(), metav1.ApplyOptions{DryRun: dryRun, FieldManager: "explained", Force: true})
		return err
	}
	return out
}

// change updates, patches or deletes an object that exists. Its labels may be new
// ones.
func (q requests) change(r *rand.Rand, k explained, out request, place target) request {
	if k.resource == "namespaces" || r.IntN(2) == 0 {
		out.args = append(out.args, place.name)
	} else {
		out.name = place.name
	}
	client := q.client(k, place.namespace)
	object, err := client.Get(context.Background(), place.name, metav1.GetOptions{})
	if err != nil {
		panic(err) // it was created before
	}
	out.labels = object.GetLabels()
	relabeled := place.subresource != "finalize" && out.operation != "delete" && r.IntN(2) == 0
	if relabeled {
		out.labels = map[string]string{"app": "b", "tier": "b"}
	}
	object.SetLabels(out.labels)
	object.SetAnnotations(map[string]string{"explained": "true"})
	if out.operation != "delete" {
		out.object = object
	}
	var sub []string
	if place.subresource != "" {
		sub = []string{place.subresource}
	}
	out.do = func(ctx context.Context) error {
		switch out.operation {
		case "delete":
			return client.Delete(ctx, place.name, metav1.DeleteOptions{DryRun: dryRun})
		case "patch":
			body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": object.GetAnnotations(), "labels": replacing(out.labels)}})
			if err != nil {
				return err
			}
			_, err = client.Patch(ctx, place.name, types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun}, sub...)
			return err
		}
		now, err := client.Get(ctx, place.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		sent := object.DeepCopy()
		sent.SetResourceVersion(now.GetResourceVersion()) // a controller may have written it since
		_, err = client.Update(ctx, sent, metav1.UpdateOptions{DryRun: dryRun}, sub...)
		return err
	}
	return out
}

// replacing returns a merge patch that leaves no other of the labels in use.
func replacing(labels map[string]string) map[string]any {
	patch := map[string]any{"app": nil, "tier": nil}
	for key, value := range labels {
		patch[key] = value
	}
	return patch
}

// special is a request to a subresource that is not the object itself, or a PUT
// that creates an object.
func (q requests) special(r *rand.Rand, namespace string) request {
	named := func(out request) request {
		out.args = append(out.args, "--namespace="+namespace, pick(r, "exp", "exp", ""))
		return out
	}
	switch r.IntN(12) {
	case 0:
		return named(request{operation: "create", resource: "pods/exec", do: q.connect(namespace, "pods", "exec")})
	case 1:
		return named(request{operation: "connect", resource: "pods/attach", do: q.connect(namespace, "pods", "attach")})
	case 2:
		return named(request{operation: "create", resource: "pods/portforward", do: q.connect(namespace, "pods", "portforward")})
	case 3:
		return named(request{operation: "create", resource: "services/proxy", do: q.connect(namespace, "services", "proxy")})
	case 4:
		return named(q.post(namespace, "pods/binding", `{apiVersion: v1, kind: Binding, metadata: {name: exp}, target: {kind: Node, name: exp}}`))
	case 5:
		return named(q.post(namespace, "pods/eviction", `{apiVersion: policy/v1, kind: Eviction, metadata: {name: exp}, deleteOptions: {dryRun: [All]}}`))
	case 6:
		return named(q.post(namespace, "serviceaccounts/token", `{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {audiences: [a]}}`))
	case 7, 8:
		return named(q.scale(namespace, "deployments.apps", pick(r, "update", "patch")))
	case 9:
		return named(q.scale(namespace, "widgets.explain.example.com", "update"))
	case 10:
		return q.put(namespace, "services")
	}
	return q.put(namespace, "services/status")
}

// post creates a subresource of the objects called exp.
func (q requests) post(namespace, resource, manifest string) request {
	name, sub, _ := strings.Cut(resource, "/")
	body := decoded(manifest)
	return request{operation: "create", resource: resource, object: body, do: func(ctx context.Context) error {
		return q.env.Kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource(name).Name("exp").SubResource(sub).Param("dryRun", "All").
			SetHeader("Content-Type", "application/json").Body(encoded(body)).Do(ctx).Error()
	}}
}

// connect opens a connection, which fails once admission is over: nothing runs
// behind it.
func (q requests) connect(namespace, resource, sub string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := q.env.Kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource(resource).Name("exp").SubResource(sub).
			Param("command", "true").Param("container", "c").Param("stdout", "true").Do(ctx).Error()
		if refusedByCondition(err) {
			return err
		}
		return nil
	}
}

// scale updates the scale of the object called exp; a patch of it ends as the same
// request, but for its verb.
func (q requests) scale(namespace, resource, operation string) request {
	i := slices.IndexFunc(explainedKinds, func(k explained) bool { return k.resource == resource })
	client := q.client(explainedKinds[i], namespace)
	body := decoded(`{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: exp, namespace: ` + namespace + `}, spec: {replicas: 0}}`)
	out := request{operation: operation, resource: resource + "/scale", args: []string{"--api-version=v1"}, object: body}
	out.do = func(ctx context.Context) error {
		_, err := client.Update(ctx, body.DeepCopy(), metav1.UpdateOptions{DryRun: dryRun}, "scale")
		return err
	}
	if operation == "patch" {
		out.do = func(ctx context.Context) error {
			_, err := client.Patch(ctx, "exp", types.MergePatchType, []byte(`{"spec": {"replicas": 0}}`), metav1.PatchOptions{DryRun: dryRun}, "scale")
			return err
		}
	}
	return out
}

// put writes a Service that does not exist: kube-apiserver creates it.
func (q requests) put(namespace, resource string) request {
	body := decoded(`{apiVersion: v1, kind: Service, metadata: {name: missing, labels: {app: a}}, spec: {clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}}`)
	name, sub, _ := strings.Cut(resource, "/")
	out := request{operation: "update", resource: resource, args: []string{"--namespace=" + namespace, "missing"}, object: body, labels: body.GetLabels()}
	out.do = func(ctx context.Context) error {
		return q.env.Kube.CoreV1().RESTClient().Put().Namespace(namespace).Resource(name).Name("missing").SubResource(sub).Param("dryRun", "All").
			SetHeader("Content-Type", "application/json").Body(encoded(body)).Do(ctx).Error()
	}
	return out
}

func decoded(manifest string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &out.Object); err != nil {
		panic(err) // a mistake in the tables above
	}
	return out
}

func encoded(object *unstructured.Unstructured) []byte {
	if object == nil {
		return nil
	}
	out, err := object.MarshalJSON()
	if err != nil {
		panic(err) // it was decoded before
	}
	return out
}
