//go:build faults

package faults

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
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
	for _, s := range replicas {
		s.exports(t, "restored")
	}
	backup := testenv.Get(first.Plane.BackUp(t.Context()))(t)
	first.Unregister(t, "restored")
	first.write(t, 500)
	first.missing(t, "lost")
	// After most errors client-go lists anew. After this one, as after a refused
	// connection, it resumes its watches.
	for _, s := range replicas {
		s.exports(t, "lost")
		s.removed(t, "restored")
		s.proxy.Break(proxy.Fail(http.StatusTooManyRequests, "TooManyRequests"))
	}
	testenv.Must(t, first.Plane.Restore(t.Context(), backup))
	for _, s := range replicas {
		s.proxy.Break(nil)
	}
	for _, s := range replicas { // resource versions are compared once a minute
		testenv.EventuallyWithin(t, 2*recovery, func() error {
			return s.scrapes(t.Context(), counted(auditor.Prefix+"resource_version_regressions_total"))
		})
		s.exports(t, "before")
		s.exports(t, "restored")
		s.removed(t, "lost")
	}
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
