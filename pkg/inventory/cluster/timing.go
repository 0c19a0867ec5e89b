package cluster

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// timing holds the durations of a watcher. Only tests change them.
type timing struct {
	// debounce is Options.Debounce, resync after what time an unchanged Snapshot is published again.
	debounce, resync time.Duration
	// startupWait is how long the first Snapshot waits for watches that fail
	// and may recover.
	startupWait time.Duration
	// discoveryDelay is how long discovery takes to follow a change, and
	// fetchInterval the minimum time between two fetches of the serverInfo.
	discoveryDelay, fetchInterval time.Duration
	// gatesInterval is the time between two reads of the feature gates while no watch
	// fails: they change with a restart of the API server only.
	gatesInterval time.Duration
	// relistAge is the age at which a list is read again when its watch ends, which
	// the API server brings about every five to ten minutes: events that were
	// lost without an error are found by that alone.
	relistAge time.Duration
	// openTimeout is how long the API server may take until it begins to stream: longer
	// than a request waits in the queues of its priority and fairness.
	openTimeout time.Duration
	// progressWait is how long a stream may take to come to a listed resource version:
	// the API server sends a bookmark each minute.
	progressWait time.Duration
	// backoff is the pause between failing calls of one watch. Its cap is lower
	// than that of client-go, which would not notice for a minute that an outage
	// has ended.
	backoff wait.Backoff
}

func (o Options) timing() timing {
	t := o.test
	t.debounce = cmp.Or(o.Debounce, 100*time.Millisecond)
	t.resync = cmp.Or(t.resync, time.Minute)
	t.startupWait = cmp.Or(t.startupWait, 10*time.Second)
	t.discoveryDelay = cmp.Or(t.discoveryDelay, 2*time.Second)
	t.fetchInterval = cmp.Or(t.fetchInterval, time.Second)
	t.gatesInterval = cmp.Or(t.gatesInterval, 10*time.Minute)
	t.relistAge = cmp.Or(t.relistAge, 5*time.Minute)
	t.openTimeout = cmp.Or(t.openTimeout, 30*time.Second)
	t.progressWait = cmp.Or(t.progressWait, 75*time.Second)
	if t.backoff.Duration == 0 {
		t.backoff = wait.Backoff{
			Duration: 800 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 15 * time.Second,
		}
	}
	return t
}

// schedule decides when the watcher publishes a Snapshot, when it fetches the
// serverInfo and when it compares resource versions.
type schedule struct {
	timing
	started time.Time
	// published is the time of the last Snapshot; zero before the first.
	published time.Time
	// paid is the time until which the Snapshots so far take their share of a core.
	paid time.Time
	// changed is the time of the first change that the last Snapshot may lack;
	// zero if there is none.
	changed time.Time
	// fetched is the start of the last fetch of the serverInfo; fetching is set
	// until it ends.
	fetched  time.Time
	fetching bool
	// servedChanged is the time of the first change of what the API server serves
	// since then; zero if none.
	servedChanged     time.Time
	recovered         bool
	revisionsCompared time.Time
}

type watchStatus struct {
	// pending is set while something is awaited that the Snapshot needs.
	pending bool
	// empty is set while there is nothing yet that a Snapshot could show.
	empty bool
}

func (s schedule) next(now time.Time, status watchStatus) time.Time {
	next := now.Add(s.resync)
	if due := s.nextPublish(status); !due.IsZero() {
		next = earlier(next, due)
	}
	if !s.fetching {
		next = earlier(next, s.nextFetch())
	}
	return next
}

// The bound on the cost of changes: each Snapshot is paid for by a pause of this many
// times the time that it took, so that no rate of changes takes more than a tenth of a
// core for long. Up to burst of these pauses may be put off: a change alone, or a few, are
// published at once. No Snapshot leads to more than longestPause: on a machine that has no
// core to spare it takes seconds in which it hardly computes.
const (
	pauses       = 9
	burst        = 1500 * time.Millisecond
	longestPause = 5 * time.Second
)

// spend records that a Snapshot was published which began to be made at a time. The
// first one is free: what it lacks follows at once.
func (s *schedule) spend(began, now time.Time) {
	if took := now.Sub(began); !s.published.IsZero() {
		s.paid = later(s.paid, began).Add(took + min(pauses*took, longestPause))
	}
	s.published = now
}

// nextPublish returns when the next Snapshot is due; zero if not before the next
// change.
func (s schedule) nextPublish(status watchStatus) time.Time {
	switch {
	case status.empty:
		return time.Time{}
	case s.published.IsZero() && status.pending:
		return s.started.Add(s.startupWait)
	case s.published.IsZero():
		return s.started
	case s.changed.IsZero():
		return s.published.Add(s.resync)
	}
	due := later(later(s.changed, s.published.Add(s.debounce)), s.paid.Add(-burst))
	return earlier(due, s.published.Add(s.resync))
}

// nextFetch returns when the serverInfo is to be fetched again. A fetch that a change led
// to delays no comparison of resource versions, which comes with a fetch.
func (s schedule) nextFetch() time.Time {
	soonest := s.fetched.Add(s.fetchInterval)
	regular := later(earlier(s.fetched, s.revisionsCompared).Add(s.resync), soonest)
	switch {
	case s.fetched.IsZero():
		return s.fetched
	case s.recovered:
		return soonest
	case !s.servedChanged.IsZero():
		return earlier(regular, later(s.servedChanged.Add(s.discoveryDelay), soonest))
	}
	return regular
}

// beginFetch records that a fetch of the serverInfo begins. Where the discovery of a busy
// API server follows a change later, the next regular fetch has it.
func (s *schedule) beginFetch(now time.Time) {
	s.fetching, s.fetched, s.servedChanged, s.recovered = true, now, time.Time{}, false
}

// beginComparison reports whether resource versions are to be compared with this
// fetch of the serverInfo, and if so records the comparison.
func (s *schedule) beginComparison(now time.Time) bool {
	due := s.recovered || now.Sub(s.revisionsCompared) >= s.resync
	if due {
		s.revisionsCompared = now
	}
	return due
}

// noteServedChange records a change of what the API server serves. Further ones do not
// delay the fetch that the first one asks for.
func (s *schedule) noteServedChange(now time.Time) {
	if s.servedChanged.IsZero() {
		s.servedChanged = now
	}
}

func (s *schedule) noteChange(now time.Time) {
	if s.changed.IsZero() {
		s.changed = now
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
