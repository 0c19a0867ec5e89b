//go:build faults

package faults

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/proxy"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// unseen bounds how long the auditor may not know that a watch lacks changes: until
// the next comparison of resource versions, and a bookmark later.
const unseen = 3 * time.Minute

// lagging is a control plane of three API servers, one of which reaches etcd through a
// relay.
type lagging struct {
	*testenv.Env
	relay         *proxy.Balancer
	server, third *rest.Config // the one behind the relay, and one more
}

func newLagging(t *testing.T) *lagging {
	t.Helper()
	w := testenv.New(t, cluster.Options{WithoutControllers: true})
	w.InstallAPIs(t)
	relay := testenv.Get(proxy.StartRelay(w.Plane.Store()+"-relay", w.Plane.Store()))(t)
	t.Cleanup(func() { testenv.Must(t, errors.Join(w.Plane.Stop(), relay.Close())) })
	server := testenv.Get(w.Plane.Join(t.Context(), "--etcd-servers=unix://"+relay.Address))(t)
	third := testenv.Get(w.Plane.Join(t.Context()))(t)
	return &lagging{w, relay, server, third}
}

// cut holds the way of one API server to etcd, until the end of the test, while a
// webhook is registered through another one; the auditor finds it meanwhile.
func (l *lagging) cut(t *testing.T, s *stage) {
	t.Helper()
	l.relay.Hold()
	defer l.relay.Release()
	s.missing(t, "unseen")
	begun := time.Now()
	testenv.EventuallyWithin(t, 2*unseen, func() error { return s.exported(t, "unseen") }) // on a busy machine, too
	t.Logf("found after %s", time.Since(begun).Round(time.Second))
}

// TestFaultLagging: all of the auditor's watches are of one API server, which loses
// etcd and keeps them open. The load balancer has new connections reach the others.
func TestFaultLagging(t *testing.T) {
	t.Parallel()
	l := newLagging(t)
	balancer := testenv.Get(proxy.StartBalancer(address(t, l.server)))(t)
	t.Cleanup(func() { testenv.Must(t, balancer.Close()) })
	config := l.Plane.Config()
	config.Host = "https://" + balancer.Address
	s := &stage{Env: l.Env, Auditor: testenv.RunAs(t, testenv.Kubeconfig(t, config), elected...)}
	s.missing(t, "before")
	s.awaitReported(t, "before")
	balancer.Use(address(t, l.Plane.Config()), address(t, l.third))
	l.cut(t, s)
	s.survived(t)
}

// TestFaultLaggingWatch: a proxy takes the watches of one kind to the API server that
// loses etcd, again and again, and all other requests to another.
func TestFaultLaggingWatch(t *testing.T) {
	t.Parallel()
	l := newLagging(t)
	s := newAct(t, l.Env, elected...)
	slow := testenv.Get(proxy.Start(l.server))(t)
	t.Cleanup(func() { testenv.Must(t, slow.Close()) })
	s.proxy.Break(func(w http.ResponseWriter, r *http.Request) bool {
		pinned := strings.HasSuffix(r.URL.Path, "/validatingwebhookconfigurations") && r.URL.Query().Get("watch") != ""
		if pinned {
			slow.ServeHTTP(w, r)
		}
		return pinned
	})
	s.missing(t, "before")
	s.awaitReported(t, "before")
	l.cut(t, s)
	s.survived(t)
}

func address(t *testing.T, config *rest.Config) string {
	t.Helper()
	host := testenv.Get(url.Parse(config.Host))(t)
	return host.Host
}

// TestFaultNone: while nothing changes and nothing fails, the watches are known to be
// complete by their bookmarks alone.
func TestFaultNone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var compared, listed atomic.Int32
	s.proxy.Break(func(_ http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Query().Get("limit") {
		case "":
		case "1":
			compared.Add(1)
		default:
			listed.Add(1)
		}
		return false
	})
	s.current(t)
	before := listed.Load() // the watches that the proxy closed may be listed again
	s.audit = audited(t, s.Plane.Kubeconfig())
	during(t, unseen, s)
	if compared.Load() == 0 || listed.Load() != before {
		t.Errorf("%d lists of one object, %d of all", compared.Load(), listed.Load()-before)
	}
	if n := s.value(t, auditor.Prefix+"watch_errors_total"); n != 0 {
		t.Errorf("%v watch errors", n)
	}
	s.survived(t)
}
