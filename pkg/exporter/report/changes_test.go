package report

import (
	"bytes"
	"io"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// registered is the Report of a cluster with one webhook, written by a manager.
func registered(t *testing.T, change func(w *admissionv1.ValidatingWebhook)) *classify.Report {
	t.Helper()
	c := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policy", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm", Time: new(metav1.NewTime(reporttest.Taken))}}},
		Webhooks:   []admissionv1.ValidatingWebhook{kubetest.Webhook("pods.policy.example.com", kubetest.Client("policy", "policy"), kubetest.Rule("", "pods", admissionv1.Create))},
	}
	c.Webhooks[0].Rules[0].APIVersions = []string{"v1"}
	c.Webhooks[0].NamespaceSelector, c.Webhooks[0].FailurePolicy = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}, new(admissionv1.Ignore)
	change(&c.Webhooks[0])
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: true}, Validating: []*admissionv1.ValidatingWebhookConfiguration{c}}
	for name, team := range map[string]string{"shop": "shop", "bank": "bank", "policy": "platform"} {
		o.Namespaces = append(o.Namespaces, kubetest.Namespace(name, map[string]string{"team": team}))
	}
	return reporttest.Evaluated(t, o.Snapshot(reporttest.Taken))
}

func TestChanges(t *testing.T) {
	before := registered(t, func(*admissionv1.ValidatingWebhook) {})
	after := registered(t, func(w *admissionv1.ValidatingWebhook) {
		w.NamespaceSelector, w.FailurePolicy, w.TimeoutSeconds = nil, new(admissionv1.Fail), new(int32(20))
		w.Rules[0].Operations, w.Rules[0].Resources = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, []string{"pods", "secrets"}
	})
	for file, write := range map[string]func(io.Writer, Changes) error{
		"changes.txt": func(w io.Writer, c Changes) error { return Write(w, "text", c, TextOptions{Width: 100}) },
		"changes.md":  func(w io.Writer, c Changes) error { return Write(w, "markdown", c, TextOptions{}) }, "changes.json": WriteJSON[Changes],
	} {
		golden.Compare(t, file, reporttest.Rendered(t, func(b *bytes.Buffer) error { return write(b, NewChanges(before, after, impact.Compare(before, after))) }))
	}
	golden.Compare(t, "changes-none.txt", reporttest.Rendered(t, func(b *bytes.Buffer) error {
		return Write(b, "text", NewChanges(before, before, impact.Difference{}), TextOptions{})
	}))
}

// TestChangesAlike: what changed alike of several configurations is printed once.
func TestChangesAlike(t *testing.T) {
	of := func(name, sentence string) impact.Registration {
		return impact.Registration{Type: inventory.Mutating, Configuration: name, Edit: impact.Changed, Webhooks: []impact.WebhookChange{{Ref: inventory.Ref{Name: name + ".example.com"}, Sentences: []string{sentence}}}}
	}
	var b bytes.Buffer
	must.Succeed(t, Changes{Difference: impact.Difference{Registrations: []impact.Registration{of("a", "slower"), of("b", "gone"), of("c", "slower")}}}.blocks().WriteText(&b, TextOptions{}))
	const want = "2 mutating webhook configurations are changed: a, c\n  2 webhooks (a.example.com, c.example.com): slower\n\nMutating webhook configuration b is changed\n  webhook b.example.com: gone\n"
	if b.String() != want {
		t.Errorf("got %q", b.String())
	}
}
