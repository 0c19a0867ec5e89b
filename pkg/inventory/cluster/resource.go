package cluster

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

// resource is a kind of object that is listed, in the whole cluster or in one namespace,
// and watched.
type resource struct {
	schema.GroupResource
	namespace string
	// labels is the selector of the objects that are read; "" is all.
	labels  string
	example runtime.Object
	// page is how many objects are listed in one call: about a megabyte.
	page int64
	// serves is set if the API server serves other resources because of the
	// objects.
	serves bool
	strip  func(metav1.Object)
	// counts, if any, reports whether a Snapshot shows an object: others are kept until a
	// webhook refers to their Service, or namespace.
	counts func(*reads, named) bool

	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// lister is the part of a client that reads many objects.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// typedResource returns the resource with a client of it, whose objects are of type T
// and whose lists are of type L.
func typedResource[T, L any, PT client.Object[T], PL client.List[L]](c Clients, r resource) resource {
	r.example = PT(new(T))
	kinds, _, err := client.Scheme().ObjectKinds(r.example)
	utilruntime.Must(err)
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
	group, err := client.Group(c.config, c.http, plural.GroupVersion())
	utilruntime.Must(err) // an invalid URL fails for all clients alike, that of NewClients too
	r.GroupResource = plural.GroupResource()
	return withClient(client.Lister[T, L, PT, PL](group, r.Resource, r.namespace), r)
}

func withClient[L runtime.Object](c lister[L], r resource) resource {
	r.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.LabelSelector = r.labels
		return c.List(ctx, o)
	}
	r.watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.LabelSelector = r.labels
		return c.Watch(ctx, o)
	}
	return r
}

var policyResources = []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}

// watchedResources are watched in the whole cluster.
func (c Clients) watchedResources() []resource {
	return append(c.clusterResources(), c.pods(metav1.NamespaceAll))
}

// clusterResources are all but the Pods, which are most of a cluster: Read lists those of
// few namespaces.
func (c Clients) clusterResources() []resource {
	return []resource{
		typedResource[admissionv1.ValidatingWebhookConfiguration, admissionv1.ValidatingWebhookConfigurationList](c,
			resource{page: 50, strip: stripMeta}),
		typedResource[admissionv1.MutatingWebhookConfiguration, admissionv1.MutatingWebhookConfigurationList](c,
			resource{page: 50, strip: stripMeta}),
		typedResource[admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicyList](c,
			resource{page: 100, strip: stripPolicy}),
		typedResource[admissionv1.ValidatingAdmissionPolicyBinding, admissionv1.ValidatingAdmissionPolicyBindingList](c,
			resource{page: 500, strip: stripMeta}),
		typedResource[admissionv1.MutatingAdmissionPolicy, admissionv1.MutatingAdmissionPolicyList](c,
			resource{page: 100, strip: stripPolicy}),
		typedResource[admissionv1.MutatingAdmissionPolicyBinding, admissionv1.MutatingAdmissionPolicyBindingList](c,
			resource{page: 500, strip: stripMeta}),
		typedResource[apiextensionsv1.CustomResourceDefinition, apiextensionsv1.CustomResourceDefinitionList](c,
			resource{page: 20, serves: true, strip: stripCRD}),
		typedResource[apiregistrationv1.APIService, apiregistrationv1.APIServiceList](c,
			resource{page: 200, serves: true, strip: stripAPIService}),
		withClient(c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), resource{
			GroupResource: namespaceResource,
			example:       &metav1.PartialObjectMetadata{},
			page:          500, strip: stripNamespace,
		}),
		typedResource[corev1.Service, corev1.ServiceList](c,
			resource{page: 1000, strip: stripService, counts: (*reads).calls}),
		typedResource[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](c,
			resource{page: 1000, strip: stripSlice, counts: (*reads).callsServiceOf}),
		typedResource[appsv1.DaemonSet, appsv1.DaemonSetList](c,
			resource{page: 100, strip: stripDaemonSet, counts: (*reads).ofSystemOrNear}),
		typedResource[appsv1.Deployment, appsv1.DeploymentList](c, resource{ // only the cluster's DNS
			labels: inventory.DNSSelector, page: 100, strip: stripDeployment, counts: (*reads).ofSystem,
		}),
		typedResource[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](c,
			resource{page: 1000, strip: stripDisruptionBudget, counts: (*reads).nearBackend}),
		typedResource[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](c,
			resource{page: 500, strip: stripNetworkPolicy, counts: (*reads).nearBackend}),
	}
}

var (
	namespaceResource = corev1.Resource("namespaces")
	serviceResource   = corev1.Resource("services")
	sliceResource     = discoveryv1.Resource("endpointslices")
)

func (c Clients) pods(namespace string) resource {
	return typedResource[corev1.Pod, corev1.PodList](c,
		resource{namespace: namespace, page: 250, strip: stripPod, counts: (*reads).nearBackend})
}

// name is the resource as the inventory names it: failed calls are counted by it.
func (r resource) name() inventory.Resource {
	return inventory.Resource{Group: r.Group, Name: r.Resource}
}

func (r resource) failure(verb string, err error) failure {
	return failure{verb: verb, resource: r.GroupResource.String(), namespace: r.namespace, err: err}
}

// listAttempts is how often a list is begun because its continue token expired. A
// token is valid for five minutes, so a second expiry is a failure of the API server.
const listAttempts = 3

// listPages lists all objects, stripped, in pages: a list in one piece would take
// several times the memory of its bytes. After each page it reports the number of
// objects so far.
func (r resource) listPages(ctx context.Context, progress func(int)) (runtime.Object, error) {
	var err error
	for range listAttempts {
		n := 0
		pages := pager.ListPager{
			PageSize: r.page,
			PageFn: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				page, err := r.list(ctx, o)
				if err != nil {
					return nil, err
				}
				reduced, err := r.reduced(page)
				n += meta.LenList(page)
				progress(n)
				return reduced, err
			},
		}
		var list runtime.Object
		if list, _, err = pages.ListWithAlloc(ctx, metav1.ListOptions{}); err == nil || !expired(err) {
			return list, err
		}
	}
	return nil, err
}

// reduced is a page with what the inventory keeps of its objects.
func (r resource) reduced(page runtime.Object) (runtime.Object, error) {
	list, err := meta.ListAccessor(page)
	utilruntime.Must(err)
	out := &metainternalversion.List{ListMeta: metav1.ListMeta{
		ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(),
	}}
	return out, meta.EachListItemWithAlloc(page, func(item runtime.Object) error {
		out.Items = append(out.Items, r.keptObject(item).(runtime.Object))
		return nil
	})
}

func (r resource) keptObject(object any) any {
	if m, ok := object.(metav1.Object); ok {
		r.strip(m)
	}
	return packed(object)
}

// expired reports whether the API server no longer has the state of a continue
// token or a resource version. That is part of the protocol, not a failure: the
// list begins again.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// Permissions are what Watch and Read need in the whole cluster; discovery and
// /version are granted to all users by default. What is not granted becomes an
// Error of the Snapshot, and the rest works.
func Permissions() []rbacv1.PolicyRule {
	clients, err := NewClients(&rest.Config{}) // none of them calls
	utilruntime.Must(err)
	var out []rbacv1.PolicyRule
	for _, r := range clients.watchedResources() {
		i := slices.IndexFunc(out, func(p rbacv1.PolicyRule) bool { return p.APIGroups[0] == r.Group })
		if i < 0 {
			i = len(out)
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Verbs: []string{"list", "watch"}})
		}
		out[i].Resources = append(out[i].Resources, r.Resource)
	}
	return append(out,
		rbacv1.PolicyRule{
			APIGroups: []string{openShiftGroup}, Resources: []string{"clusterversions"}, ResourceNames: []string{"version"},
			Verbs: []string{"get"},
		},
		rbacv1.PolicyRule{NonResourceURLs: []string{metricsPath}, Verbs: []string{"get"}})
}
