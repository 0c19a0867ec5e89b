package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

// filesAddress is where run serves what it reads of files, unless a flag names another address:
// there is no API server to review who may see it.
const filesAddress = "127.0.0.1:8443"

// notStandardInput refuses to read files anew that can be read once.
func notStandardInput(paths []string) error {
	if slices.Contains(paths, "-") {
		return usageError{errors.New("--from: must be a file, a directory or an archive, which is read anew, not standard input")}
	}
	return nil
}

// reading is what files say, or why they cannot be read.
type reading struct {
	*admission.Matcher
	objects inventory.Objects
	// state differs from that of an earlier reading where a file has changed since.
	state string
	err   error
}

func (o *operatorFlags) readFiles(ctx context.Context, s streams) reading {
	state := stateOfFiles(o.paths)
	objects, err := o.objects(ctx, s)
	if err != nil {
		return reading{state: state, err: err}
	}
	snapshot := objects.Snapshot(collected(objects.Inputs, time.Now()))
	return reading{admission.New(snapshot), objects, state, o.input.checkRead(o.paths, snapshot)}
}

// followFiles publishes the first reading, and another one at the second tick after a
// change, until ctx ends. Files that can no longer be read leave the last reading in effect.
func (o *operatorFlags) followFiles(ctx context.Context, d *daemon, first reading, ticks <-chan time.Time) error {
	d.publish(ctx, first.Matcher)
	changes := policyChanges{first.state, first.state}
	var unread messageLog
	last := first
	return eachTick(ctx, ticks, func() {
		if !changes.changed(stateOfFiles(o.paths)) {
			return
		}
		latest := o.readFiles(ctx, streams{out: io.Discard, err: io.Discard})
		d.logOnce(&unread, "cannot read the files again; the last reading stays in effect", latest.err)
		if latest.err == nil {
			d.log.Info("read the files again", "taken", latest.Snapshot.Taken)
			completed := latest.objects.CompletedBy(last.objects).Snapshot(latest.Snapshot.Taken)
			d.publishInput(ctx, latest.Matcher, admission.New(completed))
			last = latest
		}
	})
}

// stateOfFiles differs where a file at or below the paths was written, came or went.
func stateOfFiles(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				fmt.Fprintln(&b, name, err)
				return nil
			}
			if info, err := entry.Info(); err == nil && !entry.IsDir() {
				fmt.Fprintln(&b, name, info.Size(), info.ModTime().UnixNano())
			}
			return nil
		})
	}
	return b.String()
}

// observePause is how many spans of an observation of run there are from one to the
// next: a minute by default.
const observePause = 6

func (o *observeFlags) observeInterval() time.Duration {
	if o.prometheus.URL != "" { // the span is a range of the past
		return time.Minute
	}
	return min(observePause*o.span, time.Minute)
}

func (o *operatorFlags) followObservation(ctx context.Context, d *daemon) error {
	observe := func(ctx context.Context) observation { return o.observe.observe(ctx, o.access) }
	return d.followObservation(ctx, time.Tick(o.observe.observeInterval()), observe)
}

// followObservation observes at once and at each tick, until ctx ends. It runs
// beside the watch, which never waits for it.
func (d *daemon) followObservation(ctx context.Context, ticks <-chan time.Time,
	observe func(context.Context) observation,
) error {
	keep := func() {
		found := observe(ctx)
		if !d.exportsObserved {
			found.scrapes = nil
		}
		if ctx.Err() == nil {
			d.observation.Store(&found)
		}
	}
	keep()
	return eachTick(ctx, ticks, keep)
}

// observed is the current Report with what was observed last, and why that failed
// where it did. Only the status page shows it: metrics and conditions depend on
// no other source than the cluster.
func (d *daemon) observed() *classify.Report {
	report, found := d.current(), d.observation.Load()
	if report == nil || found == nil {
		return report
	}
	out := *report
	out.Snapshot = found.addTo(report.Snapshot)
	out.Errors = slices.Concat(report.Errors, found.errors)
	return &out
}

// exportObserved is what the API servers counted last, with how many were read and how
// many there are, as metrics.
func (d *daemon) exportObserved() []*dto.MetricFamily {
	found := d.observation.Load()
	if found == nil || found.observed == nil {
		return nil
	}
	return append(observed.Export(found.scrapes),
		exporter.ObservedServers(len(found.scrapes), found.observed.OfServers)...)
}

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
