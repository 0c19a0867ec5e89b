package alerts

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

var configMaps = admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"configmaps"}}

func failingClosed(t *testing.T, s site) {
	must(t, s.register(t.Context(), s.configuration(configMaps)))
	s.traffic(t, 1, s.createConfigMap)
}

func failingOpen(t *testing.T, s site) {
	c := s.configuration(configMaps)
	c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
	must(t, s.register(t.Context(), c))
	s.traffic(t, 1, s.createConfigMap)
}

func converting(t *testing.T, s site) {
	s.install(t)
	s.traffic(t, 1, s.readWidget)
}

func onPods(t *testing.T, s site) {
	const users = 2
	s.makePods(t, users)
	must(t, s.register(t.Context(), s.configuration(admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"pods"}})))
	s.traffic(t, users, s.touchPod)
}

func onTemplates(t *testing.T, s site) {
	const users = 3
	s.makeTemplates(t, users)
	must(t, s.register(t.Context(), s.configuration(admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"podtemplates"}})))
	s.traffic(t, users, s.touchTemplate)
}

func appear(rule admissionv1.Rule) func(context.Context, site) error {
	return func(ctx context.Context, s site) error {
		c := s.configuration(rule)
		delete(c.Annotations, approval)
		return s.register(ctx, c)
	}
}

func appearApproved(rule admissionv1.Rule) func(context.Context, site) error {
	return func(ctx context.Context, s site) error { return s.register(ctx, s.configuration(rule)) }
}

func disappear(ctx context.Context, s site) error { return s.unregister(ctx) }

func removeService(ctx context.Context, s site) error    { return s.backend.DeleteService(ctx) }
func restoreService(ctx context.Context, s site) error   { return s.backend.CreateService(ctx) }
func removeEndpoints(ctx context.Context, s site) error  { return s.backend.DeleteEndpoints(ctx) }
func restoreEndpoints(ctx context.Context, s site) error { return s.backend.CreateEndpoints(ctx) }

// behave changes how the site's webhook answers.
func behave(b webhook.Behaviour) func(context.Context, site) error {
	return func(_ context.Context, s site) error {
		s.hooks.Behave(s.path(), b)
		return nil
	}
}
