package cluster

import (
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The strip functions drop what the inventory does not keep, for two reasons:
// the schemas of CRDs are 99 % of all bytes, and a change of what was dropped
// is no change. Each may be applied to its own result.

// stripMeta drops the metadata that no check uses. Of the managed fields it keeps
// the managers and the times of their last write; writing a status is not a change.
func stripMeta(obj metav1.Object) {
	obj.SetManagedFields(writers(obj.GetManagedFields()))
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
	annotations := obj.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	obj.SetAnnotations(annotations)
}

// writers returns the managers in the order of the fields, each once.
func writers(fields []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for _, f := range fields {
		if f.Subresource != "" {
			continue
		}
		i := slices.IndexFunc(out, func(w metav1.ManagedFieldsEntry) bool { return w.Manager == f.Manager })
		switch {
		case i < 0:
			out = append(out, metav1.ManagedFieldsEntry{Manager: f.Manager, Time: f.Time.DeepCopy()})
		case out[i].Time.Before(f.Time):
			out[i].Time = f.Time.DeepCopy()
		}
	}
	return slices.Clip(out)
}

// stripPolicy drops the status of a validating policy but for the type checking, and the keys of
// the audit log.
func stripPolicy(obj metav1.Object) {
	stripMeta(obj)
	if p, ok := obj.(*admissionv1.ValidatingAdmissionPolicy); ok {
		for i := range p.Spec.AuditAnnotations {
			p.Spec.AuditAnnotations[i].Key = ""
		}
		p.Status = admissionv1.ValidatingAdmissionPolicyStatus{TypeChecking: p.Status.TypeChecking}
	}
}

// stripCRD drops the schemas and all that goes with them. Of the metadata only who owns a CRD with a
// conversion webhook, and when it was changed, is read, and whose API it is.
func stripCRD(obj metav1.Object) {
	stripMeta(obj)
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
		maps.DeleteFunc(crd.Annotations, func(key, _ string) bool { return !strings.HasPrefix(key, "api-approved.") })
		crd.ObjectMeta = metav1.ObjectMeta{Name: crd.Name, Annotations: crd.Annotations}
	}
	for i, v := range crd.Spec.Versions {
		crd.Spec.Versions[i] = apiextensionsv1.CustomResourceDefinitionVersion{
			Name:         v.Name,
			Served:       v.Served,
			Storage:      v.Storage,
			Subresources: v.Subresources,
		}
	}
	conditions := crd.Status.Conditions
	for i, c := range conditions {
		conditions[i] = apiextensionsv1.CustomResourceDefinitionCondition{Type: c.Type, Status: c.Status}
	}
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{
		Conditions:     conditions,
		StoredVersions: crd.Status.StoredVersions,
	}
}

// stripAPIService keeps the conditions: a group that becomes available changes
// what the server serves.
func stripAPIService(obj metav1.Object) {
	api := obj.(*apiregistrationv1.APIService)
	api.ObjectMeta = metav1.ObjectMeta{Name: api.Name}
	api.Spec = apiregistrationv1.APIServiceSpec{
		Group:   api.Spec.Group,
		Version: api.Spec.Version,
		Service: api.Spec.Service,
	}
	for i, c := range api.Status.Conditions {
		api.Status.Conditions[i] = apiregistrationv1.APIServiceCondition{Type: c.Type, Status: c.Status}
	}
}

func stripNamespace(obj metav1.Object) {
	stripMeta(obj)
	obj.SetManagedFields(nil)
	if metadata, ok := obj.(*metav1.PartialObjectMetadata); ok {
		metadata.TypeMeta = metav1.TypeMeta{} // which lists have and watches lack
	}
}

func stripService(obj metav1.Object) {
	service := obj.(*corev1.Service)
	service.ObjectMeta = metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, Labels: service.Labels}
	service.Spec = corev1.ServiceSpec{
		Type:         service.Spec.Type,
		ClusterIP:    service.Spec.ClusterIP,
		ClusterIPs:   service.Spec.ClusterIPs,
		ExternalName: service.Spec.ExternalName,
		Ports:        service.Spec.Ports,
		Selector:     service.Spec.Selector,

		PublishNotReadyAddresses: service.Spec.PublishNotReadyAddresses,
		InternalTrafficPolicy:    service.Spec.InternalTrafficPolicy,
	}
	service.Status = corev1.ServiceStatus{}
}

// stripPod keeps what shows which Pods are behind a Service, on which node, how old
// they are, and what starts them.
func stripPod(obj metav1.Object) {
	pod := obj.(*corev1.Pod)
	pod.ObjectMeta = inventory.ReducedMeta(pod.ObjectMeta)
	pod.UID = ""
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return key != corev1.MirrorPodAnnotationKey })
	pod.Spec = inventory.ReducedPod(pod.Spec)
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
}

// stripDaemonSet and stripDeployment keep what shows how their Pods are started.
func stripDaemonSet(obj metav1.Object) {
	d := obj.(*appsv1.DaemonSet)
	d.ObjectMeta = metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}
	d.Spec = appsv1.DaemonSetSpec{Template: stripTemplate(d.Spec.Template)}
	d.Status = appsv1.DaemonSetStatus{}
}

func stripDeployment(obj metav1.Object) {
	d := obj.(*appsv1.Deployment)
	d.ObjectMeta = metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}
	d.Spec = appsv1.DeploymentSpec{Replicas: d.Spec.Replicas, Template: stripTemplate(d.Spec.Template)}
	d.Status = appsv1.DeploymentStatus{}
}

func stripTemplate(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: t.Labels},
		Spec:       inventory.ReducedPod(t.Spec),
	}
}

// stripDisruptionBudget drops the status, which changes with each Pod.
func stripDisruptionBudget(obj metav1.Object) {
	b := obj.(*policyv1.PodDisruptionBudget)
	stripMeta(b) // who installed it is read
	b.ObjectMeta = metav1.ObjectMeta{
		Namespace: b.Namespace, Name: b.Name, Labels: b.Labels, Annotations: b.Annotations,
		OwnerReferences: b.OwnerReferences,
	}
	b.Spec = policyv1.PodDisruptionBudgetSpec{
		Selector: b.Spec.Selector, MinAvailable: b.Spec.MinAvailable, MaxUnavailable: b.Spec.MaxUnavailable,
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{}
}

// stripNetworkPolicy drops what a policy says of egress.
func stripNetworkPolicy(obj metav1.Object) {
	p := obj.(*networkingv1.NetworkPolicy)
	p.ObjectMeta = metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}
	p.Spec.Egress = nil
}

// stripSlice keeps one address of an endpoint: that there is one matters,
// which one does not.
func stripSlice(obj metav1.Object) {
	slice := obj.(*discoveryv1.EndpointSlice)
	slice.ObjectMeta = metav1.ObjectMeta{
		Namespace: slice.Namespace,
		Name:      slice.Name,
		Labels:    map[string]string{discoveryv1.LabelServiceName: slice.Labels[discoveryv1.LabelServiceName]},
	}
	for i, e := range slice.Endpoints {
		conditions := discoveryv1.EndpointConditions{Ready: e.Conditions.Ready}
		if ptr.Deref(e.Conditions.Terminating, false) { // few do at a time
			conditions = e.Conditions
		}
		slice.Endpoints[i] = discoveryv1.Endpoint{
			Addresses:  slices.Clone(e.Addresses[:min(1, len(e.Addresses))]),
			Conditions: conditions,
			NodeName:   e.NodeName,
			Zone:       e.Zone,
		}
	}
}

// named is what is read of an object to know whether it counts.
type named interface {
	GetNamespace() string
	GetName() string
}

// packedPod is a stripped Pod as protobuf. Most Pods of a cluster do not count, and as
// objects they would take more than three times the memory.
type packedPod struct {
	inventory.Key
	Protobuf string
}

func (p *packedPod) GetNamespace() string           { return p.Namespace }
func (p *packedPod) GetName() string                { return p.Name }
func (*packedPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (p *packedPod) DeepCopyObject() runtime.Object { return p } // it is never changed

func packed(object any) any {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object
	}
	data, err := pod.Marshal()
	utilruntime.Must(err)
	return &packedPod{keyOf(pod), string(data)}
}

func unpacked(object any) any {
	p, ok := object.(*packedPod)
	if !ok {
		return object
	}
	pod := &corev1.Pod{}
	utilruntime.Must(pod.Unmarshal([]byte(p.Protobuf)))
	return pod
}
