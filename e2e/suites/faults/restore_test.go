//go:build faults

package faults

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/proxy"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestFaultRestore restores etcd from a backup under two auditors: what was
// registered since is gone, what was removed since is back, and the API server
// has never been at the resource version up to which the auditors know it.
func TestFaultRestore(t *testing.T) {
	t.Parallel()
	first := newStage(t)
	replicas := []*stage{first, newAct(t, first.Env, elected...)}
	first.missing(t, "restored")
	awaitExports(t, replicas, "restored")

	backup := testenv.Get(first.Plane.BackUp(t.Context()))(t)
	first.Unregister(t, "restored")
	first.write(t, 500)
	first.missing(t, "lost")
	awaitExports(t, replicas, "lost")
	removed(t, replicas, "restored")

	// After most errors client-go lists anew. After this one, as after a refused
	// connection, it resumes its watches.
	for _, s := range replicas {
		s.proxy.Break(proxy.Fail(http.StatusTooManyRequests, "TooManyRequests"))
	}
	testenv.Must(t, first.Plane.Restore(t.Context(), backup))
	for _, s := range replicas {
		s.proxy.Break(nil)
	}
	// Resource versions are compared once a minute.
	for _, s := range replicas {
		testenv.EventuallyWithin(t, 2*recovery, func() error {
			return s.scrapes(t.Context(), func(m metrics.Metrics) error {
				if n := m.Select(auditor.Prefix+"resource_version_regressions_total", nil).Sum(); n == 0 {
					return errors.New("no regression is counted")
				}
				return nil
			})
		})
	}
	awaitExports(t, replicas, "before", "restored")
	removed(t, replicas, "lost")
	first.survived(t)
	equalsAudit(t, first.Env, replicas[0].Auditor, replicas[1].Auditor)
}

// write takes the resource version that many steps further.
func (s *stage) write(t *testing.T, times int) {
	t.Helper()
	maps := s.Kube.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	written := testenv.Get(maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}}, metav1.CreateOptions{}))(t)
	for i := range times {
		written.Data = map[string]string{"times": fmt.Sprint(i)}
		written = testenv.Get(maps.Update(t.Context(), written, metav1.UpdateOptions{}))(t)
	}
}

// awaitExports waits until all replicas export the findings of the webhooks.
func awaitExports(t *testing.T, replicas []*stage, names ...string) {
	t.Helper()
	for _, s := range replicas {
		for _, name := range names {
			s.exports(t, name)
		}
	}
}

// removed waits until no replica exports the webhook.
func removed(t *testing.T, replicas []*stage, name string) {
	t.Helper()
	for _, s := range replicas {
		testenv.EventuallyWithin(t, recovery, func() error {
			return s.scrapes(t.Context(), metrics.Absent(info, metrics.Labels{"configuration": name}))
		})
	}
}
