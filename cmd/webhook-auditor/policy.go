package main

import (
	"context"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// policyInterval is how often --config is read again. An edit, a rename and the
// symbolic link of a ConfigMap volume all show in the content; kubelet itself
// takes up to a minute to update the volume.
const policyInterval = 2 * time.Second

// policyChanges finds the changes of the Policy file by its readings: the last one, and the
// last one that was a change.
type policyChanges struct{ last, handled string }

// changed reports whether the file has changed. A change counts from its second
// reading on: an editor may not have written all of it, or be about to rename
// the new file.
func (c *policyChanges) changed(now string) bool {
	settled := now == c.last
	c.last = now
	if !settled || now == c.handled {
		return false
	}
	c.handled = now
	return true
}

// followPolicy reads the Policy at each tick and gives apply each change of it,
// until the context ends; text is what was read at the start.
func (in *input) followPolicy(ctx context.Context, text []byte, tick <-chan time.Time,
	apply func(classify.Policy, error),
) error {
	changes := policyChanges{string(text), string(text)}
	return eachTick(ctx, tick, func() {
		text, err := in.policyText()
		now := string(text)
		if err != nil {
			now = err.Error()
		}
		switch {
		case !changes.changed(now):
		case err != nil:
			apply(classify.Policy{}, err)
		default:
			apply(in.parsePolicy(text))
		}
	})
}

// eachTick calls the function at each tick, until the context ends.
func eachTick(ctx context.Context, ticks <-chan time.Time, do func()) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks:
			do()
		}
	}
}

// policyChanged evaluates the last Snapshot by the new Policy; an invalid one
// leaves the last good one in effect. Each change is logged once.
func (d *daemon) policyChanged(ctx context.Context, policy classify.Policy, err error) {
	if err != nil {
		d.own.PolicyFailed()
		d.log.Warn("cannot reload the Policy; the last good one stays in effect", "err", err)
		return
	}
	d.log.Info("reloaded the Policy")
	d.evaluating.Lock()
	d.inEffect = policy
	d.evaluating.Unlock()
	d.publish(ctx, nil)
	d.own.PolicyLoaded(time.Now())
}
