package findings

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestDeadConversionStops: what is reported to stop with the conversion of namespaced objects, and of
// cluster-scoped ones, is what controllers that start anew do not do; they do the rest.
func TestDeadConversionStops(t *testing.T) {
	for _, scope := range []apiextensionsv1.ResourceScope{apiextensionsv1.NamespaceScoped, apiextensionsv1.ClusterScoped} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			w := environment{testenv.New(t, cluster.Options{Controllers: []string{"garbage-collector-controller", "namespace-controller", "resourcequota-controller"}})}
			name := "things." + things.Group
			kept := w.loseConversion(t, name, scope)
			testenv.Must(t, w.Plane.Controllers.Restart(t.Context()))
			begun, done := time.Now(), w.tasks(t, kept)
			for task, err := range done {
				if !w.stops(t, name, task) {
					testenv.Eventually(t, err)
				}
			}
			time.Sleep(max(20*time.Second, 2*time.Since(begun))) // at least as long as the others took, whatever the load
			for task, err := range done {
				if w.stops(t, name, task) && err() == nil {
					t.Errorf("%s does not stop", task)
				}
			}
		})
	}
}

// stops reports whether the function is reported to stop with the conversion.
func (w environment) stops(t *testing.T, crd, function string) bool {
	t.Helper()
	text := testenv.Command(t, "impact", "crd/"+crd, "--kubeconfig="+w.Plane.Kubeconfig()).Stdout
	_, after, found := strings.Cut(text, "stops:")
	said, _, ends := strings.Cut(after, "way out:")
	if !found || !ends {
		t.Fatalf("it does not say what stops:\n%s", text)
	}
	return slices.Contains(strings.Split(strings.Join(strings.Fields(said), " "), "; "), function)
}

var things = schema.GroupVersionResource{Group: "stop.example.com", Version: "v1", Resource: "things"}

// loseConversion makes a thing whose owner can be deleted, in a version other than controllers
// read, and takes the conversion webhook away.
func (w environment) loseConversion(t *testing.T, name string, scope apiextensionsv1.ResourceScope) dynamic.ResourceInterface {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Group: things.Group, Scope: scope, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing", ListKind: "ThingList"}}
	for _, v := range []string{"v1", "v2"} {
		anything := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: true, Storage: v == things.Version, Schema: anything})
	}
	api := w.CRDs.ApiextensionsV1().CustomResourceDefinitions()
	testenv.Get(api.Create(t.Context(), crd, metav1.CreateOptions{}))(t)
	var client dynamic.ResourceInterface = w.Dynamic.Resource(things)
	if scope == apiextensionsv1.NamespaceScoped {
		client = w.Dynamic.Resource(things).Namespace(metav1.NamespaceDefault)
	}
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": things.GroupVersion().String(), "kind": "Thing"}}
	thing.SetName("thing")
	thing.SetOwnerReferences(w.owner(t, "of-thing"))
	testenv.Eventually(t, func() error {
		_, err := client.Create(t.Context(), thing, metav1.CreateOptions{})
		return testenv.IgnoreExisting(err)
	})
	conversion := w.Backend(t, "stop").Conversion("/stop")
	conversion.Webhook.ClientConfig.Service.Name = "gone"
	testenv.Eventually(t, func() error {
		now, err := api.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Spec.Conversion = conversion
		_, err = api.Update(t.Context(), now, metav1.UpdateOptions{})
		return err
	})
	testenv.Eventually(t, func() error { // until the API server serves by it
		if _, err := w.Kube.CoreV1().RESTClient().Get().AbsPath("/apis", things.Group, "v2", "things").MaxRetries(0).DoRaw(t.Context()); err == nil {
			return errors.New("things are still read in v2")
		}
		return nil
	})
	return client
}

// owner makes an object that others, of whichever scope, may have as their owner.
func (w environment) owner(t *testing.T, name string) []metav1.OwnerReference {
	t.Helper()
	made := testenv.Get(w.Kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	return []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: made.Name, UID: made.UID}}
}

// tasks gives controllers something to do for each function, and says whether it is done.
func (w environment) tasks(t *testing.T, client dynamic.ResourceInterface) map[string]func() error {
	t.Helper()
	core := w.Kube.CoreV1()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: w.owner(t, "of-config-map")}}
	testenv.Get(core.ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), configMap, metav1.CreateOptions{}))(t)
	for _, owner := range []string{"of-thing", "of-config-map"} {
		testenv.Must(t, w.Kube.RbacV1().ClusterRoles().Delete(t.Context(), owner, metav1.DeleteOptions{}))
	}
	testenv.Get(core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "deleted"}}, metav1.CreateOptions{}))(t)
	testenv.Must(t, core.Namespaces().Delete(t.Context(), "deleted", metav1.DeleteOptions{}))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	testenv.Get(core.ResourceQuotas(metav1.NamespaceDefault).Create(t.Context(), quota, metav1.CreateOptions{}))(t)
	return map[string]func() error{
		"garbage collection of unreadable objects": func() error {
			_, err := client.Get(t.Context(), "thing", metav1.GetOptions{})
			return isGone(err)
		},
		"garbage collection": func() error {
			_, err := core.ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), configMap.Name, metav1.GetOptions{})
			return isGone(err)
		},
		"deletion of namespaces in the whole cluster": func() error {
			_, err := core.Namespaces().Get(t.Context(), "deleted", metav1.GetOptions{})
			return isGone(err)
		},
		"resource quota": func() error {
			now, err := core.ResourceQuotas(metav1.NamespaceDefault).Get(t.Context(), quota.Name, metav1.GetOptions{})
			if err == nil && len(now.Status.Used) == 0 {
				err = errors.New("the quota is not computed")
			}
			return err
		},
	}
}

// isGone is nil of the error about an object that does not exist.
func isGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return cmp.Or(err, errors.New("it is still there"))
}
