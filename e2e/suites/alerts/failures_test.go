package alerts

import (
	"context"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

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
	const users = 2
	s.makePods(t, users)
	testenv.Must(t, s.register(t.Context(), s.configuration(pods)))
	s.traffic(users, s.touchPod)
}

// eightOnPods are eight webhooks with one backend.
func eightOnPods(t *testing.T, s scenario) {
	const users = 1
	s.makePods(t, users)
	c := s.configuration(pods)
	one := c.Webhooks[0]
	c.Webhooks = nil
	for n := range 8 {
		one.Name = fmt.Sprintf("w%d.%s", n, s.webhook())
		c.Webhooks = append(c.Webhooks, one)
	}
	testenv.Must(t, s.register(t.Context(), c))
	s.traffic(users, s.touchPod)
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
	const users = 1
	s.makePods(t, users)
	testenv.Must(t, s.registerMutating(t.Context(), s.configuration(pods)))
	s.traffic(users, s.touchPod)
}

func unregistered(_ *testing.T, s scenario) { s.traffic(1, s.createConfigMap) }

func converting(t *testing.T, s scenario) {
	s.install(t)
	s.traffic(1, s.readWidget)
}

func onTemplates(t *testing.T, s scenario) {
	const users = 3
	s.makeTemplates(t, users)
	testenv.Must(t, s.register(t.Context(), s.configuration(templates)))
	s.traffic(users, s.touchTemplate)
}

// appear registers a webhook that is trouble by being there.
func appear(rule admissionv1.Rule) func(context.Context, scenario) error {
	return func(ctx context.Context, s scenario) error { return s.register(ctx, s.configuration(rule)) }
}

func disappear(ctx context.Context, s scenario) error { return s.unregister(ctx) }

func removeService(ctx context.Context, s scenario) error   { return s.backend.DeleteService(ctx) }
func restoreService(ctx context.Context, s scenario) error  { return s.backend.CreateService(ctx) }
func removeEndpoints(ctx context.Context, s scenario) error { return s.backend.DeleteEndpoints(ctx) }

func restoreEndpoints(ctx context.Context, s scenario) error { return s.backend.CreateEndpoints(ctx) }

// trust changes whom the API server trusts to be the scenario's webhook.
func trust(bundle []byte) func(context.Context, scenario) error {
	return func(ctx context.Context, s scenario) error {
		return s.change(ctx, func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.CABundle = bundle })
	}
}

func trustAgain(ctx context.Context, s scenario) error { return trust(s.Hooks.CABundle())(ctx, s) }

// askOnlyIf gives the scenario's webhook a matchCondition.
func askOnlyIf(expression string) func(context.Context, scenario) error {
	return func(ctx context.Context, s scenario) error {
		return s.change(ctx, func(w *admissionv1.ValidatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "asked", Expression: expression}}
		})
	}
}

// behave changes how the scenario's webhook answers.
func behave(b webhook.Behaviour) func(context.Context, scenario) error {
	return func(_ context.Context, s scenario) error {
		s.Hooks.Behave(s.path(), b)
		return nil
	}
}

// failAndRestartControllers has all conversions fail. The API server notices once a
// client writes, up to half a minute later, and until then answers from its cache
// (MaxInternalErrorRetryDuration in k8s.io/apiserver/pkg/storage/cacher); controllers that
// have read everything before do not need to again until they start anew.
func failAndRestartControllers(ctx context.Context, s scenario) error {
	s.Hooks.Behave(s.path(), webhook.Behaviour{FailEvery: 1})
	if _, err := s.widgets("v1").Patch(ctx, "one", types.MergePatchType, touch(), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Second, waitLimit, true, func(ctx context.Context) (bool, error) {
		_, err := s.widgets("v2").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err != nil, nil
	}); err != nil {
		return fmt.Errorf("widgets are still listed from the API server's cache: %w", err)
	}
	return s.Plane.Controllers.Restart(ctx)
}
