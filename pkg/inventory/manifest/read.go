// Package manifest reads webhook configurations, and what is around them, from
// files: manifests, what templates were rendered to, must-gathers, insights
// archives and dumps of a cluster. It never talks to a cluster. An object that
// cannot be understood is an Error; the rest is read all the same.
package manifest

import (
	"cmp"
	"io"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Options are what Read need not be told.
type Options struct {
	// Stdin is what the path "-" stands for; nil is empty.
	Stdin io.Reader
	// Server is the version that the user names, which no input has to tell.
	Server inventory.Version
	// Progress is called after each file, on the goroutine of Read.
	Progress func(files, objects int)
}

// Read reads files, directories and archives; "-" is the standard input. Of
// several objects with one kind, namespace and name the last one counts, as for
// kubectl apply. What cannot be read is in the Objects' Errors. A file in an
// archive is written "archive!file".
func Read(paths []string, options Options) (inventory.Objects, Summary) {
	return readWithin(defaultLimits, paths, options)
}

func readWithin(limits limits, paths []string, options Options) (inventory.Objects, Summary) {
	c := collector{limit: limits.objects, progress: options.Progress, skipped: map[int]int{}, index: map[inventory.SourceKey]int{}}
	f := feeder{stdin: cmp.Or[io.Reader](options.Stdin, strings.NewReader("")), limits: limits}
	ordered(func(emit func(task)) { f.feed(paths, emit) }, task.do, c.collect)
	var summary Summary
	for i, read := range c.contents(len(f.inputs)) {
		summary.Inputs = append(summary.Inputs, f.inputs[i].input(read, options.Server))
		summary.Objects += read.objects
		summary.Skipped += read.skipped
	}
	objects := c.result(f.inputs)
	summary.Empty = empty(objects, f.inputs)
	return objects, summary
}
