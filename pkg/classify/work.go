package classify

import "context"

// work counts the steps of an evaluation and stops it once its context ends.
type work struct {
	ctx context.Context
	// every is the number of steps between two looks at the context.
	every int
	steps int
	// requests are those on the path of the control plane, made once for all.
	requests controlPlaneRequests
	ended    bool
}

func newWork(ctx context.Context) *work { return &work{ctx: ctx, every: checkEvery} }

// checkEvery steps take a millisecond or a few.
const checkEvery = 1024

// step counts a step; false says that the context ended, so that the caller
// returns with what it has.
func (w *work) step() bool {
	w.steps++
	if w.steps%w.every == 0 && w.ctx.Err() != nil {
		w.ended = true
	}
	return !w.ended
}
