//go:build faults

package faults

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// requests counts what passes a proxy, by what it is for.
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

// count is a fault that breaks nothing.
func (r *requests) count(_ http.ResponseWriter, request *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := request.URL.Path
	switch {
	case strings.Contains(path, "/leases"):
		r.counts["leases"]++
	case request.Method == http.MethodPatch && strings.HasSuffix(path, "/status"):
		r.counts["statuses"]++
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/events"):
		r.counts["events"]++
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/tokenreviews"):
		r.counts["reviews"]++
	}
	return false
}

func (r *requests) of(kind string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[kind]
}

// TestFaultFlapping has a backend come and go several times a second for a
// minute: the lease is read as often as ever, statuses and Events are few,
// no Event is refused, and the last state is written.
func TestFaultFlapping(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.Backend(t, "flapping")
	s.Validate(t, b.Namespace, testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	counted := &requests{counts: map[string]int{}}
	s.proxy.Break(counted.count)
	begun, flaps := time.Now(), 0
	pace := time.NewTicker(200 * time.Millisecond)
	defer pace.Stop()
	for ; time.Since(begun) < outage; flaps++ {
		testenv.Must(t, b.Unready(t.Context()))
		<-pace.C
		testenv.Must(t, b.Ready(t.Context()))
		<-pace.C
	}
	testenv.Must(t, b.Unready(t.Context()))
	const condition = "ValidatingAdmissionWebhookConfigurationError"
	for _, target := range testenv.Targets {
		testenv.EventuallyWithin(t, recovery, func() error {
			return s.Condition(t.Context(), target, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Message: b.Namespace})
		})
	}
	took := time.Since(begun)
	t.Logf("%d flaps in %s: %d lease calls, %d status writes, %d Events", flaps, took.Round(time.Second), counted.of("leases"), counted.of("statuses"), counted.of("events"))
	for kind, most := range map[string]int{
		"leases":   2 * (int(took/(2*time.Second)) + 2),      // two calls every two seconds
		"statuses": 2 * (5 + int(took/(10*time.Second)) + 2), // of each target five at once, then one every ten seconds
		"events":   2*(int(took/time.Minute)+2) + 1,          // of each minute that it came and that it went, and that it was registered
	} {
		if n := counted.of(kind); n == 0 || n > most {
			t.Errorf("%d %s, want at most %d", n, kind, most)
		}
	}
	events, err := s.Events(t.Context(), b.Namespace)
	testenv.Must(t, err)
	if posted := counted.of("events"); posted != len(events) {
		t.Errorf("%d Events posted, %d recorded", posted, len(events))
	}
	equalsAudit(t, s.Env, s.Auditor)
}
