package alerts

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

var (
	configMaps = admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"configmaps"}}
	pods       = admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"pods"}}
	leases     = admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}}
	templates  = admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"podtemplates"}}
	bindings   = admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"bindings"}}
)

func failingClosed(t *testing.T, s scenario) {
	testenv.Must(t, s.register(t.Context(), s.configuration(configMaps)))
	s.traffic(1, s.createConfigMap)
}

// failingClosedOnPods is a webhook that the cluster's stability depends on.
func failingClosedOnPods(t *testing.T, s scenario) {
	s.touching(t, "pods", 2)
	testenv.Must(t, s.register(t.Context(), s.configuration(pods)))
}

// eightOnPods are eight webhooks with one backend.
func eightOnPods(t *testing.T, s scenario) {
	s.touching(t, "pods", 1)
	c := s.configuration(pods)
	one := c.Webhooks[0]
	c.Webhooks = nil
	for n := range 8 {
		one.Name = fmt.Sprintf("w%d.%s", n, s.webhook())
		c.Webhooks = append(c.Webhooks, one)
	}
	testenv.Must(t, s.register(t.Context(), c))
}

// failingOpenOnLeases is a webhook that leaders wait for.
func failingOpenOnLeases(t *testing.T, s scenario) {
	c := s.configuration(leases)
	c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
	c.Webhooks[0].TimeoutSeconds = new(int32(1))
	testenv.Must(t, s.register(t.Context(), c))
	s.traffic(3, s.createLease)
}

func failingOpen(t *testing.T, s scenario) {
	c := s.configuration(configMaps)
	c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
	testenv.Must(t, s.register(t.Context(), c))
	s.traffic(1, s.createConfigMap)
}

// refusingOnce is a webhook that has refused one request before.
func refusingOnce(t *testing.T, s scenario) {
	s.Hooks.Behave(s.path(), webhook.Behaviour{Deny: "not this one"})
	testenv.Must(t, s.register(t.Context(), s.configuration(configMaps)))
	eventually(t, func(ctx context.Context) error {
		if err := s.createConfigMap(ctx, 0); err == nil {
			return fmt.Errorf("the webhook %s is not asked yet", s.webhook())
		}
		return nil
	})
	s.Hooks.Behave(s.path(), webhook.Behaviour{})
	s.traffic(1, s.createConfigMap)
}

func mutatingPods(t *testing.T, s scenario) {
	s.touching(t, "pods", 1)
	c := s.configuration(pods)
	_, err := s.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: c.ObjectMeta, Webhooks: []admissionv1.MutatingWebhook{testenv.Mutating(c.Webhooks[0])},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

func unregistered(_ *testing.T, s scenario) { s.traffic(1, s.createConfigMap) }

func converting(t *testing.T, s scenario) {
	s.install(t)
	s.traffic(1, s.readWidget)
}

func onTemplates(t *testing.T, s scenario) {
	s.touching(t, "podtemplates", 3)
	testenv.Must(t, s.register(t.Context(), s.configuration(templates)))
}

func removeService(ctx context.Context, s scenario) error   { return s.backend.DeleteService(ctx) }
func restoreService(ctx context.Context, s scenario) error  { return s.backend.CreateService(ctx) }
func removeEndpoints(ctx context.Context, s scenario) error { return s.backend.DeleteEndpoints(ctx) }

func restoreEndpoints(ctx context.Context, s scenario) error { return s.backend.CreateEndpoints(ctx) }

// askOnlyIf gives the scenario's webhook a matchCondition.
func askOnlyIf(expression string) func(context.Context, scenario) error {
	return func(ctx context.Context, s scenario) error {
		configurations := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		c, err := configurations.Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Webhooks[0].MatchConditions = []admissionv1.MatchCondition{{Name: "asked", Expression: expression}}
		_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
		return err
	}
}

func behave(b webhook.Behaviour) func(context.Context, scenario) error {
	return func(_ context.Context, s scenario) error {
		s.Hooks.Behave(s.path(), b)
		return nil
	}
}
