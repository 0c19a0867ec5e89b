// Package operator holds the auditor as an operator against a real control
// plane: what it writes, who writes it, and who may read it.
package operator

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// elected are the flags of a replica that shows errors at once.
var elected = []string{"--leader-elect", "--namespace=" + testenv.Home, "--degraded.inertia=0s"}

// registrations are the types of webhooks and the conditions they turn True.
var registrations = []struct {
	name, condition string
	register        func(testing.TB, *testenv.Env, webhook.Backend)
}{
	{"validating", "ValidatingAdmissionWebhookConfigurationError", func(t testing.TB, w *testenv.Env, b webhook.Backend) {
		w.Validate(t, b.Namespace, testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	}},
	{"mutating", "MutatingAdmissionWebhookConfigurationError", func(t testing.TB, w *testenv.Env, b webhook.Backend) {
		w.Mutate(t, b.Namespace, testenv.Mutating(testenv.Hook(b, "/allow", testenv.Rule("", "configmaps"))))
	}},
	{"conversion", "CRDConversionWebhookConfigurationError", func(t testing.TB, w *testenv.Env, b webhook.Backend) {
		w.Widgets(t, b.Namespace+".example.com", b.Conversion("/convert"))
	}},
}

// TestConditions breaks webhooks of each type in each way: the conditions show
// it, and that it is over after the cure.
func TestConditions(t *testing.T) {
	t.Parallel()
	w := testenv.New(t, cluster.Options{APIServerFlags: testenv.SendsReviews(), WithoutControllers: true})
	w.InstallAPIs(t)
	a := w.Run(t, elected...)
	w.WaitForCondition(t, testenv.AsExpected("Degraded"))
	t.Run("objects", func(t *testing.T) { describe(t, w) })
	for _, broken := range webhook.Breakages {
		t.Run(broken.Name, func(t *testing.T) { breakAll(t, w, broken) })
	}
	t.Run("virtual resource", func(t *testing.T) { interceptReviews(t, w) })
	t.Run("Events", func(t *testing.T) { announce(t, w) })
	t.Run("changes", func(t *testing.T) { change(t, w, a) })
	t.Run("reviews are sent", func(t *testing.T) { sends(t, w, a, true) })
}

// breakAll breaks a webhook of each type at once: few changes are written at
// once, and each is waited for.
func breakAll(t *testing.T, w *testenv.Env, broken webhook.Breakage) {
	backends := make([]webhook.Backend, len(registrations))
	for i, r := range registrations {
		backends[i] = w.Backend(t, r.name+"-"+strings.ReplaceAll(broken.Name, " ", "-"))
		r.register(t, w, backends[i])
	}
	for i, r := range registrations {
		w.WaitForCondition(t, testenv.AsExpected(r.condition))
		testenv.Must(t, broken.Break(backends[i], t.Context()))
	}
	for i, r := range registrations {
		w.WaitForCondition(t, metav1.Condition{Type: r.condition, Status: metav1.ConditionTrue, Reason: broken.Reason, Message: backends[i].Namespace})
		w.WaitForCondition(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Reason: r.condition + "_" + broken.Reason})
	}
	const controllers = "ResourceControllersError"
	w.WaitForCondition(t, metav1.Condition{Type: controllers, Status: metav1.ConditionTrue, Reason: "ConversionBlocksControllers", Message: "resource quota stop"})
	for _, b := range backends {
		testenv.Must(t, broken.Heal(b, t.Context()))
	}
	for _, r := range registrations {
		w.WaitForCondition(t, testenv.AsExpected(r.condition))
	}
	w.WaitForCondition(t, testenv.AsExpected(controllers))
	w.WaitForCondition(t, testenv.AsExpected("Degraded"))
}

// describe wants what the cluster version operator and must-gather read.
func describe(t *testing.T, w *testenv.Env) {
	status, found, err := w.Status(t.Context(), testenv.ClusterOperator)
	testenv.Must(t, err)
	if len(status.Versions) != 1 || status.Versions[0].Name != "operator" || status.Versions[0].Version == "" {
		t.Errorf("versions: %+v", status.Versions)
	}
	related := map[string]bool{}
	for _, o := range status.RelatedObjects {
		related[o.Resource+"."+o.Group+"/"+o.Name] = true
	}
	for _, resource := range []string{
		"mutatingwebhookconfigurations.admissionregistration.k8s.io/",
		"validatingwebhookconfigurations.admissionregistration.k8s.io/",
		"customresourcedefinitions.apiextensions.k8s.io/",
		"namespaces./" + testenv.Home,
	} {
		if !related[resource] {
			t.Errorf("relatedObjects lack %s: %+v", resource, status.RelatedObjects)
		}
	}
	if owners := found.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Namespace" || owners[0].Name != testenv.Home {
		t.Errorf("owners: %+v", owners)
	}
	for _, want := range []metav1.Condition{
		{Type: "Available", Status: metav1.ConditionTrue},
		testenv.AsExpected("Progressing"),
		{Type: "Upgradeable", Status: metav1.ConditionTrue},
	} {
		w.WaitForCondition(t, want)
	}
}

func interceptReviews(t *testing.T, w *testenv.Env) {
	b := w.Backend(t, "virtual")
	h := testenv.Hook(b, "/allow", testenv.Rule("authentication.k8s.io", "tokenreviews"))
	w.Validate(t, b.Namespace, h)
	const condition, reason = "VirtualResourceAdmissionError", "AdmissionWebhookMatchesVirtualResource"
	w.WaitForCondition(t, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: h.Name})
	w.WaitForCondition(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Reason: condition + "_" + reason})
	w.Unregister(t, b.Namespace)
	w.WaitForCondition(t, testenv.AsExpected(condition))
	w.WaitForCondition(t, testenv.AsExpected("Degraded"))
}

func announce(t *testing.T, w *testenv.Env) {
	b := w.Backend(t, "announced")
	w.Validate(t, b.Namespace, testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	testenv.Must(t, b.DeleteService(t.Context()))
	w.WaitForEvent(t, b.Namespace, "Warning", "service-missing: webhook announced.e2e.example.com")
	testenv.Must(t, b.CreateService(t.Context()))
	w.WaitForEvent(t, b.Namespace, "Normal", "service-missing: no longer true of webhook announced.e2e.example.com")
	made := testenv.Get(w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), b.Namespace, metav1.GetOptions{}))(t)
	events := testenv.Get(w.Events(t.Context(), b.Namespace))(t)
	for _, e := range events {
		if e.InvolvedObject.UID != made.UID {
			t.Errorf("an Event on %+v, want uid %s", e.InvolvedObject, made.UID)
		}
	}
}

// change edits a registration: what it does is in an Event on it, on the page and in the
// log, with who wrote it.
func change(t *testing.T, w *testenv.Env, a *auditor.Auditor) {
	b := w.Backend(t, "changed")
	c := w.Validate(t, b.Namespace, testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	w.WaitForEvent(t, b.Namespace, "Normal", "validating webhook configuration changed is added")
	c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
	testenv.Get(w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), c, metav1.UpdateOptions{FieldManager: "webhook-editor"}))(t)
	const sentence = "failurePolicy Fail → Ignore: while its backend cannot be called, requests pass without it instead of being refused"
	w.WaitForEvent(t, b.Namespace, "Normal", "validating webhook configuration changed is changed, last written by webhook-editor")
	w.WaitForEvent(t, b.Namespace, "Normal", "webhook "+c.Webhooks[0].Name+": "+sentence)
	page := testenv.Get(a.Page(t.Context(), "/changes"))(t)
	if !testenv.ContainsAll(page, sentence, "changed is added", "changed is changed, last written by webhook-editor") {
		t.Errorf("the page lacks the change:\n%s", page)
	}
	if !testenv.ContainsAll(a.Output(), "registration changed", "by=webhook-editor", sentence) {
		t.Errorf("the log lacks the change:\n%s", a.Output())
	}
}
