package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestPolicies: a thousand ordinary denials of an admission policy raise nothing. Policies that
// cannot be evaluated do, each kind of trouble its own alert, as do admission manifests
// that cannot be read or differ, until it is cured. It runs before the others: a fifth
// Prometheus that evaluates every second is in the way of what they time.
func TestPolicies(t *testing.T) {
	first, second := newManifests(t), newManifests(t)
	w := newEnvironment(t, cluster.Options{APIServerFlags: first.flags(t)})
	other := w.join(t, second.flags(t)...)
	auditors, _ := w.auditors(t)
	denying := newScenario(t, w, "denying")
	denying.denies(t, "false", func(*admissionv1.ValidatingAdmissionPolicySpec) {}, func(*admissionv1.ValidatingAdmissionPolicyBindingSpec) {})
	eventually(t, func(ctx context.Context) error { return denying.isRefused(ctx) })
	stack := w.watch(t, timeScale, monitoring.Targets{APIServers: []string{other.Host}, Controllers: w.Plane.ControllersURL(), Auditors: auditors}, "")
	for _, at := range []*rest.Config{w.Plane.Config(), other} {
		denying.via(t, at).traffic(t, 2, denying.via(t, at).createConfigMap)
	}
	for range 1000 {
		testenv.Must(t, denying.isRefused(t.Context()))
	}
	eventually(t, func(ctx context.Context) error {
		return stack.holds(ctx, fmt.Sprintf(`min(count_over_time(up[1h])) >= %d`, int(scaled(20*time.Minute).Seconds())))
	})
	eventually(t, func(ctx context.Context) error {
		return stack.holds(ctx, `sum(apiserver_validating_admission_policy_check_total{enforcement_action="deny"}) > 1000`)
	})
	testenv.Must(t, stack.quiet(t.Context()))

	params, open, mutating := newScenario(t, w, "params"), newScenario(t, w, "open"), newScenario(t, w, "mutating")
	params.denies(t, "true",
		func(p *admissionv1.ValidatingAdmissionPolicySpec) {
			p.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		},
		func(b *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			b.ParamRef = &admissionv1.ParamRef{Name: "absent", Namespace: params.users(), ParameterNotFoundAction: new(admissionv1.DenyAction)}
		})
	open.denies(t, `object.data["checked"] == "yes"`,
		func(p *admissionv1.ValidatingAdmissionPolicySpec) { p.FailurePolicy = new(admissionv1.Ignore) },
		func(*admissionv1.ValidatingAdmissionPolicyBindingSpec) {})
	mutating.mutates(t, `[JSONPatch{op: "remove", path: "/data/absent"}]`)
	for _, s := range []scenario{params, open, mutating} {
		s.traffic(t, 2, s.createConfigMap)
	}
	unread := denying.writesEachSecond(t, first, "no manifest")
	testenv.Must(t, second.add(newScenario(t, w, static)))
	eventually(t, func(ctx context.Context) error {
		return stack.has(ctx, "WebhookManifestsDiffer", "WebhookManifestsNotReloaded", "WebhookPolicyConfigErrors", "WebhookPolicyFailingOpen", "WebhookPolicyMutationsFailing")
	})
	for alert, want := range map[string]map[string]string{
		"WebhookPolicyConfigErrors":     {"plugin": "ValidatingAdmissionPolicy"},
		"WebhookPolicyFailingOpen":      {"policy": open.name, "policy_binding": open.name},
		"WebhookPolicyMutationsFailing": {"policy": mutating.name, "policy_binding": mutating.name},
		"WebhookManifestsNotReloaded":   {"plugin": "ValidatingAdmissionWebhook", "instance": monitoring.Address(w.Plane.Config().Host)},
		"WebhookManifestsDiffer":        {"plugin": "ValidatingAdmissionWebhook"},
	} {
		got := stack.one(t, alert)
		for name, value := range want {
			if got.Labels[name] != value {
				t.Errorf("%s has %s %q, want %q", alert, name, got.Labels[name], value)
			}
		}
	}

	bindings := w.Kube.AdmissionregistrationV1()
	testenv.Must(t, bindings.ValidatingAdmissionPolicyBindings().Delete(t.Context(), params.name, metav1.DeleteOptions{}))
	testenv.Must(t, bindings.ValidatingAdmissionPolicyBindings().Delete(t.Context(), open.name, metav1.DeleteOptions{}))
	testenv.Must(t, bindings.MutatingAdmissionPolicyBindings().Delete(t.Context(), mutating.name, metav1.DeleteOptions{}))
	unread()
	testenv.Must(t, second.remove(scenario{name: static}))
	eventually(t, stack.quiet)
}

// policyMatches are ConfigMaps of the scenario's users.
func (s scenario) policyMatches() *admissionv1.MatchResources {
	rule := configMaps
	rule.APIVersions = []string{"v1"}
	return &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.users()}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: rule,
		}}},
	}
}

// denies makes a ValidatingAdmissionPolicy of the expression, and a binding, both of the
// scenario's name.
func (s scenario) denies(t *testing.T, expression string, policy func(*admissionv1.ValidatingAdmissionPolicySpec), binding func(*admissionv1.ValidatingAdmissionPolicyBindingSpec)) {
	t.Helper()
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: s.policyMatches(),
		Validations:      []admissionv1.Validation{{Expression: expression, Message: "refused"}},
	}}
	policy(&p.Spec)
	_, err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), p, metav1.CreateOptions{})
	testenv.Must(t, err)
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: s.name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	binding(&b.Spec)
	_, err = s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), b, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// mutates makes a MutatingAdmissionPolicy of the JSONPatch, which lets pass what it
// cannot patch, and a binding.
func (s scenario) mutates(t *testing.T, patch string) {
	t.Helper()
	_, err := s.Kube.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(t.Context(), &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      new(admissionv1.Ignore),
			MatchConstraints:   s.policyMatches(),
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations:          []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: patch}}},
		},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = s.Kube.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: s.name},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

func (s scenario) isRefused(ctx context.Context) error {
	if err := s.createConfigMap(ctx, 0); err == nil || !strings.Contains(err.Error(), s.name) {
		return fmt.Errorf("want ConfigMaps in %s refused by a policy, have %v", s.users(), err)
	}
	return nil
}

// writesEachSecond keeps changing a manifest that cannot be read, as API servers read them
// each minute, which is many minutes of the alerts' time, until what it returns is called.
func (s scenario) writesEachSecond(t *testing.T, m manifests, text string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			content, _ := json.Marshal(fmt.Sprintf("%s %d", text, n)) // a string always has one
			if err := os.WriteFile(m.file(s), content, 0o600); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-done
			testenv.Must(t, m.remove(s))
		}
	}
	t.Cleanup(stop)
	return stop
}

// holds wants the expression to have a value.
func (s alerting) holds(ctx context.Context, expression string) error {
	found, err := s.Query(ctx, expression)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s does not hold", expression)
	}
	return err
}
