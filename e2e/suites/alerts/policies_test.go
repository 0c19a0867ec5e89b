package alerts

import (
	"context"
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
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/timeline"
)

// TestPolicies: hundreds of ordinary denials of an admission policy raise nothing. Policies that
// cannot be evaluated do, each kind of trouble its own alert, as do admission manifests
// that cannot be read or differ, until it is cured.
func TestPolicies(t *testing.T) {
	t.Parallel()
	first, second := manifests(t.TempDir()), manifests(t.TempDir())
	w := newEnvironment(t, cluster.Options{APIServerFlags: first.flags(t)})
	other := w.join(t, second.flags(t)...)
	auditors := w.auditors(t)
	denying := newScenario(t, w, "denying")
	denying.denies(t, "false")
	eventually(t, denying.isRefused)
	eventually(t, denying.via(t, other).isRefused)
	for _, at := range []*rest.Config{w.Plane.Config(), other} {
		denying.traffic(2, denying.via(t, at).createConfigMap)
	}
	one, two := timeline.APIServer(t, w.Plane.Config()), timeline.APIServer(t, other)
	prometheus := w.watch(t, append(timeline.Auditors(auditors...), one, two, timeline.Controllers(t, w.Plane))...)
	prometheus.lasts(time.Hour)
	if found := prometheus.Query(`sum(apiserver_validating_admission_policy_check_total{enforcement_action="deny"}) > 500`); len(found) == 0 {
		t.Error("few requests are denied")
	}
	testenv.Must(t, hadOnly(prometheus.Fired(), nil))

	params, open, mutating := newScenario(t, w, "params"), newScenario(t, w, "open"), newScenario(t, w, "mutating")
	params.denies(t, "true", func(p *policySpec, b *bindingSpec) {
		p.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		b.ParamRef = &admissionv1.ParamRef{Name: "absent", Namespace: params.namespace(), ParameterNotFoundAction: new(admissionv1.DenyAction)}
	})
	open.denies(t, `object.data["checked"] == "yes"`, func(p *policySpec, _ *bindingSpec) { p.FailurePolicy = new(admissionv1.Ignore) })
	mutating.mutates(t)
	for _, s := range []scenario{params, open, mutating} {
		s.traffic(2, s.createConfigMap)
	}
	const reloads = "apiserver_manifest_admission_config_controller_automatic_reloads_total"
	reloaded := two.Grows(t, reloads, metrics.Labels{"status": "success"})
	testenv.Must(t, os.WriteFile(first.file(denying), []byte("no manifest"), 0o600))
	manifest := newScenario(t, w, static)
	testenv.Must(t, second.add(manifest))
	prometheus.settles(params.isRefused)
	prometheus.settles(one.Says("apiserver_validating_admission_policy_check_total", metrics.Labels{"policy": open.name}))
	prometheus.settles(one.Says("apiserver_mutating_admission_policy_check_total", metrics.Labels{"policy": mutating.name}))
	prometheus.settles(reloaded)
	prometheus.lastsWhile(40*time.Minute, one.Grows(t, reloads, metrics.Labels{"status": "failure"}))
	prometheus.fires("WebhookManifestsDiffer", "WebhookManifestsNotReloaded", "WebhookPolicyConfigErrors", "WebhookPolicyFailingOpen", "WebhookPolicyMutationsFailing")
	bindings := w.Kube.AdmissionregistrationV1()
	testenv.Must(t, bindings.ValidatingAdmissionPolicyBindings().Delete(t.Context(), params.name, metav1.DeleteOptions{}))
	testenv.Must(t, bindings.ValidatingAdmissionPolicyBindings().Delete(t.Context(), open.name, metav1.DeleteOptions{}))
	testenv.Must(t, bindings.MutatingAdmissionPolicyBindings().Delete(t.Context(), mutating.name, metav1.DeleteOptions{}))
	reloaded = one.Grows(t, reloads, metrics.Labels{"status": "success"})
	testenv.Must(t, first.remove(denying))
	testenv.Must(t, first.add(manifest)) // so that both have the same
	prometheus.settles(reloaded)
	prometheus.settles(func(ctx context.Context) error { return params.createConfigMap(ctx, 0) })
	prometheus.settles(one.Rests("apiserver_validating_admission_policy_check_total", metrics.Labels{"policy": open.name}))
	prometheus.settles(one.Rests("apiserver_mutating_admission_policy_check_total", metrics.Labels{"policy": mutating.name}))
	prometheus.lasts(time.Hour)
	prometheus.fires()
}

// policyMatches are ConfigMaps of the scenario's users.
func (s scenario) policyMatches() *admissionv1.MatchResources {
	rule := configMaps
	rule.APIVersions = []string{"v1"}
	return &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace()}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: rule,
		}}},
	}
}

type (
	policySpec  = admissionv1.ValidatingAdmissionPolicySpec
	bindingSpec = admissionv1.ValidatingAdmissionPolicyBindingSpec
)

// denies makes a ValidatingAdmissionPolicy of the expression, and a binding, both of the
// scenario's name, with changes to them.
func (s scenario) denies(t *testing.T, expression string, changes ...func(*policySpec, *bindingSpec)) {
	t.Helper()
	name := metav1.ObjectMeta{Name: s.name}
	p := policySpec{MatchConstraints: s.policyMatches(), Validations: []admissionv1.Validation{{Expression: expression, Message: "refused"}}}
	b := bindingSpec{PolicyName: s.name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}
	for _, change := range changes {
		change(&p, &b)
	}
	_, err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: p}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: b}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// mutates makes a MutatingAdmissionPolicy that cannot patch what it lets pass, and a binding.
func (s scenario) mutates(t *testing.T) {
	t.Helper()
	_, err := s.Kube.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(t.Context(), &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      new(admissionv1.Ignore),
			MatchConstraints:   s.policyMatches(),
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations:          []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "remove", path: "/data/absent"}]`}}},
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
		return fmt.Errorf("want ConfigMaps in %s refused by a policy, have %v", s.namespace(), err)
	}
	return nil
}
