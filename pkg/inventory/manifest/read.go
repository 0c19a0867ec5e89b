// Package manifest reads webhook configurations, and the objects around them,
// from files: manifests, rendered templates, must-gathers, insights archives and
// dumps of a cluster. It never calls a cluster. An object that cannot be read is
// an Error; the rest is read all the same.
package manifest

import (
	"cmp"
	"io"
	"runtime"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Options configure Read; all of them are optional.
type Options struct {
	// Stdin is what the path "-" stands for; nil is empty.
	Stdin io.Reader
	// Server is the version that the user names, which no input has to state.
	Server inventory.Version
	// Progress is called after each file, on the goroutine of Read.
	Progress func(files, objects int)

	limits limits
}

// Read reads files, directories and archives; "-" is the standard input. Of
// several objects with one kind, namespace and name the last one counts, as for
// kubectl apply. The Objects' Errors say what cannot be read. A file in an
// archive is written "archive!file".
func Read(paths []string, options Options) (inventory.Objects, Summary) {
	limits := cmp.Or(options.limits, defaultLimits)
	c := collector{limit: limits.objects, progress: options.Progress, skipped: map[int]int{}, index: map[inventory.SourceKey]int{}}
	f := feeder{stdin: cmp.Or[io.Reader](options.Stdin, strings.NewReader("")), limits: limits}
	parallel(func(emit func(job)) { f.feed(paths, emit) }, c.collect)
	// The texts are as large as the objects. Without a collection, what the caller
	// computes next would add to both.
	runtime.GC()
	var summary Summary
	for i, read := range c.contents(len(f.inputs)) {
		summary.Inputs = append(summary.Inputs, f.inputs[i].summary(read, options.Server))
		summary.Objects += read.objects
		summary.Skipped += read.skipped
	}
	objects := c.result(f.inputs)
	summary.Empty = withoutWebhooks(objects, f.inputs)
	return objects, summary
}
