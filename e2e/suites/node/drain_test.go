//go:build linux && node

package node

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// drains are what happens to a webhook's only Pod, and whether requests are refused then.
var drains = []struct {
	name, preStop string
	refuses       bool
}{
	{name: "plain", refuses: true},
	{name: "prestop", preStop: "preStop: {sleep: {seconds: 25}}"},
}

// TestDrain compares what "impact --down-node" says with what a drain does.
func TestDrain(t *testing.T) {
	for _, d := range drains {
		t.Run(d.name, func(t *testing.T) {
			h := hook{name: "drained-" + d.name, preStop: d.preStop}
			h.start(t)
			pods, err := real.Kube.CoreV1().Pods(h.name).List(t.Context(), metav1.ListOptions{})
			testenv.Must(t, err)
			place := pods.Items[0].Spec.NodeName
			predicted := says(t, "impact", "--down-node", place)
			contains(t, "impact --down-node", predicted, h.name)
			t.Logf("predicted:\n%s", predicted)
			t.Cleanup(func() { do(t, "uncordon "+place) })
			failures := h.calling(t)
			do(t, "drain "+place+" --ignore-daemonsets --delete-emptydir-data --timeout=150s")
			ready(t, h.name, h.name)
			h.admitted(t)
			refused := failures()
			if d.refuses != (len(refused) > 0) {
				t.Errorf("refused while the node was drained: %v", refused)
			}
		})
	}
}

// calling sends five requests a second until it is stopped, and returns those that were
// refused.
func (h hook) calling(t testing.TB) (stop func() []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error, 1)
	go func() {
		var refused []error
		for ctx.Err() == nil {
			if err := h.call(context.Background()); err != nil {
				refused = append(refused, err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		done <- refused
	}()
	return func() []error { cancel(); return <-done }
}
