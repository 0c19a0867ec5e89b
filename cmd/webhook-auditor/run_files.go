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

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
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
	// state differs from that of an earlier reading where a file has changed since.
	state string
	err   error
}

// readFiles reads the files once.
func (o *operatorFlags) readFiles(ctx context.Context, s streams) reading {
	state := stateOfFiles(o.paths)
	objects, err := o.objects(ctx, s)
	if err != nil {
		return reading{state: state, err: err}
	}
	snapshot := objects.Snapshot(collected(objects.Inputs, time.Now()))
	return reading{admission.New(snapshot), state, o.input.checkRead(o.paths, snapshot)}
}

// followFiles publishes the first reading, and another one at the second tick after a
// change, until ctx ends. Files that can no longer be read leave the last reading in effect.
func (o *operatorFlags) followFiles(ctx context.Context, d *daemon, first reading, ticks <-chan time.Time) error {
	d.publish(ctx, first.Matcher)
	changes := policyChanges{first.state, first.state}
	var unread messageLog
	return eachTick(ctx, ticks, func() {
		if !changes.changed(stateOfFiles(o.paths)) {
			return
		}
		again := o.readFiles(ctx, streams{out: io.Discard, err: io.Discard})
		d.logOnce(&unread, "cannot read the files again; the last reading stays in effect", again.err)
		if again.err == nil {
			d.log.Info("read the files again", "taken", again.Snapshot.Taken)
			d.publish(ctx, again.Matcher)
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
