package cluster

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// tempo is how long each thing may take. Only tests change it.
type tempo struct {
	// settle and repeat are Options.Settle and Options.Repeat.
	settle, repeat time.Duration
	// patience is how long the first Snapshot waits for watches that fail and
	// may yet recover.
	patience time.Duration
	// hold is how long a later Snapshot waits for a Service that has just been
	// named: shorter than anybody would notice, longer than a list takes.
	hold time.Duration
	// lag is how long discovery takes to follow a change, and pause the least
	// time between two readings of the facts, as after an outage.
	lag, pause time.Duration
	// gates is how often feature gates are read again while no watch breaks:
	// they change with a restart of the API server only.
	gates time.Duration
	// relist is the age at which a list is read anew when its watch ends, which
	// the API server brings about every five to ten minutes: the one remedy
	// where events were lost without an error.
	relist time.Duration
	// backoff is the pause between failing calls of one watch. It ends sooner
	// than client-go's, which would be blind for a minute after an outage.
	backoff wait.Backoff
}

func (o Options) tempo() tempo {
	t := o.test
	t.settle = cmp.Or(o.Settle, 100*time.Millisecond)
	t.repeat = cmp.Or(o.Repeat, time.Minute)
	t.patience = cmp.Or(t.patience, 10*time.Second)
	t.hold = cmp.Or(t.hold, time.Second)
	t.lag = cmp.Or(t.lag, 2*time.Second)
	t.pause = cmp.Or(t.pause, time.Second)
	t.gates = cmp.Or(t.gates, 10*time.Minute)
	t.relist = cmp.Or(t.relist, 5*time.Minute)
	if t.backoff.Duration == 0 {
		t.backoff = wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 15 * time.Second}
	}
	return t
}

// moment is where a watcher stands.
type moment struct {
	started time.Time
	// published is when the last Snapshot was published; zero before the first.
	published time.Time
	// changed is when something changed first since then; zero if nothing did.
	changed time.Time
	// pending says that something is still awaited that the Snapshot needs.
	pending bool
	// blind says that nothing was seen yet that a Snapshot could tell.
	blind bool
}

// due returns when the next Snapshot is to be published; zero is never, until
// something changes.
func (t tempo) due(m moment) time.Time {
	switch {
	case m.blind:
		return time.Time{}
	case m.published.IsZero() && m.pending:
		return m.started.Add(t.patience)
	case m.published.IsZero():
		return m.started
	case m.changed.IsZero():
		return m.published.Add(t.repeat)
	}
	at := later(m.changed, m.published.Add(t.settle))
	if m.pending {
		at = later(at, m.changed.Add(t.hold))
	}
	return sooner(at, m.published.Add(t.repeat))
}

func (t tempo) passed(m moment) bool {
	due := t.due(m)
	return !due.IsZero() && !due.After(time.Now())
}

// ask returns when to read the facts again, that were asked for last at asked.
func (t tempo) ask(asked time.Time, h heard) time.Time {
	regularly, soonest := asked.Add(t.repeat), asked.Add(t.pause)
	switch {
	case asked.IsZero():
		return asked
	case h.returned:
		return soonest
	case !h.served.IsZero():
		return sooner(regularly, later(h.served.Add(t.lag), soonest))
	case !h.again.IsZero():
		return sooner(regularly, later(h.again, soonest))
	}
	return regularly
}

// asked returns what is left to be heard once the facts are asked for: after a
// change of what is served they are asked for twice, because discovery follows
// a busy API server late.
func (t tempo) asked(h heard, now time.Time) heard {
	again := time.Time{}
	if !h.served.IsZero() {
		again = now.Add(4 * t.lag)
	}
	return heard{changed: h.changed, again: again}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
