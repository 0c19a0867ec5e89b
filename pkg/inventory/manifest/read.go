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
	// Stdin is what the path "-" stands for, and StdinName what messages call it; nil is empty.
	Stdin     io.Reader
	StdinName string
	// Server is the version that the user names, which no input has to state.
	Server inventory.Version
	// Progress is called after each file.
	Progress func(files, objects int)

	limits limits
}

// Read reads files, directories and archives; "-" is the standard input. Of
// several objects with one kind, namespace and name the last one counts, as for
// kubectl apply. The Objects' Errors say what cannot be read. A file in an
// archive is written "archive!file".
func Read(paths []string, options Options) (inventory.Objects, Summary) {
	r := reader{
		stdin:     cmp.Or[io.Reader](options.Stdin, strings.NewReader("")),
		stdinName: cmp.Or(options.StdinName, "-"),
		limits:    cmp.Or(options.limits, defaultLimits),
		kept:      kept{index: map[inventory.SourceKey]int{}},

		origins: map[string]map[string]origin{},
	}
	if r.progress = options.Progress; r.progress == nil {
		r.progress = func(int, int) {}
	}
	inputs := make([]*input, len(paths))
	for i, path := range paths {
		inputs[i] = &input{path: path, hosted: map[string]bool{}, folders: map[string]*unit{}, kinds: map[string]bool{}}
		r.path(inputs[i])
	}
	// Without a collection, what the caller computes next would add to the garbage of many objects.
	if len(r.objects) > 1000 {
		runtime.GC()
	}
	objects := r.result()
	objects.Manifests = toApply(inputs)
	if len(objects.ValidatingPolicies)+len(objects.MutatingPolicies) == 0 {
		for i := range objects.Manifests {
			objects.Manifests[i].Content = ""
		}
	}
	summary := Summary{Empty: withoutWebhooks(objects, inputs)}
	for _, input := range inputs {
		summary.Inputs = append(summary.Inputs, input.summary(options.Server))
	}
	return objects, summary
}

type reader struct {
	stdin     io.Reader
	stdinName string
	limits    limits
	progress  func(files, objects int)
	kept
	// origins are the places of the objects in the files of kustomizations.
	origins map[string]map[string]origin
}

func (r *reader) failed(f *file, line int, err error) { r.fail(f, line, "", reason(err)) }

func (r *reader) finish(f *file) {
	r.files = append(r.files, f)
	r.progress(len(r.files), len(r.objects))
}
