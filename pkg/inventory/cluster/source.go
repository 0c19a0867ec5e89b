package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// source is one thing that is listed and watched: a kind of the whole cluster,
// or what belongs to one Service.
type source struct {
	schema.GroupResource
	// service is the Service whose backend the source describes; without a name
	// the namespace that is read, and zero for a kind of the whole cluster.
	service inventory.Key
	// example tells the type of the objects.
	example runtime.Object
	// page is how many objects a list asks for at a time: about a megabyte.
	page int64
	// serves says that the objects make the API server serve resources.
	serves bool
	// strip drops what the inventory does not keep.
	strip func(metav1.Object)

	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// client is the part of a typed client that reads many objects.
type client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// from makes the source read through the client, and only what the selector
// leaves.
func from[L runtime.Object](c client[L], s source, selector func(*metav1.ListOptions)) source {
	s.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		selector(&o)
		return c.List(ctx, o)
	}
	s.watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		selector(&o)
		return c.Watch(ctx, o)
	}
	return s
}

func everything(*metav1.ListOptions) {}

// clusterSources are the kinds that are read of the whole cluster.
func (c Clients) clusterSources() []source {
	return []source{
		from(c.admission.ValidatingWebhookConfigurations(), source{
			GroupResource: admissionv1.Resource("validatingwebhookconfigurations"),
			example:       &admissionv1.ValidatingWebhookConfiguration{},
			page:          50, strip: stripConfiguration,
		}, everything),
		from(c.admission.MutatingWebhookConfigurations(), source{
			GroupResource: admissionv1.Resource("mutatingwebhookconfigurations"),
			example:       &admissionv1.MutatingWebhookConfiguration{},
			page:          50, strip: stripConfiguration,
		}, everything),
		from(c.apiextensions.CustomResourceDefinitions(), source{
			GroupResource: apiextensionsv1.Resource("customresourcedefinitions"),
			example:       &apiextensionsv1.CustomResourceDefinition{},
			page:          20, serves: true, strip: stripCRD,
		}, everything),
		from(c.aggregator.APIServices(), source{
			GroupResource: apiregistrationv1.Resource("apiservices"),
			example:       &apiregistrationv1.APIService{},
			page:          200, serves: true, strip: stripAPIService,
		}, everything),
		from(c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), source{
			GroupResource: corev1.Resource("namespaces"),
			example:       &metav1.PartialObjectMetadata{},
			page:          500, strip: stripNamespace,
		}, everything),
	}
}

// serviceSources are what is read of one Service.
func (c Clients) serviceSources(key inventory.Key) []source {
	return []source{
		from(c.core.Services(key.Namespace), source{
			GroupResource: corev1.Resource("services"),
			service:       key,
			example:       &corev1.Service{},
			page:          500, strip: stripService,
		}, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
		}),
		from(c.slices.EndpointSlices(key.Namespace), source{
			GroupResource: discoveryv1.Resource("endpointslices"),
			service:       key,
			example:       &discoveryv1.EndpointSlice{},
			page:          100, strip: stripSlice,
		}, func(o *metav1.ListOptions) {
			o.LabelSelector = labels.Set{discoveryv1.LabelServiceName: key.Name}.String()
		}),
	}
}

// podSources are what is read of a namespace in which backends run.
func (c Clients) podSources(namespace string) []source {
	return []source{
		from(c.core.Pods(namespace), source{
			GroupResource: corev1.Resource("pods"),
			service:       inventory.Key{Namespace: namespace},
			example:       &corev1.Pod{},
			page:          100, strip: stripPod,
		}, everything),
	}
}

// systemSources are what is read of a system namespace: of the Deployments only
// the cluster's DNS.
func (c Clients) systemSources(namespace string) []source {
	return []source{
		from(c.apps.DaemonSets(namespace), source{
			GroupResource: appsv1.Resource("daemonsets"),
			service:       inventory.Key{Namespace: namespace},
			example:       &appsv1.DaemonSet{},
			page:          100, strip: stripDaemonSet,
		}, everything),
		from(c.apps.Deployments(namespace), source{
			GroupResource: appsv1.Resource("deployments"),
			service:       inventory.Key{Namespace: namespace},
			example:       &appsv1.Deployment{},
			page:          100, strip: stripDeployment,
		}, func(o *metav1.ListOptions) {
			o.LabelSelector = inventory.DNSLabel + " in (" + strings.Join(inventory.DNSApps, ",") + ")"
		}),
	}
}

// place is what is read because of a webhook.
type place struct {
	// Key is that of a Service, or without a name that of a namespace.
	inventory.Key
	kind placeKind
}

type placeKind int

const (
	// backendService is a Service that a webhook calls.
	backendService placeKind = iota
	// backendNamespace is where the Pods behind it run.
	backendNamespace
	// systemNamespace is where those run that the nodes need.
	systemNamespace
)

func (p place) compare(o place) int {
	return cmp.Or(p.Key.Compare(o.Key), cmp.Compare(p.kind, o.kind))
}

// sources are what is read of the place.
func (c Clients) sources(p place) []source {
	switch p.kind {
	case backendNamespace:
		return c.podSources(p.Namespace)
	case systemNamespace:
		return c.systemSources(p.Namespace)
	}
	return c.serviceSources(p.Key)
}

// placed are all sources that are read because of webhooks, for those who want
// to know their kinds.
func (c Clients) placed() []source {
	return slices.Concat(c.serviceSources(inventory.Key{}), c.podSources(""), c.systemSources(""))
}

// possible reports whether there can be a Service of the name: a reference may
// name anything, and asking for the impossible is an error of its own.
func (s source) possible() bool {
	return s.service == (inventory.Key{}) || label(s.service.Namespace) && (s.service.Name == "" || label(s.service.Name))
}

func label(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

func (s source) failure(verb string, err error) failure {
	return failure{verb: verb, resource: s.GroupResource.String(), namespace: s.service.Namespace, err: err}
}

// Permissions are what Watch and Read need to be granted in the whole cluster;
// discovery and /version are granted to everybody by default. What is not
// granted becomes an Error of the Snapshot, and the rest works.
func Permissions() []rbacv1.PolicyRule {
	read := []string{"list", "watch"}
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{admissionv1.GroupName},
			Resources: []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"},
			Verbs:     read,
		},
		{APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"}, Verbs: read},
		{APIGroups: []string{apiregistrationv1.GroupName}, Resources: []string{"apiservices"}, Verbs: read},
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"namespaces", "services", "pods"}, Verbs: read},
		{APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: read},
		{APIGroups: []string{appsv1.GroupName}, Resources: []string{"daemonsets", "deployments"}, Verbs: read},
		{APIGroups: []string{openShiftGroup}, Resources: []string{"clusterversions"}, ResourceNames: []string{"version"}, Verbs: []string{"get"}},
		{NonResourceURLs: []string{metricsPath}, Verbs: []string{"get"}},
	}
}
