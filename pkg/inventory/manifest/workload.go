package manifest

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods are most of the objects of a cluster, and their containers are not read.

// podSpec are the fields of a Pod's spec that are read.
type podSpec struct {
	NodeName          string `json:"nodeName"`
	HostNetwork       bool   `json:"hostNetwork"`
	PriorityClassName string `json:"priorityClassName"`
}

func (s podSpec) v1() corev1.PodSpec {
	return corev1.PodSpec{NodeName: s.NodeName, HostNetwork: s.HostNetwork, PriorityClassName: s.PriorityClassName}
}

// pod is a Pod as far as it is read.
type pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   podSpec `json:"spec"`
	Status struct {
		Phase      corev1.PodPhase       `json:"phase"`
		Conditions []corev1.PodCondition `json:"conditions"`
	} `json:"status"`
}

func (p *pod) v1() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   p.TypeMeta,
		ObjectMeta: p.ObjectMeta,
		Spec:       p.Spec.v1(),
		Status:     corev1.PodStatus{Phase: p.Status.Phase, Conditions: p.Status.Conditions},
	}
}

// workload is a Deployment, StatefulSet or DaemonSet as far as it is read.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Replicas *int32                `json:"replicas"`
		Selector *metav1.LabelSelector `json:"selector"`
		Template struct {
			metav1.ObjectMeta `json:"metadata"`

			Spec podSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

func (w *workload) v1(t typeMeta) any {
	template := corev1.PodTemplateSpec{ObjectMeta: w.Spec.Template.ObjectMeta, Spec: w.Spec.Template.Spec.v1()}
	switch t.kind {
	case "StatefulSet":
		return &appsv1.StatefulSet{TypeMeta: w.TypeMeta, ObjectMeta: w.ObjectMeta, Spec: appsv1.StatefulSetSpec{Replicas: w.Spec.Replicas, Selector: w.Spec.Selector, Template: template}}
	case "DaemonSet":
		return &appsv1.DaemonSet{TypeMeta: w.TypeMeta, ObjectMeta: w.ObjectMeta, Spec: appsv1.DaemonSetSpec{Selector: w.Spec.Selector, Template: template}}
	}
	return &appsv1.Deployment{TypeMeta: w.TypeMeta, ObjectMeta: w.ObjectMeta, Spec: appsv1.DeploymentSpec{Replicas: w.Spec.Replicas, Selector: w.Spec.Selector, Template: template}}
}
