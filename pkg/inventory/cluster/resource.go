package cluster

import (
	"context"
	"errors"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

// resource is a kind of object that is listed and watched, in the whole cluster or
// in one scope.
type resource struct {
	schema.GroupResource
	scope watchScope
	// example has the type of the objects.
	example runtime.Object
	// page is how many objects are listed in one call: about a megabyte.
	page int64
	// serves is set if the API server serves other resources because of the
	// objects.
	serves bool
	// strip drops what the inventory does not keep of an object, and keep, if
	// any, selects the objects that it keeps.
	strip func(metav1.Object)
	keep  func(metav1.Object) bool
	// matters, if any, reports whether a change is one that a Snapshot shows.
	matters func(before, after any) bool
	// owner, if any, is the Service, or the namespace, because of which an object
	// counts: others are kept until a webhook refers to theirs, and not shown.
	owner func(metav1.Object) inventory.Key
	// most is from how many objects on the scope is too broad; 0 if it never is.
	most int

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
func typedResource[T, L any, PT client.Object[T], PL client.List[L]](group rest.Interface, r resource, selector func(*metav1.ListOptions)) resource {
	r.example = PT(new(T))
	return withClient(client.Lister[T, L, PT, PL](group, r.Resource, r.scope.namespace), r, selector)
}

// withClient returns the resource with the calls of a client, restricted by the
// selector.
func withClient[L runtime.Object](c lister[L], r resource, selector func(*metav1.ListOptions)) resource {
	r.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		selector(&o)
		return c.List(ctx, o)
	}
	r.watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		selector(&o)
		return c.Watch(ctx, o)
	}
	return r
}

func unrestricted(*metav1.ListOptions) {}

// policyResources are the admission policies and their bindings.
var policyResources = []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}

// clusterResources are read in the whole cluster.
func (c Clients) clusterResources() []resource {
	return []resource{
		typedResource[admissionv1.ValidatingWebhookConfiguration, admissionv1.ValidatingWebhookConfigurationList](c.admission, resource{
			GroupResource: admissionv1.Resource("validatingwebhookconfigurations"),
			page:          50, strip: stripConfiguration,
		}, unrestricted),
		typedResource[admissionv1.MutatingWebhookConfiguration, admissionv1.MutatingWebhookConfigurationList](c.admission, resource{
			GroupResource: admissionv1.Resource("mutatingwebhookconfigurations"),
			page:          50, strip: stripConfiguration,
		}, unrestricted),
		typedResource[admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicyList](c.admission, resource{
			GroupResource: admissionv1.Resource("validatingadmissionpolicies"),
			page:          100, strip: stripPolicy,
		}, unrestricted),
		typedResource[admissionv1.ValidatingAdmissionPolicyBinding, admissionv1.ValidatingAdmissionPolicyBindingList](c.admission, resource{
			GroupResource: admissionv1.Resource("validatingadmissionpolicybindings"),
			page:          500, strip: stripMeta,
		}, unrestricted),
		typedResource[admissionv1.MutatingAdmissionPolicy, admissionv1.MutatingAdmissionPolicyList](c.admission, resource{
			GroupResource: admissionv1.Resource("mutatingadmissionpolicies"),
			page:          100, strip: stripPolicy,
		}, unrestricted),
		typedResource[admissionv1.MutatingAdmissionPolicyBinding, admissionv1.MutatingAdmissionPolicyBindingList](c.admission, resource{
			GroupResource: admissionv1.Resource("mutatingadmissionpolicybindings"),
			page:          500, strip: stripMeta,
		}, unrestricted),
		typedResource[apiextensionsv1.CustomResourceDefinition, apiextensionsv1.CustomResourceDefinitionList](c.apiextensions, resource{
			GroupResource: apiextensionsv1.Resource("customresourcedefinitions"),
			page:          20, serves: true, strip: stripCRD,
		}, unrestricted),
		typedResource[apiregistrationv1.APIService, apiregistrationv1.APIServiceList](c.aggregator, resource{
			GroupResource: apiregistrationv1.Resource("apiservices"),
			page:          200, serves: true, strip: stripAPIService,
		}, unrestricted),
		withClient(c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), resource{
			GroupResource: corev1.Resource("namespaces"),
			example:       &metav1.PartialObjectMetadata{},
			page:          500, strip: stripNamespace,
		}, unrestricted),
	}
}

// scopedResources are read in the scope.
func (c Clients) scopedResources(scope watchScope) []resource {
	var out []resource
	switch scope.kind {
	case oneService:
		out = c.oneService(scope)
	case servicesOfNamespace:
		out = c.servicesOfNamespace(scope)
	case endpointsOfServices:
		out = c.endpointSlices(scope)
	case podsOfNamespace:
		out = c.podResources(scope)
	case budgetsOfNamespace:
		out = c.disruptionBudgets(scope)
	case networkPoliciesOfNamespace:
		out = c.networkPolicies(scope)
	case nodeWorkloads:
		out = c.workloadResources(scope)
	default:
		out = c.smallClusterResources(scope)
	}
	for i := range out {
		out[i] = out[i].limited(c.lists)
	}
	return out
}

// limited returns the resource with lists that wait until there is room among those
// under way. Watches do not wait: a proxy may answer them with their first event.
func (r resource) limited(underWay chan struct{}) resource {
	list := r.list
	r.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		select {
		case underWay <- struct{}{}:
			defer func() { <-underWay }()
			return list(ctx, o)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return r
}

// allScoped are the resources that are read in some scope.
func (c Clients) allScoped() []resource {
	none := watchScope{}
	return slices.Concat(c.oneService(none), c.endpointSlices(none), c.podResources(none), c.disruptionBudgets(none), c.networkPolicies(none), c.workloadResources(none))
}

func (c Clients) oneService(scope watchScope) []resource {
	return []resource{typedResource[corev1.Service, corev1.ServiceList](c.core, resource{
		GroupResource: corev1.Resource("services"),
		scope:         scope,
		page:          servicePage, strip: stripService,
	}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, scope.services).String()
	})}
}

// smallClusterResources are all objects of one kind, where they are few.
func (c Clients) smallClusterResources(scope watchScope) []resource {
	var out resource
	switch scope.kind {
	case servicesOfCluster:
		out = typedResource[corev1.Service, corev1.ServiceList](c.core, resource{
			GroupResource: corev1.Resource("services"),
			page:          1000, most: fewInCluster, strip: stripService, owner: ownKey,
		}, unrestricted)
	case endpointsOfCluster:
		out = typedResource[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](c.slices, resource{
			GroupResource: discoveryv1.Resource("endpointslices"),
			page:          1000, most: fewInCluster, strip: stripSlice, owner: serviceOfSlice,
		}, unrestricted)
	case podsOfCluster:
		out = typedResource[corev1.Pod, corev1.PodList](c.core, resource{
			GroupResource: corev1.Resource("pods"),
			page:          250, most: fewPodsInCluster, strip: stripPod, owner: namespaceOf,
		}, unrestricted)
	case budgetsOfCluster:
		out = c.disruptionBudgets(scope)[0]
		out.page, out.most, out.owner = 1000, fewInCluster, namespaceOf
	case networkPoliciesOfCluster:
		out = c.networkPolicies(scope)[0]
		out.page, out.most, out.owner = 500, fewInCluster, namespaceOf
	}
	out.scope = scope
	return []resource{out}
}

const (
	// fewInCluster is up to how many Services, or EndpointSlices, all of a cluster
	// are watched: about two megabytes. In a cluster with more most are of no
	// webhook.
	fewInCluster = 2000
	// fewPodsInCluster is the same of Pods, which are larger and change more.
	fewPodsInCluster = 500
)

func ownKey(obj metav1.Object) inventory.Key { return keyOf(obj) }

func serviceOfSlice(obj metav1.Object) inventory.Key {
	return inventory.Key{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[discoveryv1.LabelServiceName]}
}

func namespaceOf(obj metav1.Object) inventory.Key {
	return inventory.Key{Namespace: obj.GetNamespace()}
}

// servicePage is also the number of Services that make a namespace crowded.
const servicePage = 500

func (c Clients) servicesOfNamespace(scope watchScope) []resource {
	names, most := sets.New(scope.names()...), servicePage
	if len(names) >= manyServices {
		most = 0
	}
	return []resource{typedResource[corev1.Service, corev1.ServiceList](c.core, resource{
		GroupResource: corev1.Resource("services"),
		scope:         scope,
		page:          servicePage, strip: stripService,
		keep: func(service metav1.Object) bool { return names.Has(service.GetName()) },
		most: most,
	}, unrestricted)}
}

func (c Clients) endpointSlices(scope watchScope) []resource {
	return []resource{typedResource[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](c.slices, resource{
		GroupResource: discoveryv1.Resource("endpointslices"),
		scope:         scope,
		page:          100, strip: stripSlice,
	}, func(o *metav1.ListOptions) {
		o.LabelSelector = discoveryv1.LabelServiceName + " in (" + scope.services + ")"
	})}
}

func (c Clients) podResources(scope watchScope) []resource {
	return []resource{
		typedResource[corev1.Pod, corev1.PodList](c.core, resource{
			GroupResource: corev1.Resource("pods"),
			scope:         scope,
			page:          100, strip: stripPod,
		}, unrestricted),
	}
}

func (c Clients) disruptionBudgets(scope watchScope) []resource {
	return []resource{typedResource[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](c.policy, resource{
		GroupResource: policyv1.Resource("poddisruptionbudgets"),
		scope:         scope,
		page:          100, strip: stripDisruptionBudget,
	}, unrestricted)}
}

func (c Clients) networkPolicies(scope watchScope) []resource {
	return []resource{typedResource[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](c.networking, resource{
		GroupResource: networkingv1.Resource("networkpolicies"),
		scope:         scope,
		page:          100, strip: stripNetworkPolicy,
	}, unrestricted)}
}

// workloadResources are all DaemonSets, and of the Deployments only the cluster's
// DNS.
func (c Clients) workloadResources(scope watchScope) []resource {
	return []resource{
		typedResource[appsv1.DaemonSet, appsv1.DaemonSetList](c.apps, resource{
			GroupResource: appsv1.Resource("daemonsets"),
			scope:         scope,
			page:          100, strip: stripDaemonSet,
		}, unrestricted),
		typedResource[appsv1.Deployment, appsv1.DeploymentList](c.apps, resource{
			GroupResource: appsv1.Resource("deployments"),
			scope:         scope,
			page:          100, strip: stripDeployment,
		}, func(o *metav1.ListOptions) {
			o.LabelSelector = inventory.DNSSelector
		}),
	}
}

// name is the resource as the inventory names it: failed calls are counted by it.
func (r resource) name() inventory.Resource {
	return inventory.Resource{Group: r.Group, Name: r.Resource}
}

func (r resource) failure(verb string, err error) failure {
	return failure{verb: verb, resource: r.GroupResource.String(), namespace: r.scope.namespace, err: err}
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
		pages := pager.ListPager{PageSize: r.page, PageFn: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			page, err := r.list(ctx, o)
			if err != nil {
				return nil, err
			}
			if r.isTooBroad(page, n) {
				return nil, errTooBroad
			}
			if err := r.reduce(page); err != nil {
				return nil, err
			}
			n += meta.LenList(page)
			progress(n)
			return page, nil
		}}
		var list runtime.Object
		if list, _, err = pages.ListWithAlloc(ctx, metav1.ListOptions{}); err == nil || !expired(err) {
			return list, err
		}
	}
	return nil, err
}

// errTooBroad is the error of a list that has more objects than it should have, or
// that only parts of may be read.
var errTooBroad = errors.New("there are too many objects, or not all of them may be read")

// isTooBroad reports whether a list has too many objects, of which so many were
// before this page.
func (r resource) isTooBroad(page runtime.Object, before int) bool {
	list, err := meta.ListAccessor(page)
	if err != nil || r.most == 0 {
		return false
	}
	rest := ptr.Deref(list.GetRemainingItemCount(), 0)
	if list.GetContinue() != "" {
		rest = max(rest, 1)
	}
	return before+meta.LenList(page)+int(rest) > r.most
}

// reduce drops from a page what the inventory does not keep.
func (r resource) reduce(page runtime.Object) error {
	var kept []runtime.Object
	err := meta.EachListItem(page, func(item runtime.Object) error {
		obj, ok := item.(metav1.Object)
		if !ok || !r.keeps(obj) {
			return nil
		}
		r.strip(obj)
		kept = append(kept, item)
		return nil
	})
	if err != nil || r.keep == nil {
		return err
	}
	return meta.SetList(page, kept)
}

func (r resource) keeps(obj metav1.Object) bool { return r.keep == nil || r.keep(obj) }

// countsFor reports whether the object is one of these owners.
func (r resource) countsFor(obj any, owners keySet) bool {
	if r.owner == nil {
		return true
	}
	m, ok := obj.(metav1.Object)
	return ok && owners[r.owner(m)]
}

// mustSplit reports whether a list failed so that lists of parts of the scope may
// succeed.
func (r resource) mustSplit(err error) bool {
	return err == errTooBroad || r.owner != nil && apierrors.IsForbidden(err)
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
	read := []string{"list", "watch"}
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{admissionv1.GroupName},
			Resources: append([]string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}, policyResources...),
			Verbs:     read,
		},
		{APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"}, Verbs: read},
		{APIGroups: []string{apiregistrationv1.GroupName}, Resources: []string{"apiservices"}, Verbs: read},
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"namespaces", "services", "pods"}, Verbs: read},
		{APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: read},
		{APIGroups: []string{appsv1.GroupName}, Resources: []string{"daemonsets", "deployments"}, Verbs: read},
		{APIGroups: []string{policyv1.GroupName}, Resources: []string{"poddisruptionbudgets"}, Verbs: read},
		{APIGroups: []string{networkingv1.GroupName}, Resources: []string{"networkpolicies"}, Verbs: read},
		{APIGroups: []string{openShiftGroup}, Resources: []string{"clusterversions"}, ResourceNames: []string{"version"}, Verbs: []string{"get"}},
		{NonResourceURLs: []string{metricsPath}, Verbs: []string{"get"}},
	}
}
