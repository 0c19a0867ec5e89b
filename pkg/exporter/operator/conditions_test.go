package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var (
	noon    = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	patient = conditionOptions{TrackerOptions: TrackerOptions{RollUp: RollUpOn, Inertia: 2 * time.Minute}}
)

// evaluated are the conditions of a Report as of its Snapshot, or as of o.Now.
func evaluated(r *classify.Report, before []metav1.Condition, o conditionOptions) []metav1.Condition {
	if o.Now.IsZero() {
		o.Now = r.Snapshot.Taken
	}
	return conditionsOf(r, r.OperatorErrors(o.RollUp.extent()), before, o)
}

// reportOf is a Report with one finding of the check on one webhook.
func reportOf(check string, w inventory.Webhook) *classify.Report {
	s := &inventory.Snapshot{Taken: noon, Webhooks: []*inventory.Webhook{&w}}
	c := classify.FindCheck(check)
	return &classify.Report{
		Snapshot: s,
		Profiles: []*classify.Profile{{Webhook: s.Webhooks[0], Snapshot: s, Matcher: admission.New(s)}},
		Findings: []*classify.Finding{{Check: c, Webhook: w.Ref, Problem: classify.Problem{Severity: c.Severity, Message: "is broken"}}},
	}
}

func webhookOf(t inventory.Type) inventory.Webhook {
	return inventory.Webhook{Registration: inventory.Registration{Ref: inventory.Ref{Type: t, Configuration: "policy", Name: "pods.example.com"}, FailurePolicy: admissionv1.Fail}}
}

// states writes conditions as "Type=Status Reason", leaving out what is fine.
func states(conditions []metav1.Condition) []string {
	var out []string
	for _, c := range conditions {
		if c.Reason != asExpected {
			out = append(out, c.Type+"="+string(c.Status)+" "+c.Reason)
		}
	}
	return out
}

// later moves a Report's clock on.
func later(r *classify.Report, d time.Duration) *classify.Report {
	return takenAt(r, r.Snapshot.Taken.Add(d))
}

// takenAt is a copy of a Report as of another time.
func takenAt(r *classify.Report, snapshotTime time.Time) *classify.Report {
	moved, s := *r, *r.Snapshot
	s.Taken, moved.Snapshot = snapshotTime, &s
	return &moved
}

func TestErrorsRollUpAfterTheInertia(t *testing.T) {
	for _, c := range []struct {
		check, condition, reason string
		webhook                  inventory.Webhook
	}{
		{"service-missing", "ValidatingAdmissionWebhookConfigurationError", "WebhookServiceNotFound", webhookOf(inventory.Validating)},
		{"service-port-missing", "MutatingAdmissionWebhookConfigurationError", "WebhookServicePortNotFound", webhookOf(inventory.Mutating)},
		{"no-ready-endpoints", "ValidatingAdmissionWebhookConfigurationError", "WebhookServiceNoEndpoints", webhookOf(inventory.Validating)},
		{"virtual-resource", "VirtualResourceAdmissionError", "AdmissionWebhookMatchesVirtualResource", webhookOf(inventory.Validating)},
	} {
		t.Run(c.check, func(t *testing.T) {
			r := reportOf(c.check, c.webhook)
			first := evaluated(r, nil, patient)
			expect.Equal(t, []string{c.condition + "=True " + c.reason}, states(first))
			second := evaluated(later(r, 2*time.Minute), first, patient)
			want := []string{"Degraded=True " + c.condition + "_" + c.reason, c.condition + "=True " + c.reason}
			expect.Equal(t, want, states(second))
			cured := &classify.Report{Snapshot: later(r, 3*time.Minute).Snapshot}
			expect.Equal(t, []string(nil), states(evaluated(cured, second, patient)))
		})
	}
}

// widgets is the conversion of a CRD of two versions. Controllers read v1.
func widgets(group string, stored ...string) inventory.Webhook {
	crd := &inventory.CRD{
		Resource:       inventory.Resource{Group: group, Name: "widgets"},
		Versions:       []inventory.CRDVersion{{Name: "v1", Served: true}, {Name: "v1beta1", Served: true}},
		StorageVersion: "v1",
		StoredVersions: stored,
		Namespaced:     true,
		Established:    true,
	}
	name := "widgets." + group
	return inventory.Webhook{Registration: inventory.Registration{Ref: inventory.Ref{Type: inventory.Conversion, Configuration: name, Name: name}, FailurePolicy: admissionv1.Fail}, CRD: crd}
}

func TestConversionThatBlocksControllers(t *testing.T) {
	r := reportOf("service-missing", widgets("example.com", "v1beta1", "v1"))
	first := evaluated(r, nil, patient)
	errs := []string{"CRDConversionWebhookConfigurationError=True WebhookServiceNotFound", "ResourceControllersError=True ConversionBlocksControllers"}
	expect.Equal(t, errs, states(first))
	want := append([]string{"Degraded=True CRDConversionWebhookConfigurationError_WebhookServiceNotFound::ResourceControllersError_ConversionBlocksControllers"}, errs...)
	expect.Equal(t, want, states(evaluated(later(r, 2*time.Minute), first, patient)))
}

// TestConversionThatOnlyClientsNeed: it is an error of the operator and does not
// degrade it. One that stops controllers as well counts from when it does.
func TestConversionThatOnlyClientsNeed(t *testing.T) {
	clients := reportOf("service-missing", widgets("clients.example.com", "v1"))
	clients.Findings[0].Severity = classify.Warning
	first := evaluated(clients, nil, patient)
	hourLater := evaluated(later(clients, time.Hour), first, patient)
	want := []string{"CRDConversionWebhookConfigurationError=True WebhookServiceNotFound"}
	expect.Equal(t, want, states(hourLater))

	both := later(clients, time.Hour)
	controllers := reportOf("service-missing", widgets("controllers.example.com", "v1beta1", "v1"))
	controllers.Profiles[0].Snapshot = both.Snapshot
	both.Profiles = append(both.Profiles, controllers.Profiles...)
	both.Findings = append(both.Findings, controllers.Findings...)
	began := evaluated(both, hourLater, patient)
	if meta.IsStatusConditionTrue(began, Degraded) {
		t.Error("degraded at once")
	}
	lasted := evaluated(later(both, 2*time.Minute), began, patient)
	if message := meta.FindStatusCondition(lasted, Degraded).Message; !meta.IsStatusConditionTrue(lasted, Degraded) || strings.Contains(message, "clients.example.com") {
		t.Errorf("after the inertia: %v: %q", states(lasted), message)
	}
}

func TestWhatNeverDegrades(t *testing.T) {
	ignored := webhookOf(inventory.Validating)
	ignored.FailurePolicy = admissionv1.Ignore
	acknowledged := reportOf("service-missing", webhookOf(inventory.Validating))
	acknowledged.Findings[0].Acknowledged = true
	possible := reportOf("service-unroutable", webhookOf(inventory.Validating))
	possible.Findings[0].Severity = classify.Warning
	for name, r := range map[string]*classify.Report{
		"failurePolicy Ignore":           reportOf("service-missing", ignored),
		"acknowledged":                   acknowledged,
		"possible in one mode":           possible,
		"informational":                  reportOf("sensitive-resource", webhookOf(inventory.Validating)),
		"critical resource, third party": reportOf("critical-resource", webhookOf(inventory.Validating)),
	} {
		if got := states(evaluated(later(r, time.Hour), evaluated(r, nil, patient), patient)); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNoFlapping drives a backend that comes and goes every minute: Degraded
// never turns True, as no error outlasts the inertia.
func TestNoFlapping(t *testing.T) {
	broken := reportOf("no-ready-endpoints", webhookOf(inventory.Validating))
	healthy := &classify.Report{Snapshot: broken.Snapshot}
	var conditions []metav1.Condition
	for minute := range 60 {
		r := healthy
		if minute%2 == 0 {
			r = broken
		}
		conditions = evaluated(later(r, time.Duration(minute)*time.Minute), conditions, patient)
		if meta.IsStatusConditionTrue(conditions, Degraded) {
			t.Fatalf("degraded in minute %d", minute)
		}
	}
}

func TestQuietDuringAnUpgrade(t *testing.T) {
	r := reportOf("no-ready-endpoints", webhookOf(inventory.Validating))
	first := evaluated(r, nil, patient)
	upgrading := later(r, time.Hour)
	upgrading.Snapshot.Upgrading = true
	if meta.IsStatusConditionTrue(evaluated(upgrading, first, patient), Degraded) {
		t.Error("degraded while the cluster is being upgraded")
	}
	degraded := evaluated(later(r, time.Hour), first, patient)
	if !meta.IsStatusConditionTrue(evaluated(upgrading, degraded, patient), Degraded) {
		t.Error("what was degraded before the upgrade must stay so")
	}
}

// TestQuietDuringARollout: Pods that are being replaced may leave a webhook
// without a ready endpoint for a while, but not for ever, and a new attempt
// does not make well what is degraded.
func TestQuietDuringARollout(t *testing.T) {
	const longest = 10 * time.Minute
	r := reportOf("no-ready-endpoints", webhookOf(inventory.Validating))
	p := r.Profiles[0]
	p.State = inventory.BackendState{Service: inventory.ServiceRef{Key: inventory.Key{Namespace: "policy", Name: "policy"}}, Fault: inventory.NoReadyEndpoints}
	selector := map[string]string{"app": "policy"}
	r.Snapshot.Services = map[inventory.Key]inventory.Service{p.State.Service.Key: {Key: p.State.Service.Key, Selector: selector}}
	r.Snapshot.Workloads = []inventory.Workload{{Kind: "Pod", Key: inventory.Key{Namespace: "policy", Name: "policy-1"}, PodLabels: selector, Terminating: true}}
	first := evaluated(r, nil, patient)
	at := func(d time.Duration, before []metav1.Condition) []metav1.Condition {
		o := patient
		o.Now = noon.Add(d)
		return evaluated(r, before, o)
	}
	if meta.IsStatusConditionTrue(at(longest-time.Minute, first), Degraded) {
		t.Error("degraded while its Pods are being replaced")
	}
	degraded := at(longest, first)
	if !meta.IsStatusConditionTrue(degraded, Degraded) {
		t.Error("a rollout that never ends is no excuse")
	}
	if !meta.IsStatusConditionTrue(at(longest+time.Minute, degraded), Degraded) {
		t.Error("what was degraded must stay so while the error lasts")
	}
}

func TestRollUpElsewhere(t *testing.T) {
	r := reportOf("service-missing", webhookOf(inventory.Validating))
	first := evaluated(r, nil, patient)
	detected := evaluated(later(r, time.Hour), first, conditionOptions{TrackerOptions: TrackerOptions{RollUp: RollUpEvaluate}})
	if meta.IsStatusConditionTrue(detected, Degraded) || !meta.IsStatusConditionTrue(detected, EvaluationConditionsDetected) {
		t.Errorf("evaluate: %v", states(detected))
	}
	if off := evaluated(later(r, time.Hour), first, conditionOptions{TrackerOptions: TrackerOptions{RollUp: RollUpOff}}); meta.IsStatusConditionTrue(off, Degraded) {
		t.Errorf("off: %v", states(off))
	}
}

// TestEnhancementDegradesForEachDanglingReference: a webhook that fails open
// degrades as one that fails closed does, but not by default.
func TestEnhancementDegradesForEachDanglingReference(t *testing.T) {
	w := webhookOf(inventory.Validating)
	w.FailurePolicy = admissionv1.Ignore
	r := reportOf("service-missing", w)
	for mode, want := range map[RollUp][]string{
		RollUpOn: nil,
		RollUpEnhancement: {
			"Degraded=True ValidatingAdmissionWebhookConfigurationError_WebhookServiceNotFound",
			"ValidatingAdmissionWebhookConfigurationError=True WebhookServiceNotFound",
		},
	} {
		if diff := cmp.Diff(want, states(evaluated(r, nil, conditionOptions{TrackerOptions: TrackerOptions{RollUp: mode}}))); diff != "" {
			t.Errorf("%s: -want +got\n%s", mode, diff)
		}
	}
}

func TestUnknownWhileItCannotRead(t *testing.T) {
	errs := []inventory.Error{{Object: "mutatingwebhookconfigurations.admissionregistration.k8s.io", Message: "list is forbidden"}}
	got := states(evaluated(&classify.Report{Snapshot: &inventory.Snapshot{Taken: noon}, Errors: errs}, nil, patient))
	want := []string{"VirtualResourceAdmissionError=Unknown CannotRead", "MutatingAdmissionWebhookConfigurationError=Unknown CannotRead"}
	expect.Equal(t, want, got)
}

// TestAFastClockDoesNotDelay: a transition stamped ten minutes ahead by another
// writer counts from now on.
func TestAFastClockDoesNotDelay(t *testing.T) {
	r := reportOf("service-missing", webhookOf(inventory.Validating))
	skewed := evaluated(later(r, 10*time.Minute), nil, patient)
	mine := evaluated(r, skewed, patient)
	if after := evaluated(later(r, 2*time.Minute), mine, patient); !meta.IsStatusConditionTrue(after, Degraded) {
		t.Errorf("still waiting for a clock: %v", states(after))
	}
}

func TestMessagesAreBoundedAndStable(t *testing.T) {
	r := reportOf("service-missing", webhookOf(inventory.Validating))
	one := r.Findings[0]
	r.Findings = nil
	for i := range 50 {
		f := *one
		f.Message = strings.Repeat("x", 600) + strings.Repeat("y", i)
		r.Findings = append(r.Findings, &f)
	}
	message := meta.FindStatusCondition(evaluated(r, nil, patient), "ValidatingAdmissionWebhookConfigurationError").Message
	if n := strings.Count(message, "\n"); n != maxLines || len(message) > (maxLength+4)*(maxLines+1) || !strings.HasSuffix(message, "And 40 more.") {
		t.Errorf("%d lines, %d bytes, ends in %q", n+1, len(message), message[max(0, len(message)-20):])
	}
	expect.Equal(t, message, meta.FindStatusCondition(evaluated(r, nil, patient), "ValidatingAdmissionWebhookConfigurationError").Message) // the same Report gives the same message
}

// TestUpgradeableStaysTrue: neither a finding that degrades nor an upgrade in progress keeps
// a cluster from being upgraded.
func TestUpgradeableStaysTrue(t *testing.T) {
	r := reportOf("service-missing", webhookOf(inventory.Validating))
	r.Snapshot.Upgrading = true
	if conditions := evaluated(later(r, time.Hour), evaluated(r, nil, patient), patient); !meta.IsStatusConditionTrue(conditions, Upgradeable) {
		t.Errorf("not Upgradeable: %+v", conditions)
	}
}
