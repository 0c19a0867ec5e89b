package cluster

import (
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// frequent compares resource versions often, with little time for streams.
var frequent = Options{test: timing{resync: 20 * time.Millisecond, progressWait: 20 * time.Millisecond}}

// TestWatchThatNeverOpens: watches reach an API server that has lost etcd, which begins
// no stream and refuses none. Lists are answered by another one.
func TestWatchThatNeverOpens(t *testing.T) {
	s := populated(t)
	s.change(func() { s.lagging = true })
	r := watching(s, Options{test: timing{openTimeout: 20 * time.Millisecond}})
	r.await("everything", whole)
}

// TestWatchBehindAPIServersWithoutEtcd: there is none that has etcd.
func TestWatchBehindAPIServersWithoutEtcd(t *testing.T) {
	s, r := watchingAll(t, frequent)
	s.change(func() { s.lagging, s.listsLag = true, true })
	s.refuse(504, func(r request) bool { return r.query.Get("sendInitialEvents") != "" })
	failing := errorAbout("namespaces", "list namespaces")
	first := r.await("an Error", failing)
	later := r.await("the same Error later", func(s *inventory.Snapshot) bool {
		return failing(s) && s.Taken.After(first.Taken.Add(50*time.Millisecond))
	})
	kept := *later
	kept.Errors = nil
	// Not later: each watch has a time of its own, and the earliest of those that fail counts.
	if !whole(&kept) || later.Current.After(first.Current) {
		t.Errorf("webhooks %v, current at %v and then %v", refs(later), first.Current, later.Current)
	}
	s.put(validating("unseen", kubetest.Client("policy", "validate")))
	s.heal()
	s.change(func() { s.lagging, s.listsLag = false, false })
	r.await("everything", func(s *inventory.Snapshot) bool { return len(s.Webhooks) == 5 && len(s.Errors) == 0 })
}

// TestWatchWithoutBookmarksStaysCurrent: the resource version grows with what nothing
// here watches, and no bookmark says that the streams have all there is.
func TestWatchWithoutBookmarksStaysCurrent(t *testing.T) {
	s, r := watchingAll(t, frequent)
	lists := func() (listed, watched int) {
		for _, ask := range s.recorded() {
			switch {
			case ask.resource != "validatingwebhookconfigurations":
			case ask.verb() == "watch":
				watched++
			case ask.query.Get("limit") == "50":
				listed++
			}
		}
		return listed, watched
	}
	var before time.Time
	for range 5 {
		s.put(service("other", "unrelated"))
		seen, _ := lists()
		eventually(t, "a list of everything", func() bool { listed, _ := lists(); return listed > seen })
		got := r.await("the next current Snapshot", func(s *inventory.Snapshot) bool {
			return s.Current.After(before) && s.Current.Equal(s.Taken)
		})
		if len(got.Errors) > 0 || watchErrors(got) > 0 {
			t.Errorf("errors %v", got.Errors)
		}
		before = got.Current
	}
	if _, watched := lists(); watched != 1 {
		t.Errorf("%d watches of one resource, want that of the start", watched)
	}
}
