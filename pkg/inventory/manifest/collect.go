package manifest

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxErrors bounds what is reported of an input that is broken all over.
const maxErrors = 1000

// collector puts outcomes together, in their order.
type collector struct {
	// limit is the most objects that are kept; full says that there were more.
	limit    int
	full     bool
	progress func(files, objects int)
	files    int
	// skipped counts by input what was not read.
	skipped map[int]int

	objects []kept
	// index leads from a key to its place in objects.
	index     map[inventory.SourceKey]int
	errors    []inventory.Error
	dropped   int
	openShift bool

	// failed says that something in the current file could not be read, listed
	// that there was a list in it.
	failed, listed bool
	claims         []claim
	// items are the outcomes of a list of which some are still to come.
	items []outcome
}

// kept is an object and where it was read.
type kept struct {
	object
	file  string
	input int
}

func (c *collector) collect(t task, o outcome) {
	switch {
	case t.fileDone:
		c.fileDone(t.claims)
	case t.whole == nil:
		c.add(o)
	default:
		if c.items = append(c.items, o); t.last {
			c.list(t)
		}
	}
}

func (c *collector) fileDone(claims []claim) {
	c.files++
	if !c.failed && c.listed {
		c.claims = append(c.claims, claims...)
	}
	c.failed, c.listed = false, false
	if c.progress != nil {
		c.progress(c.files, len(c.objects))
	}
}

// list adds the items of a list. One that is broken may have been cut at the
// wrong place: then the whole list is read in one piece. If that fails too,
// the items are as good as it gets.
func (c *collector) list(t task) {
	items := c.items
	c.items, c.listed = nil, true
	for _, item := range items {
		if item.broken && !t.whole.json {
			if whole := t.whole.read(); !whole.broken {
				c.add(whole)
				return
			}
			break
		}
	}
	for _, item := range items {
		c.add(item)
	}
}

func (c *collector) add(o outcome) {
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
}

// keep puts an object in the place of an earlier one of its name, or behind the
// others, if there is room.
func (c *collector) keep(k kept) {
	at, again := c.index[k.key]
	switch {
	case again:
		c.objects[at] = k
	case len(c.objects) < c.limit:
		c.index[k.key] = len(c.objects)
		c.objects = append(c.objects, k)
	default:
		c.overflow(inventory.Source{File: k.file, Line: k.line})
	}
}

// overflow says, once, that there is no room for an object. Its file holds no
// longer all that there is.
func (c *collector) overflow(at inventory.Source) {
	c.failed = true
	if !c.full {
		c.full = true
		c.errors = append(c.errors, inventory.Error{Source: at, Message: fmt.Sprintf("more than %d objects: this and what follows is not looked at", c.limit)})
	}
}

// contents are what was read from an input.
type contents struct {
	objects, skipped int
	// kinds are those that told anything.
	kinds map[string]bool
	// removed names the objects in versions that no server takes any more.
	removed []string
}

// contents returns those of each of the inputs.
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

// allErrors are the errors, and how many more there were.
func (c *collector) allErrors() []inventory.Error {
	if c.dropped == 0 {
		return c.errors
	}
	return append(c.errors, inventory.Error{Message: fmt.Sprintf("and %d more errors", c.dropped)})
}
