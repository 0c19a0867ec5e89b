// Package manifest reads webhook configurations, and the objects around them,
// from files: manifests, rendered templates, must-gathers, insights archives and
// dumps of a cluster. It never calls a cluster. An object that cannot be read is
// an Error; the rest is read all the same.
package manifest

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

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
	r := reader{
		stdin:    cmp.Or[io.Reader](options.Stdin, strings.NewReader("")),
		limits:   cmp.Or(options.limits, defaultLimits),
		progress: options.Progress,
		batch:    &batch{},
		reading:  &batch{},
		index:    map[inventory.SourceKey]int{},
	}
	for _, path := range paths {
		in := &input{path: path, hosted: map[string]bool{}, kinds: map[string]bool{}}
		r.inputs = append(r.inputs, in)
		r.path(in)
	}
	r.flush()
	r.flush()
	r.reading = nil
	// The texts are as large as the objects. Without a collection, what the caller
	// computes next would add to both.
	runtime.GC()
	objects := r.result()
	return objects, r.summary(options.Server, withoutWebhooks(objects, r.inputs))
}

// maxBatch bounds the bytes that are parsed at once, maxParts their parts.
const maxBatch, maxParts = 4 << 20, 4096

// maxErrors bounds the errors that are reported.
const maxErrors = 1000

// reader cuts inputs into parts, reads these in batches and keeps what they hold.
type reader struct {
	stdin    io.Reader
	limits   limits
	progress func(files, objects int)
	inputs   []*input

	// batch is filled while the one before it is read.
	batch, reading *batch

	objects []object
	// index leads from a key to its index in objects.
	index map[inventory.SourceKey]int
	// full is set where there are more objects than the limit.
	full bool
	// files are those that were read to their end.
	files     []*file
	errors    []inventory.Error
	dropped   int
	openShift bool
}

// fail reports what cannot be read of a file.
func (r *reader) fail(f *file, line int, err error) {
	source := inventory.Source{File: f.name, Line: line}
	r.add(part{text{file: f}, outcome{errors: []inventory.Error{{Source: source, Message: reason(err)}}}})
}

func (r *reader) add(p part) {
	r.batch.parts = append(r.batch.parts, p)
	r.batch.size += len(p.data)
	if r.batch.size >= maxBatch || len(r.batch.parts) >= maxParts {
		r.flush()
	}
}

// flush keeps what the batch holds that is being read, and starts reading the next.
func (r *reader) flush() {
	r.reading.workers.Wait()
	for _, p := range r.reading.parts {
		r.keep(p.file, p.outcome)
	}
	r.reading, r.batch = r.batch, &batch{}
	r.reading.start()
}

// batch is what is read on all cores at a time.
type batch struct {
	parts []part
	// size are the bytes of all parts.
	size    int
	next    atomic.Int64
	workers sync.WaitGroup
}

// part is a text, and what it holds once it is read. Without data it is an error,
// what a list says or the end of a file.
type part struct {
	text
	outcome
}

func (b *batch) start() {
	for range min(runtime.GOMAXPROCS(0), len(b.parts)) {
		b.workers.Go(func() {
			for i := b.next.Add(1); i <= int64(len(b.parts)); i = b.next.Add(1) {
				if p := &b.parts[i-1]; p.data != nil {
					p.outcome = p.read()
				}
			}
		})
	}
}

func (r *reader) keep(f *file, o outcome) {
	f.failed = f.failed || len(o.errors) > 0
	f.listed = f.listed || o.listed
	f.input.skipped += o.skipped
	r.openShift = r.openShift || o.openShift
	fit := min(len(o.errors), max(0, maxErrors-len(r.errors)))
	r.errors = append(r.errors, o.errors[:fit]...)
	r.dropped += len(o.errors) - fit
	for _, object := range o.objects {
		object.file = f
		r.object(object)
	}
	if !o.fileDone {
		return
	}
	r.files = append(r.files, f)
	if r.progress != nil {
		r.progress(len(r.files), len(r.objects))
	}
}

// object replaces an earlier object of the same name, or is appended if there is
// room. A file is not complete where there is none.
func (r *reader) object(o object) {
	i, known := r.index[o.key]
	switch {
	case known:
		r.objects[i] = o
	case len(r.objects) < r.limits.objects:
		r.index[o.key] = len(r.objects)
		r.objects = append(r.objects, o)
	default:
		o.file.failed = true
		if !r.full {
			r.full = true
			r.errors = append(r.errors, inventory.Error{Source: o.source(), Message: fmt.Sprintf("more than %d objects: this and what follows is not read", r.limits.objects)})
		}
	}
}
