package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/rules"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/timeline"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestControllersHang has a dead conversion stop the garbage collector and the resource quota
// controller, the only ones that run: their own series raise the alert, and the runbook's cure
// ends it.
func TestControllersHang(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, cluster.Options{Controllers: []string{"garbage-collector-controller", "resourcequota-controller"}})
	s := newScenario(t, w, "quota")
	converting(t, s)
	quotas := w.Kube.CoreV1().ResourceQuotas(s.namespace())
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
	testenv.Must(t, create("before")) // which waits in the queue after the restart
	eventually(t, func(ctx context.Context) error { return computed(ctx, "before") })
	auditors := w.auditors(t)
	prometheus := w.watch(t, append(timeline.Auditors(auditors...), timeline.APIServer(t, w.Plane.Config()), timeline.Controllers(t, w.Plane))...)
	prometheus.lasts(20 * time.Minute)
	s.Hooks.Behave(s.path(), webhook.Behaviour{FailEvery: 1})
	// The API server notices once a client writes, up to half a minute later, and until then
	// answers from its cache (MaxInternalErrorRetryDuration in k8s.io/apiserver/pkg/storage/cacher);
	// controllers that have read everything before do not need to again until they start anew.
	testenv.Get(s.widgets("v1").Patch(t.Context(), "one", types.MergePatchType, touch(), metav1.PatchOptions{}))(t)
	eventually(t, func(ctx context.Context) error {
		if _, err := s.widgets("v2").List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
			return errors.New("widgets are still listed from the API server's cache")
		}
		return nil
	})
	testenv.Must(t, s.Plane.Controllers.Restart(t.Context()))
	testenv.Must(t, create("after"))
	prometheus.settles(timeline.Controllers(t, w.Plane).Says("workqueue_depth", metrics.Labels{"name": "resourcequota_primary"}))
	prometheus.settles(timeline.Controllers(t, w.Plane).Says("garbagecollector_controller_resources_sync_error_total", nil))
	prometheus.lasts(20 * time.Minute)
	prometheus.one("WebhookConversionBlocksControllers")
	if err := computed(t.Context(), "after"); err == nil {
		t.Error("quotas are computed while the alert fires")
	}
	s.Hooks.Behave(s.path(), webhook.Behaviour{})
	eventually(t, func(ctx context.Context) error { return computed(ctx, "after") })
	prometheus.lasts(time.Hour)
	if slices.ContainsFunc(prometheus.Firing(), func(a *rules.Alert) bool { return a.Labels.Get("alertname") == "WebhookConversionBlocksControllers" }) {
		t.Error("the alert outlives its cure")
	}
}
