package manifest

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxErrors bounds the errors that are reported.
const maxErrors = 1000

// collector joins outcomes, in their order.
type collector struct {
	// limit is the most objects that are kept; full is set where there are more.
	limit    int
	full     bool
	progress func(files, objects int)
	files    int
	// skipped counts by input the objects that are not read.
	skipped map[int]int

	objects []kept
	// index leads from a key to its index in objects.
	index     map[inventory.SourceKey]int
	errors    []inventory.Error
	dropped   int
	openShift bool

	// failed is set where an object of the current file cannot be read, listed
	// where there is a list in it.
	failed, listed bool
	complete       []completeness
}

// kept is an object and the file it is from.
type kept struct {
	object
	file  string
	input int
}

func (c *collector) collect(o outcome) {
	c.failed = c.failed || len(o.errors) > 0
	c.listed = c.listed || o.listed
	fit := max(0, min(len(o.errors), maxErrors-len(c.errors)))
	c.errors = append(c.errors, o.errors[:fit]...)
	c.dropped += len(o.errors) - fit
	c.skipped[o.input] += o.skipped
	c.openShift = c.openShift || o.openShift
	for _, object := range o.objects {
		c.keep(kept{object: object, file: o.file, input: o.input})
	}
	if o.fileDone {
		c.fileDone(o.complete)
	}
}

// fileDone keeps what a file is complete of, if it is a list and readable.
func (c *collector) fileDone(complete []completeness) {
	c.files++
	if !c.failed && c.listed {
		c.complete = append(c.complete, complete...)
	}
	c.failed, c.listed = false, false
	if c.progress != nil {
		c.progress(c.files, len(c.objects))
	}
}

// keep replaces an earlier object of the same name, or appends the object if
// there is room.
func (c *collector) keep(k kept) {
	i, known := c.index[k.key]
	switch {
	case known:
		c.objects[i] = k
	case len(c.objects) < c.limit:
		c.index[k.key] = len(c.objects)
		c.objects = append(c.objects, k)
	default:
		c.overflow(inventory.Source{File: k.file, Line: k.line})
	}
}

// overflow reports, once, that there is no room for an object. Its file is not
// complete then.
func (c *collector) overflow(at inventory.Source) {
	c.failed = true
	if !c.full {
		c.full = true
		c.errors = append(c.errors, inventory.Error{Source: at, Message: fmt.Sprintf("more than %d objects: this and what follows is not read", c.limit)})
	}
}

// contents describe what was read from an input.
type contents struct {
	objects, skipped int
	// kinds are those of which an object was read.
	kinds map[string]bool
	// removed are the objects in versions that Kubernetes 1.22 removed.
	removed []string
}

// contents returns those of each input.
func (c *collector) contents(inputs int) []contents {
	out := make([]contents, inputs)
	for i := range out {
		out[i] = contents{skipped: c.skipped[i], kinds: map[string]bool{}}
	}
	for _, k := range c.objects {
		out[k.input].objects++
		if k.removed {
			out[k.input].removed = append(out[k.input].removed, k.key.Kind+"/"+k.key.Name)
		}
		if s, isServer := k.value.(server); !isServer || s.known() {
			out[k.input].kinds[k.key.Kind] = true
		}
	}
	return out
}

// allErrors returns the errors, and how many more there are.
func (c *collector) allErrors() []inventory.Error {
	if c.dropped == 0 {
		return c.errors
	}
	return append(c.errors, inventory.Error{Message: fmt.Sprintf("and %d more errors", c.dropped)})
}
