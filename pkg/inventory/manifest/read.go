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
	"sync"

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
		stdin:  cmp.Or[io.Reader](options.Stdin, strings.NewReader("")),
		limits: cmp.Or(options.limits, defaultLimits),
		cores:  make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
		parts:  make(chan *part, maxParts),
	}
	inputs := make([]*input, len(paths))
	for i, path := range paths {
		inputs[i] = &input{path: path, hosted: map[string]bool{}, kinds: map[string]bool{}}
	}
	go r.inputs(inputs)
	k := kept{limit: r.limits.objects, index: map[inventory.SourceKey]int{}}
	for p := range r.parts {
		p.reading.Wait()
		k.add(p.file, p.outcome)
		if p.fileDone && options.Progress != nil {
			options.Progress(len(k.files), len(k.objects))
		}
	}
	// Without a collection, what the caller computes next would add to the garbage.
	runtime.GC()
	objects := k.result()
	objects.Manifests = toApply(inputs)
	return objects, summarize(inputs, options.Server, objects)
}

// maxParts bounds the parts that are read and not kept yet.
const maxParts = 256

// reader cuts inputs into parts, which are read on all cores.
type reader struct {
	stdin  io.Reader
	limits limits
	// cores has room for the parts that are read at a time. While each core reads
	// one, the next is cut.
	cores chan struct{}
	// parts are in the order of the inputs.
	parts chan *part
}

// part is a text, and what it holds once it is read. Without a text it is an error,
// what a list says or the end of a file.
type part struct {
	text
	outcome
	reading sync.WaitGroup
}

func (r *reader) inputs(inputs []*input) {
	defer close(r.parts)
	for _, in := range inputs {
		r.path(in)
	}
}

// fail reports what cannot be read of a file.
func (r *reader) fail(f *file, line int, err error) {
	source := inventory.Source{File: f.name, Line: line}
	r.note(f, outcome{errors: []inventory.Error{{Source: source, Message: reason(err)}}})
}

// note reports what is known of a file without reading a text.
func (r *reader) note(f *file, o outcome) { r.parts <- &part{text: text{file: f}, outcome: o} }

// read has a text read.
func (r *reader) read(t text) {
	p := &part{text: t}
	r.cores <- struct{}{}
	p.reading.Go(func() {
		p.outcome = t.read()
		p.text = text{file: t.file} // the bytes are as many as the objects
		<-r.cores
	})
	r.parts <- p
}
