package operator

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestVersions operates on servers of each version there is, and there on what
// another writer left behind. TestConditions has one more, with the gate off.
func TestVersions(t *testing.T) {
	type version struct {
		flag    string
		reviews bool
		// finds makes what the auditor finds, if anything, runs it, and wants the right of it.
		finds func(*testing.T, *testenv.Env) *auditor.Auditor
	}
	versions := []version{
		{"--feature-gates=ExcludeAdmissionWebhookVirtualResources=true", false, asItComes},
		{"--emulated-version=1.36", true, olderBuild},
		{"--emulated-version=1.35", true, asItComes},
		{"--emulated-version=1.34", true, upgrade},
	}
	if programs.Release() != programs.Newest { // each on that one, as it comes
		for i := range versions {
			versions[i].flag, versions[i].reviews = "--v=0", !testenv.KeepsReviews.There(t)
		}
	}
	for _, version := range versions {
		t.Run(version.flag, func(t *testing.T) {
			t.Parallel()
			w := testenv.New(t, cluster.Options{APIServerFlags: []string{version.flag}, WithoutControllers: true})
			w.InstallAPIs(t)
			sends(t, w, version.finds(t, w), version.reviews)
		})
	}
}

// sends wants the auditor to say whether the server sends reviews to webhooks.
func sends(t *testing.T, w *testenv.Env, a *auditor.Auditor, reviews bool) {
	t.Helper()
	b := w.Backend(t, "reviewed")
	w.Validate(t, b.Namespace, testenv.Hook(b, "/allow", testenv.Rule("authentication.k8s.io", "tokenreviews")))
	check := "dead-rule"
	if reviews {
		check = "virtual-resource"
	}
	testenv.Get(a.Eventually(t.Context(), metrics.Present(auditor.Prefix+"finding", metrics.Labels{"check": check, "configuration": b.Namespace})))(t)
	if reviews {
		w.WaitForCondition(t, metav1.Condition{Type: "VirtualResourceAdmissionError", Status: metav1.ConditionTrue})
	}
	if d, got := testenv.Report(t, "--kubeconfig="+w.Plane.Kubeconfig(), "--fail-on=never"); got.Code != 0 || !d.HasFinding(check, b.Namespace) {
		t.Errorf("audit: %+v", got)
	}
}

// asItComes runs the auditor in a cluster with nothing to find.
func asItComes(t *testing.T, w *testenv.Env) *auditor.Auditor { return w.Run(t, elected...) }

// olderBuild: a condition that an older build wrote and this one dropped
// leaves; one that another writer added stays.
func olderBuild(t *testing.T, w *testenv.Env) *auditor.Auditor {
	for _, target := range testenv.Targets {
		w.WriteCondition(t, target, "webhook-auditor", testenv.AsExpected("DroppedError"))
		w.WriteCondition(t, target, "another-writer", testenv.AsExpected("ForeignCondition"))
	}
	a := w.Run(t, elected...)
	w.WaitForCondition(t, testenv.AsExpected("Degraded"))
	for _, target := range testenv.Targets {
		status, _, err := w.Status(t.Context(), target)
		testenv.Must(t, err)
		kept := map[string]bool{}
		for _, c := range status.Conditions {
			kept[string(c.Type)] = true
		}
		if kept["DroppedError"] || !kept["ForeignCondition"] {
			t.Errorf("%s: kept %v, want ForeignCondition and not DroppedError", target.Name, kept)
		}
	}
	return a
}

// upgrade: while the ClusterVersion is progressing, backends come and go.
func upgrade(t *testing.T, w *testenv.Env) *auditor.Auditor {
	w.Install(t, testenv.OpenShift(t, "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml"))
	w.SetUpgrading(t, metav1.ConditionTrue)
	b := w.Backend(t, "upgraded")
	testenv.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, b.Namespace, testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	a := w.Run(t, elected...)
	w.WaitForCondition(t, metav1.Condition{Type: "ValidatingAdmissionWebhookConfigurationError", Status: metav1.ConditionTrue, Reason: "WebhookServiceNotFound"})
	w.WaitForCondition(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionFalse, Message: "being upgraded"})
	w.SetUpgrading(t, metav1.ConditionFalse)
	// The ClusterVersion is read once a minute, and when the API server serves
	// something new.
	w.Widgets(t, "upgraded.example.com", nil)
	w.WaitForCondition(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Message: b.Namespace})
	return a
}
