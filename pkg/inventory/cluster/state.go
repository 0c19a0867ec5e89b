package cluster

import (
	"cmp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// state is what is known of one watch. Its methods are told what the watch
// does, and tell from it whether its objects are current.
type state struct {
	// synced says that a complete list arrived at least once.
	synced bool
	// absent says that the API server does not serve the kind. That is an
	// answer like any other.
	absent bool
	// open says that the stream of changes is open, complete that it continues
	// a complete list. Both together make the objects current.
	open, complete bool
	// asOf is the last moment at which the objects were known to be current,
	// where they are not now. A watch that never was begins with the moment
	// its objects were first wanted.
	asOf time.Time
	// failure is why the last call failed; nil once a watch is current again.
	failure *failure
	// revision is the newest resource version seen since the last list, and
	// beforeList, while a list is read, the one seen before it began.
	revision, beforeList string
	// listedAt is the time of the last list.
	listedAt time.Time
	// mayWatch says that the verb watch is known to be granted.
	mayWatch bool
	// outdated says that the watch must not resume from revision: the objects
	// may differ from what the API server has.
	outdated bool
}

// listing records that a list of the newest state begins.
func (s *state) listing() {
	s.outdated = false
	s.beforeList, s.revision = cmp.Or(s.revision, s.beforeList), ""
}

// forget records that nothing seen so far counts any more.
func (s *state) forget() { s.outdated, s.revision, s.beforeList = true, "", "" }

// listIsOlder reports whether the objects must be listed anew: calls failed since
// the last list, the resource version went back, or the list is from before the
// time.
func (s state) listIsOlder(than time.Time) bool {
	return s.outdated || !s.listedAt.IsZero() && s.listedAt.Before(than)
}

// begun is told that a stream began which is to send a complete list first.
func (s *state) begun() { s.open, s.complete = true, false }

// resumed is told that a stream began which continues what is known.
func (s *state) resumed() {
	s.open, s.complete = true, true
	s.recover()
}

// listed records that a complete list of the resource version arrived.
func (s *state) listed(now time.Time, revision string) {
	s.synced, s.complete, s.asOf = true, true, now
	s.listedAt, s.revision, s.beforeList = now, revision, ""
	s.recover()
}

// closed is told that the stream ended.
func (s *state) closed(now time.Time) {
	if s.current() {
		s.asOf = now
	}
	s.open, s.complete = false, false
}

// failed is told that a call failed. An API server that does not serve a kind
// it served before is a failure: what is known is kept.
func (s *state) failed(f failure) {
	if f.notServed() && !s.synced {
		s.absent, s.failure = true, nil
		return
	}
	s.absent, s.failure = false, &f
	// What broke may be a restore of etcd. An API server that is only busy has
	// enough to do without another list.
	s.outdated = s.outdated || !apierrors.IsTooManyRequests(f.err)
}

func (s *state) recover() {
	if s.current() {
		s.absent, s.failure = false, nil
	}
}

// current reports whether the objects are what the API server has.
func (s *state) current() bool { return s.open && s.complete }

// currentAt returns the last moment at which the objects were known to be
// current.
func (s *state) currentAt(now time.Time) time.Time {
	if s.current() || s.absent {
		return now
	}
	return s.asOf
}

// answered reports whether the API server answered at all.
func (s *state) answered() bool { return s.synced || s.absent || s.failure != nil }

// settled reports whether waiting will not tell more: the list arrived, or was
// refused.
func (s *state) settled() bool {
	return s.synced || s.absent || s.failure != nil && s.failure.refused()
}
