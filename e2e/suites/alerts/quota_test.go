package alerts

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestQuotaHangs has a dead conversion stop the resource quota controller, which is
// the only one that runs: its own series raise the alert, and the runbook's cure
// ends it.
func TestQuotaHangs(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, cluster.Options{Controllers: []string{"resourcequota-controller"}})
	s := newScenario(t, w, "quota")
	converting(t, s)
	quotas := w.Kube.CoreV1().ResourceQuotas(s.users())
	create := func(name string) error {
		_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}},
		}, metav1.CreateOptions{})
		return err
	}
	computed := func(ctx context.Context, name string) error {
		q, err := quotas.Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(q.Status.Used) == 0 {
			err = fmt.Errorf("the quota %s is not computed", name)
		}
		return err
	}
	testenv.Must(t, create("before"))
	eventually(t, func(ctx context.Context) error { return computed(ctx, "before") })
	auditors, _ := w.auditors(t)
	stack := w.watch(t, timeScale, monitoring.Targets{Controllers: w.Plane.ControllersURL(), Auditors: auditors}, "")
	const alert = "WebhookConversionBlocksControllers"
	testenv.Must(t, failAndRestartControllers(t.Context(), s))
	testenv.Must(t, create("after"))
	eventually(t, func(ctx context.Context) error { return stack.fires(ctx, alert) })
	if err := computed(t.Context(), "after"); err == nil {
		t.Error("quotas are computed while the alert fires")
	}
	s.Hooks.Behave(s.path(), webhook.Behaviour{})
	eventually(t, func(ctx context.Context) error { return computed(ctx, "after") })
	eventually(t, func(ctx context.Context) error {
		if stack.fires(ctx, alert) == nil {
			return errors.New("the alert outlives its cure")
		}
		return nil
	})
}
