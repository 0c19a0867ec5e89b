package observe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// wardle is the group of Kubernetes' sample of an aggregated API server.
const wardle = "wardle.example.com"

var flunders = schema.GroupVersionResource{Group: wardle, Version: "v1alpha1", Resource: "flunders"}

// aggregate has the API server pass requests for the group on to the sample, and returns
// what it is reached by.
func (w environment) aggregate(t *testing.T, namespace string) *rest.Config {
	t.Helper()
	program, err := programs.SampleAPIServer()
	testenv.Must(t, err)
	sample, err := w.Plane.Aggregate(t.Context(), program)
	testenv.Must(t, err)
	var port int32
	_, err = fmt.Sscanf(strings.TrimPrefix(sample.Host, "https://127.0.0.1:"), "%d", &port)
	testenv.Must(t, err)
	_, err = w.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "sample"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = w.Kube.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "sample", Labels: map[string]string{discoveryv1.LabelServiceName: "sample"}},
		AddressType: discoveryv1.AddressTypeFQDN, // which may be of the loopback
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	w.Install(t, fmt.Appendf(nil, `{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1alpha1.%[1]s"}, "spec": {"group": "%[1]s", "version": "v1alpha1",
		"groupPriorityMinimum": 1000, "versionPriority": 15, "insecureSkipTLSVerify": true, "service": {"namespace": %[2]q, "name": "sample"}}}`, wardle, namespace))
	return sample
}

// createFlunder asks the API server, which passes it on.
func (w environment) createFlunder(ctx context.Context, namespace string) error {
	flunder := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": wardle + "/v1alpha1", "kind": "Flunder", "metadata": map[string]any{"generateName": "e2e-"},
	}}
	_, err := w.Dynamic.Resource(flunders).Namespace(namespace).Create(ctx, flunder, metav1.CreateOptions{})
	return err
}

// TestAggregatedAPIServer: an aggregated API server calls webhooks itself. They are in the
// inventory and in what explain says, its counts are observed, and when such a webhook
// dies, the alerts on it reach Alertmanager.
func TestAggregatedAPIServer(t *testing.T) {
	w := environment{testenv.New(t, cluster.Options{})}
	b := w.Backend(t, "aggregated")
	sample := w.aggregate(t, b.Namespace)
	hook := testenv.Hook(b, "/allow", testenv.Rule(wardle, "flunders"))
	// It finds Services by DNS, of which there is none here.
	hook.ClientConfig.URL, hook.ClientConfig.Service = new(w.Hooks.URL("/fail-every/1/aggregated")), nil
	w.Validate(t, "aggregated", hook)
	var refusal error
	testenv.Eventually(t, func() error {
		if refusal = w.createFlunder(t.Context(), b.Namespace); refusal == nil || !strings.Contains(refusal.Error(), "failed calling webhook") {
			return fmt.Errorf("want a refusal by the webhook, have %v", refusal)
		}
		return nil
	})

	kubeconfig := "--kubeconfig=" + w.Plane.Kubeconfig()
	for _, c := range []struct {
		want []string
		args []string
	}{
		{[]string{hook.Name}, []string{"explain", "create", "flunders." + wardle, "-n", b.Namespace, kubeconfig}},
		{[]string{hook.Name, "aggregated"}, []string{"explain", "--error", refusal.Error(), kubeconfig}},
		{[]string{"Service aggregated/sample", "flunders." + wardle, "1 webhook", hook.Name}, []string{"impact", "apiservice/v1alpha1." + wardle, kubeconfig}},
		{[]string{hook.Name}, []string{"audit", "-o", "json", "validatingwebhookconfiguration/aggregated", kubeconfig}},
	} {
		if got := testenv.Command(t, c.args...); !testenv.ContainsAll(got.Stdout, c.want...) {
			t.Errorf("%q: want %q in\n%s%s", c.args, c.want, got.Stdout, got.Stderr)
		}
	}
	w.alertsOnAggregated(t, sample, b.Namespace, hook.Name)
	w.withoutAggregated(t)
}

// withoutAggregated wants what impact says of the loss of an aggregated API server: no
// namespace can be deleted until its APIService is.
func (w environment) withoutAggregated(t *testing.T) {
	t.Helper()
	w.Plane.KillAggregated()
	w.Namespace(t, "bystander")
	client := w.Kube.CoreV1().Namespaces()
	testenv.Must(t, client.Delete(t.Context(), "bystander", metav1.DeleteOptions{}))
	testenv.EventuallyWithin(t, 2*time.Minute, func() error {
		namespace, err := client.Get(t.Context(), "bystander", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range namespace.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the namespace has the conditions %v", namespace.Status.Conditions)
	})
	backup := filepath.Join(t.TempDir(), "backup.yaml")
	object := []string{"apiservice", "v1alpha1." + wardle}
	testenv.Must(t, os.WriteFile(backup, []byte(w.Kubectl(t, append([]string{"get", "-o", "yaml"}, object...)...)), 0o600))
	w.Kubectl(t, append([]string{"delete"}, object...)...)
	testenv.EventuallyWithin(t, 2*time.Minute, func() error {
		if _, err := client.Get(t.Context(), "bystander", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace is still there: %w", err)
		}
		return nil
	})
	w.Kubectl(t, "create", "-f", backup)
}

// alertsOnAggregated wants the alert on a webhook that fails, of the aggregated API
// server's own series. It pages by the severities of the enhancement: by the project's own,
// what the cluster itself does not need does not.
func (w environment) alertsOnAggregated(t *testing.T, sample *rest.Config, namespace, webhook string) {
	t.Helper()
	stack := w.Monitor(t, monitoring.Options{
		Rules: []string{"--severities=enhancement"}, TimeScale: 0.05,
		Targets: monitoring.Targets{APIServers: []string{sample.Host}, Auditors: []string{w.Run(t).URL}},
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			_ = w.createFlunder(ctx, namespace)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	testenv.EventuallyWithin(t, 4*time.Minute, func() error {
		alerts, err := stack.Alerts(t.Context())
		for _, a := range alerts {
			if a.Labels["alertname"] == "WebhookCallsFailing" && a.Labels["name"] == webhook && a.Labels["severity"] == "critical" {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("WebhookCallsFailing on %s, critical, is not among %v", webhook, alerts))
	})
	counted, err := stack.Query(t.Context(), fmt.Sprintf(`group by (instance) (apiserver_admission_webhook_rejection_count{name=%q})`, webhook))
	if testenv.Must(t, err); len(counted) != 1 || string(counted[0].Metric["instance"]) != monitoring.Address(sample.Host) {
		t.Errorf("the failures are counted by %v, want %s", counted, sample.Host)
	}
}
