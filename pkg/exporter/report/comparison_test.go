package report

import (
	"bytes"
	"io"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// change is one that upgrades the server, resolves two findings, adds one and
// leaves the others.
func change() Comparison {
	before, after := NewDocument(reporttest.Report()), NewDocument(reporttest.Report())
	before.Taken, before.Server = before.Taken.Add(-24*time.Hour), "v1.36.4"
	before.Findings = before.Findings[1:]
	after.Findings = append(after.Findings[:1:1], after.Findings[3:]...)
	return NewComparison(before, after)
}

func TestComparison(t *testing.T) {
	for file, write := range map[string]func(io.Writer, Comparison) error{
		"comparison.txt":  func(w io.Writer, c Comparison) error { return Write(w, "text", c, TextOptions{Width: 100}) },
		"comparison.md":   func(w io.Writer, c Comparison) error { return Write(w, "markdown", c, TextOptions{}) },
		"comparison.json": WriteJSON[Comparison],
	} {
		var b bytes.Buffer
		must.Succeed(t, write(&b, change()))
		golden.Compare(t, file, b.Bytes())
	}
}

func TestDiagnosis(t *testing.T) {
	r := reporttest.Report()
	for i := range r.Profiles {
		r.Profiles[i].Snapshot = r.Snapshot
	}
	var answers []diagnose.Answer
	for _, text := range []string{
		`failed calling webhook "pods.policy.example.com": failed to call webhook: Post "https://policy.policy.svc:443/?timeout=10s": no endpoints available for service "policy"`,
		`admission webhook "gone.example.com" denied the request: no`,
	} {
		for _, c := range diagnose.Parse(text) {
			answers = append(answers, diagnose.Explain(r, c))
		}
	}
	s := reporttest.Gathered(r).Snapshot
	golden.Compare(t, "diagnosis.txt", reporttest.Rendered(t, func(b *bytes.Buffer) error {
		return Write(b, "text", NewDiagnosis(answers, s), TextOptions{Width: 100})
	}))
	golden.Compare(t, "diagnosis.json", reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteJSON(b, NewDiagnosis(answers, s)) }))
}

func TestCompare(t *testing.T) {
	base := Finding{Check: "no-ready-endpoints", Severity: classify.Warning, Ref: inventory.Ref{Type: "validating", Configuration: "policy", Name: "pods"}}
	with := func(change func(*Finding)) Finding {
		f := base
		change(&f)
		return f
	}
	worse := with(func(f *Finding) { f.Severity = classify.Critical })
	accepted := with(func(f *Finding) { f.Acknowledged = true })
	moved := with(func(f *Finding) {
		f.Source, f.Message, f.Fix = inventory.Source{File: "new.yaml", Line: 99}, "in other words", "another way"
	})
	other := with(func(f *Finding) { f.Resource = "pods" })
	sibling := with(func(f *Finding) { f.Type = "admit" })
	for name, tc := range map[string]struct {
		before, after, added, resolved []Finding
	}{
		"nothing":                    {},
		"the same":                   {before: []Finding{base}, after: []Finding{base}},
		"moved and reworded":         {before: []Finding{base}, after: []Finding{moved}},
		"new":                        {after: []Finding{base}, added: []Finding{base}},
		"gone":                       {before: []Finding{base}, resolved: []Finding{base}},
		"worse":                      {before: []Finding{base}, after: []Finding{worse}, added: []Finding{worse}},
		"milder":                     {before: []Finding{worse}, after: []Finding{base}},
		"another resource":           {before: []Finding{base}, after: []Finding{other}, added: []Finding{other}, resolved: []Finding{base}},
		"another type":               {before: []Finding{base}, after: []Finding{base, sibling}, added: []Finding{sibling}},
		"new, but acknowledged":      {after: []Finding{accepted}},
		"acknowledged now":           {before: []Finding{base}, after: []Finding{accepted}},
		"acknowledgement ended":      {before: []Finding{accepted}, after: []Finding{base}, added: []Finding{base}},
		"acknowledged, and gone":     {before: []Finding{accepted}},
		"twice before, once after":   {before: []Finding{base, moved}, after: []Finding{base}},
		"worst of two counts":        {before: []Finding{base, worse}, after: []Finding{worse}},
		"worst of two counts, after": {before: []Finding{base, accepted}, after: []Finding{accepted, base}},
	} {
		t.Run(name, func(t *testing.T) {
			got := NewComparison(Document{Findings: tc.before}, Document{Findings: tc.after})
			expect.Equal(t, append([]Finding{}, tc.added...), got.Added)
			expect.Equal(t, append([]Finding{}, tc.resolved...), got.Resolved)
		})
	}
}

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
		golden.Compare(t, file, reporttest.Rendered(t, func(b *bytes.Buffer) error {
			return write(b, NewChanges(before, after, after, impact.Compare(before, after)))
		}))
	}
	golden.Compare(t, "changes-none.txt", reporttest.Rendered(t, func(b *bytes.Buffer) error {
		return Write(b, "text", NewChanges(before, before, before, impact.Difference{}), TextOptions{})
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
	expect.Equal(t, want, b.String())
}
