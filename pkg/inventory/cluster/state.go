package cluster

import "time"

// state is how what an objectWatch has relates to what the API server has.
type state int

const (
	// listing is a watch that waits for a list of everything, or reads one.
	listing state = iota
	// listed is one that has read a list, which no stream continues yet.
	listed
	// current is one that a stream keeps as the API server is.
	current
	// interrupted is one whose stream has ended: another may resume where it ended.
	interrupted
	// outdated is one that may lack changes which no stream would show: everything is
	// to be listed again.
	outdated
)

type step int

const (
	listBegins step = iota
	listEnds
	streamOpens
	streamEnds
	// mayLackChanges is a call that failed, a resource version that went back or a stream
	// that does not come to the newest one.
	mayLackChanges
)

// transitions has the state that a step leads to from listing, listed, current,
// interrupted and outdated.
var transitions = [...][5]state{
	listBegins:     {listing, listing, listing, listing, listing},
	listEnds:       {listed, listed, listed, listed, outdated},
	streamOpens:    {listing, current, current, current, outdated},
	streamEnds:     {listing, listed, interrupted, interrupted, outdated},
	mayLackChanges: {outdated, outdated, outdated, outdated, outdated},
}

// move takes the step. What was current is known as of that time.
func (o *objectWatch) move(s step, now time.Time) {
	before := o.state
	o.state = transitions[s][before]
	switch {
	case o.state == current:
		o.failure = nil
	case before == current:
		o.asOf = now
	}
}

// isListed reports whether the objects are those of a list and of what followed.
func (o *objectWatch) isListed() bool { return o.state != listing && o.state != outdated }
