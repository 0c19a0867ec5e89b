package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Workload is a Pod, or what makes Pods: what admission sees of them when they
// are created anew.
type Workload struct {
	Kind string
	Key
	// Controller is what makes the Pods of a Workload of Kind Pod; zero for others, and
	// where nothing does.
	Controller Controller
	PodLabels  map[string]string
	// MeshAnnotations are those of its Pods that say what a sidecar of Istio or Linkerd takes.
	MeshAnnotations map[string]string
	// Secrets are those that its Pods cannot start without, as volumes.
	Secrets []string
	// HostNetwork says that its Pods start without the Pod network.
	HostNetwork bool
	// Static says that the kubelet runs it from a file: no admission can keep
	// it from running.
	Static bool
	// NodeCritical says that a node is of no use without it: CNI plugins,
	// service proxies, node DNS and CSI drivers.
	NodeCritical bool
	// Daemon says that its Pods are those of a DaemonSet, which drains leave alone.
	Daemon bool
	// ClusterDNS says that its Pods answer for the names of Services.
	ClusterDNS bool
	// Replicas counts its Pods; 0 where that depends on the nodes.
	Replicas int
	// Nodes are those its Pods run on, as far as the input has them, and NodeSelector the labels of those
	// that they may run on.
	Nodes        []string
	NodeSelector map[string]string
	// NodeTerms are those of its required node affinity, of which a node must fulfill one;
	// none for all nodes.
	NodeTerms []corev1.NodeSelectorTerm
	// Newest is when the newest of its Pods was created, zero without one, and
	// Terminating says that some of them are on their way out.
	Newest      time.Time
	Terminating bool
	// Ports are the TCP ports of its containers that have names, Declared all of them:
	// nil where the input shows no containers.
	Ports    map[string]int32
	Declared []int32
	// Undeclared says that a container declares no port, and so may listen at any.
	Undeclared bool
	// NoReadiness says that no container has a readinessProbe, PreStop that one has a
	// preStop hook and NoPreStop that none has; all are false where the input shows no
	// containers.
	NoReadiness, PreStop, NoPreStop bool
	// ReadinessPort is what the readinessProbe asks, 0 where there is none, or more than
	// one, or one that asks no port.
	ReadinessPort int32
}

// Controller is an object that makes Pods, in their namespace.
type Controller struct{ Kind, Name string }

// Maker is the workload, or what makes its Pods: many Pods have one maker, and names
// that end with them.
func (w *Workload) Maker() Controller {
	if w.Controller.Kind != "" {
		return w.Controller
	}
	return Controller{w.Kind, w.Name}
}

// String names the workload as messages do: "Deployment policy/policy".
func (w *Workload) String() string {
	maker := w.Maker()
	return maker.Kind + " " + Key{w.Namespace, maker.Name}.String()
}

// controllerOf is what makes the Pod: the Deployment whose ReplicaSet does, which calls
// that by its own name and the hash of the template.
func controllerOf(p *corev1.Pod) Controller {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return Controller{}
	}
	hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if name, cut := strings.CutSuffix(owner.Name, "-"+hash); owner.Kind == "ReplicaSet" && hash != "" && cut {
		return Controller{"Deployment", name}
	}
	return Controller{owner.Kind, owner.Name}
}

// nodeCriticalClass is the priority class of what a node cannot do without.
const nodeCriticalClass = "system-node-critical"

// SystemNamespaces are those in which clusters run what nodes need before they
// run Pods, and their DNS. The comments name the source.
var SystemNamespaces = []string{
	metav1.NamespaceSystem,          // kubeadm, k3s, EKS, AKS, GKE; Cilium, and Calico by manifest
	"calico-system",                 // github.com/tigera/operator
	"kube-flannel",                  // github.com/flannel-io/flannel Documentation/kube-flannel.yml
	"openshift-cluster-csi-drivers", // github.com/openshift/csi-operator
	"openshift-dns",                 // github.com/openshift/cluster-dns-operator
	"openshift-multus",              // github.com/openshift/cluster-network-operator bindata/network/multus
	"openshift-ovn-kubernetes",      // the same, bindata/network/ovn-kubernetes
	"openshift-sdn",                 // the same, up to 4.16
}

// dnsLabel is the label that the Pods of the cluster's DNS carry, wherever it is
// not a DaemonSet, and dnsApps are its values. Source: k8s.io/kubernetes
// cluster/addons/dns, whose Service kube-dns selects by the first value in nearly
// all clusters; the second is that of CoreDNS' own Helm chart.
const dnsLabel = "k8s-app"

var dnsApps = []string{"kube-dns", "coredns"}

// DNSSelector is the label selector of those Pods.
var DNSSelector = dnsLabel + " in (" + strings.Join(dnsApps, ",") + ")"

// workloads are the workloads of the objects, sorted. Pods of one controller
// count as one: they differ in nothing that admission would see.
func (o Objects) workloads() []Workload {
	var out []Workload
	for _, d := range o.Deployments {
		out = append(out, newWorkload("Deployment", &d.ObjectMeta, &d.Spec.Template, ptr.Deref(d.Spec.Replicas, 1)))
	}
	for _, s := range o.StatefulSets {
		out = append(out, newWorkload("StatefulSet", &s.ObjectMeta, &s.Spec.Template, ptr.Deref(s.Spec.Replicas, 1)))
	}
	out = append(out, lists.Map(o.DaemonSets, newDaemon)...)
	for _, j := range o.Jobs {
		out = append(out, newWorkload("Job", &j.ObjectMeta, &j.Spec.Template, ptr.Deref(j.Spec.Parallelism, 1)))
	}
	out = append(out, podWorkloads(o.Pods)...)
	slices.SortFunc(out, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func newWorkload(kind string, m *metav1.ObjectMeta, t *corev1.PodTemplateSpec, replicas int32) Workload {
	w := Workload{
		Kind:         kind,
		Key:          Key{m.Namespace, m.Name},
		PodLabels:    t.Labels,
		HostNetwork:  t.Spec.HostNetwork,
		NodeSelector: t.Spec.NodeSelector,
		NodeTerms:    nodeTerms(t.Spec),
		ClusterDNS:   IsDNS(m.Namespace, t.Labels),
		Replicas:     int(replicas),
	}
	for key, value := range t.Annotations {
		if isOfMesh(key) {
			if w.MeshAnnotations == nil {
				w.MeshAnnotations = map[string]string{}
			}
			w.MeshAnnotations[key] = value
		}
	}
	for _, v := range t.Spec.Volumes {
		if v.Secret != nil && !ptr.Deref(v.Secret.Optional, false) {
			w.Secrets = append(w.Secrets, v.Secret.SecretName)
		}
	}
	w.addContainers(t.Spec.Containers)
	return w
}

// addContainers adds what ReducedPod leaves of the containers.
func (w *Workload) addContainers(containers []corev1.Container) {
	for _, c := range containers {
		if w.Declared == nil {
			w.Declared = []int32{}
		}
		w.Undeclared = w.Undeclared || len(c.Ports) == 0
		for _, p := range c.Ports {
			w.addPort(p)
		}
		w.ReadinessPort = readinessPort(c)
		w.NoReadiness, w.PreStop, w.NoPreStop = c.ReadinessProbe == nil, c.Lifecycle != nil, c.Lifecycle == nil
	}
}

func (w *Workload) addPort(p corev1.ContainerPort) {
	if !isTCP(p.Protocol) {
		return
	}
	w.Declared = append(w.Declared, p.ContainerPort)
	if p.Name == "" {
		return
	}
	if w.Ports == nil {
		w.Ports = map[string]int32{}
	}
	w.Ports[p.Name] = p.ContainerPort
}

func isOfMesh(annotation string) bool {
	return strings.Contains(annotation, "sidecar.istio.io/") || strings.Contains(annotation, "linkerd.io/")
}

// ReducedMeta returns what is read of a Pod's metadata.
func ReducedMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, Labels: m.Labels, Annotations: m.Annotations,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
	maps.DeleteFunc(out.Annotations,
		func(key, _ string) bool { return key != corev1.MirrorPodAnnotationKey && !isOfMesh(key) })
	if o := metav1.GetControllerOfNoCopy(&m); o != nil {
		out.OwnerReferences = []metav1.OwnerReference{{Kind: o.Kind, Name: o.Name, Controller: o.Controller}}
	}
	return out
}

// ReducedPod returns what is read of a Pod's spec: Pods are most of the objects of a
// cluster, and their containers most of a Pod. One container stands for all: it has
// their TCP ports, and a readinessProbe, or a preStop hook, where any has; one before it stands
// for those without ports, where others have some.
func ReducedPod(s corev1.PodSpec) corev1.PodSpec {
	out := corev1.PodSpec{NodeName: s.NodeName, HostNetwork: s.HostNetwork, PriorityClassName: s.PriorityClassName}
	if s.HostNetwork {
		out.NodeSelector = s.NodeSelector
		if terms := nodeTerms(s); len(terms) > 0 {
			required := &corev1.NodeSelector{NodeSelectorTerms: terms}
			out.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: required,
			}}
		}
	}
	if len(s.Containers) == 0 {
		return out
	}
	var one corev1.Container
	undeclared := false
	for i, c := range slices.Concat(s.Containers, s.InitContainers) {
		if c.ReadinessProbe != nil {
			port := readinessPort(c)
			if one.ReadinessProbe != nil && port != readinessPort(one) {
				port = 0
			}
			action := &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}
			one.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: action}}
		}
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
			one.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}
		}
		goesOn := i < len(s.Containers) || ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways // EndpointSlices have the ports of no other
		undeclared = undeclared || goesOn && len(c.Ports) == 0
		for _, p := range c.Ports {
			if goesOn && isTCP(p.Protocol) {
				one.Ports = append(one.Ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort})
			}
		}
	}
	out.Containers = []corev1.Container{one}
	if undeclared && len(one.Ports) > 0 {
		out.Containers = []corev1.Container{{}, one}
	}
	return out
}

func nodeTerms(s corev1.PodSpec) []corev1.NodeSelectorTerm {
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil ||
		s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// ofAnyNode are the terms without what its controller adds to each Pod of a DaemonSet: the node.
func ofAnyNode(terms []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	out := slices.Clone(terms)
	for i := range out {
		out[i].MatchFields = nil
	}
	return out
}

// readinessPort is the port that the readinessProbe of the container asks.
func readinessPort(c corev1.Container) int32 {
	var port intstr.IntOrString
	switch probe := c.ReadinessProbe; {
	case probe == nil:
	case probe.HTTPGet != nil:
		port = probe.HTTPGet.Port
	case probe.TCPSocket != nil:
		port = probe.TCPSocket.Port
	case probe.GRPC != nil:
		port = intstr.FromInt32(probe.GRPC.Port)
	}
	for _, p := range c.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			return p.ContainerPort
		}
	}
	return port.IntVal
}

// IsDNS reports whether Pods with the labels answer for the names of Services.
func IsDNS(namespace string, labels map[string]string) bool {
	return slices.Contains(SystemNamespaces, namespace) && slices.Contains(dnsApps, labels[dnsLabel])
}

func newDaemon(d *appsv1.DaemonSet) Workload {
	w := newWorkload("DaemonSet", &d.ObjectMeta, &d.Spec.Template, 0)
	w.Daemon = true
	w.NodeCritical = d.Spec.Template.Spec.PriorityClassName == nodeCriticalClass
	return w
}

// podWorkloads merges the Pods of one controller. Those that have run to their
// end serve nothing; those of a Job do until then.
func podWorkloads(pods []*corev1.Pod) []Workload {
	var out []Workload
	position := map[Key]int{}
	for _, p := range pods {
		owner := metav1.GetControllerOfNoCopy(p)
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		w := podWorkload(p)
		key := Key{p.Namespace, p.Name}
		if owner != nil {
			key = Key{p.Namespace, owner.Kind + "/" + owner.Name}
		}
		i, isKnown := position[key]
		if !isKnown {
			position[key] = len(out)
			out = append(out, w)
			continue
		}
		out[i].Replicas++
		out[i].Nodes = append(out[i].Nodes, w.Nodes...)
		out[i].Terminating = out[i].Terminating || w.Terminating
		if w.Newest.After(out[i].Newest) {
			out[i].Newest = w.Newest
		}
	}
	return out
}

func podWorkload(p *corev1.Pod) Workload {
	w := newWorkload("Pod", &p.ObjectMeta, &corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}, 1)
	w.Controller, w.Static = controllerOf(p), p.Annotations[corev1.MirrorPodAnnotationKey] != ""
	w.Newest, w.Terminating = p.CreationTimestamp.Time, p.DeletionTimestamp != nil
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		w.Daemon = owner.Kind == "DaemonSet"
		w.NodeCritical = w.Daemon && p.Spec.PriorityClassName == nodeCriticalClass
		if w.Daemon {
			w.NodeTerms = ofAnyNode(w.NodeTerms)
		}
	}
	if p.Spec.NodeName != "" {
		w.Nodes = []string{p.Spec.NodeName}
	}
	return w
}
