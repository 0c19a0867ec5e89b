package inventory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// networkPolicies reads policies of namespace policy, one a line, by their specs.
func networkPolicies(t *testing.T, specs string) []*networkingv1.NetworkPolicy {
	t.Helper()
	var out []*networkingv1.NetworkPolicy
	for i, spec := range strings.Split(specs, "\n") {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: fmt.Sprint(i)}}
		must.Succeed(t, yaml.UnmarshalStrict([]byte(spec), &p.Spec))
		out = append(out, p)
	}
	return out
}

// serving is a Deployment with a container that listens on port https, 8443.
func serving(name string) *appsv1.Deployment {
	d := deployment(name, 1)
	d.Spec.Template.Spec = ReducedPod(corev1.PodSpec{Containers: []corev1.Container{
		{Name: "sidecar", Ports: []corev1.ContainerPort{{ContainerPort: 1}, {Name: "dns", ContainerPort: 8443, Protocol: corev1.ProtocolUDP}}},
		{Name: "hook", Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443, Protocol: corev1.ProtocolTCP}}},
	}})
	return d
}

// TestIsolating: what policies make of a call from the network of a host to TCP port
// 8443, by the documentation of NetworkPolicy.
func TestIsolating(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/isolating.tsv", 3) {
		t.Run(row[0], func(t *testing.T) {
			o := Objects{Deployments: []*appsv1.Deployment{serving("a")}, NetworkPolicies: networkPolicies(t, row[2])}
			s := o.Snapshot(time.Time{})
			if got := s.Isolating(&s.Workloads[0], 8443); len(got) > 0 != (row[1] == "closed") {
				t.Errorf("isolated by %v, want %s", got, row[1])
			}
		})
	}
}

// TestIsolatingElsewhere: policies neither apply in other namespaces nor to the network
// of a host, and nothing is known of a port that is unknown.
func TestIsolatingElsewhere(t *testing.T) {
	elsewhere, host := serving("a"), serving("host")
	elsewhere.Namespace = "elsewhere"
	host.Spec.Template.Spec.HostNetwork = true
	o := Objects{Deployments: []*appsv1.Deployment{elsewhere, host, serving("a")}, NetworkPolicies: networkPolicies(t, "podSelector: {}")}
	s := o.Snapshot(time.Time{})
	for i, want := range []int{0, 1, 0} {
		if got := s.Isolating(&s.Workloads[i], 8443); len(got) != want {
			t.Errorf("%s is isolated by %v, want %d", &s.Workloads[i], got, want)
		}
		if got := s.Isolating(&s.Workloads[i], 0); len(got) != 0 {
			t.Errorf("an unknown port of %s is closed by %v", &s.Workloads[i], got)
		}
	}
}

// TestIsolatingByMany: where not all policies are compared, none is known to close.
func TestIsolatingByMany(t *testing.T) {
	for n, closed := range map[int]bool{comparisons: true, comparisons + 1: false} {
		o := Objects{Deployments: []*appsv1.Deployment{serving("a")}, NetworkPolicies: networkPolicies(t, strings.Repeat("podSelector: {}\n", n-1)+"podSelector: {}")}
		s := o.Snapshot(time.Time{})
		if got := s.Isolating(&s.Workloads[0], 8443); len(got) > 0 != closed {
			t.Errorf("%d policies: isolated by %d, want closed %t", n, len(got), closed)
		}
	}
}

func TestTargetPort(t *testing.T) {
	ref := ServiceRef{Key: Key{"policy", "a"}, Port: 443}
	for name, tt := range map[string]struct {
		ports []corev1.ServicePort
		want  int32
	}{
		"a number":           {[]corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}}, 8443},
		"none":               {[]corev1.ServicePort{{Port: 443}}, 443},
		"a name":             {[]corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("https")}}, 8443},
		"a name of no port":  {[]corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("dns")}}, 0},
		"UDP on that number": {[]corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolUDP}, {Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(2)}}, 2},
		"another number":     {[]corev1.ServicePort{{Port: 80}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "a"}, Spec: corev1.ServiceSpec{Ports: tt.ports}}
			s := Objects{Deployments: []*appsv1.Deployment{serving("a")}, Services: []*corev1.Service{service}}.Snapshot(time.Time{})
			expect.Equal(t, tt.want, s.TargetPort(ref, &s.Workloads[0]))
		})
	}
}

// TestContainers: of containers only what a Workload is made of is kept, by whatever
// keeps it, twice.
func TestContainers(t *testing.T) {
	hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
	for name, tt := range map[string]struct {
		spec                   corev1.PodSpec
		noReadiness, noPreStop bool
	}{
		"unknown":            {corev1.PodSpec{}, false, false},
		"neither":            {corev1.PodSpec{Containers: []corev1.Container{{Name: "hook"}}}, true, true},
		"only a post start":  {corev1.PodSpec{Containers: []corev1.Container{{Lifecycle: &corev1.Lifecycle{PostStart: hook.PreStop}}}}, true, true},
		"one of two":         {corev1.PodSpec{Containers: []corev1.Container{{ReadinessProbe: &corev1.Probe{PeriodSeconds: 3}}, {Lifecycle: hook}}}, false, false},
		"a sidecar":          {corev1.PodSpec{Containers: []corev1.Container{{}}, InitContainers: []corev1.Container{{ReadinessProbe: &corev1.Probe{}}}}, false, true},
		"a hook, no probing": {corev1.PodSpec{Containers: []corev1.Container{{Lifecycle: hook}}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				tt.spec = ReducedPod(tt.spec)
				d := deployment("a", 1)
				d.Spec.Template.Spec = tt.spec
				w := Objects{Deployments: []*appsv1.Deployment{d}}.workloads()[0]
				if w.NoReadiness != tt.noReadiness || w.NoPreStop != tt.noPreStop {
					t.Errorf("no readiness %t, no preStop %t", w.NoReadiness, w.NoPreStop)
				}
			}
		})
	}
}
