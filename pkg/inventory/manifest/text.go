package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxObject is the most that is parsed in one piece. etcd takes 1.5 MiB.
const maxObject = 16 << 20

// text is a document, or an item of a list that is read by itself.
type text struct {
	position
	// input is the index of the path that the text comes from.
	input int
	data  []byte
	// implied is the type of an object that does not state its own.
	implied typeMeta
	// lenient is set where something that is no object of Kubernetes need not be
	// valid YAML: a directory holds other files, too.
	lenient bool
}

// read returns the objects of the text.
func (t text) read() outcome {
	o := outcome{file: t.file, input: t.input}
	var p *problem
	if isJSON(t.data) {
		p = o.json(t)
	} else {
		p = o.yaml(t)
	}
	switch {
	case p == nil:
	case t.lenient && !bytes.Contains(t.data, []byte("apiVersion")):
		o = outcome{file: t.file, input: t.input, skipped: 1}
	case bytes.Contains(t.data, []byte("{{")):
		p.message += ": this looks like a template: render it first, as with helm template"
		fallthrough
	default:
		o.fail(t.position, cmp.Or(p.object, blockName(t.data)), p)
	}
	return o
}

// yaml reads a document of YAML. One whose type is not read is not parsed. The
// items of a list that is broken are read one by one.
func (o *outcome) yaml(t text) *problem {
	if meta := blockType(t.data); meta.isSkipped() {
		o.skip(meta, count(blockItems(t.data)))
		return nil
	}
	if len(t.data) > maxObject {
		return tooLarge(t.data)
	}
	p := o.converted(t)
	if p != nil && o.readItems(t) {
		return nil
	}
	return p
}

// converted reads a text of YAML as JSON.
func (o *outcome) converted(t text) *problem {
	data, p := toJSON(t.data)
	if p != nil {
		return p
	}
	t.data = data
	s := valueAt(data, 0)
	s.line = lineAt(data, s.start)
	o.value(t.part(s))
	return nil
}

func tooLarge(object []byte) *problem {
	return problemf(1, "an object of %d MiB: more than %d are not read in one piece", len(object)>>20, maxObject>>20)
}

// json reads the objects of JSON, one after the other.
func (o *outcome) json(t text) *problem {
	lines := newLineCounter(t.data)
	for at := 0; ; {
		s := valueAt(t.data, at)
		if s.start == len(t.data) {
			return nil
		}
		s.line, at = lines.at(s.start), s.end
		value := t.part(s)
		e := newEnvelope(value.data)
		var p *problem
		switch {
		case !e.list && len(value.data) > maxObject:
			p = tooLarge(value.data)
			p.object = e.meta.kind
		case json.Valid(value.data):
			o.value(value)
			continue
		case s.start > 0 && value.data[0] != '{':
			p = problemf(1, "something follows the JSON object: must be another object, or set apart by a line ---")
		case o.converted(t) == nil, o.readItems(value): // YAML's flow style may look like JSON
			return nil
		default:
			p = jsonProblem(value.data)
			p.object = join(e.meta.kind, metadataName(value.data))
		}
		p.line += s.line - 1
		return p
	}
}

// value reads a value of valid JSON: an object or the items of a list.
func (o *outcome) value(t text) {
	if len(t.data) == 0 || t.data[0] != '{' {
		if string(t.data) != "null" {
			o.skipped++
		}
		return
	}
	e := newEnvelope(t.data)
	if e.meta == (typeMeta{}) {
		e.meta = t.implied
	}
	switch {
	case e.list && (e.meta.isList() || e.meta.kind == ""):
		if o.listStart(t.position, e) {
			for item := range e.items {
				o.value(t.item(item, e.meta))
			}
		}
	case e.meta == (typeMeta{}) && e.server:
		o.objects = append(o.objects, object{key: inventory.SourceKey{Kind: "Version"}, line: t.line, value: readVersion(t.data)})
	default:
		o.object(t, e.meta)
	}
}

// listStart notes what the list itself says. It reports whether its items are read.
func (o *outcome) listStart(at position, e envelope) bool {
	o.listed = true
	if e.meta.apiVersion != "" && e.meta.kind == "" { // its kind comes after its items
		o.fail(at, "", problemf(1, "a list without a kind: the file is truncated"))
	}
	if e.meta.isSkipped() {
		o.skip(e.meta, count(e.items))
		return false
	}
	return true
}

// part returns a part of the text.
func (t text) part(s span) text {
	t.data, t.line = t.data[s.start:s.end], t.line+s.line-1
	return t
}

// item returns an item of a list of the type.
func (t text) item(s span, list typeMeta) text {
	t = t.part(s)
	t.implied = list.item()
	return t
}

// readItems reads the items of a broken list one by one. It reports whether that
// shows what is wrong.
func (o *outcome) readItems(t text) bool {
	list, items, ok := t.cut()
	if !ok {
		return false
	}
	if isJSON(t.data) {
		list.errors = nil // its kind may come after what is broken
	}
	o.add(list)
	before := len(o.errors)
	for item := range items {
		o.add(item.read())
	}
	return len(o.errors) > before
}

// cut cuts a list, if the text is one, into its items, which are read by
// themselves. The outcome is what is known without reading them.
func (t text) cut() (outcome, iter.Seq[text], bool) {
	e := t.outline()
	if !e.list || !e.meta.isList() && e.meta.kind != "" {
		return outcome{}, nil, false
	}
	list := outcome{file: t.file, input: t.input}
	read := list.listStart(t.position, e)
	return list, func(yield func(text) bool) {
		for s := range e.items {
			item := t.item(s, e.meta)
			if !isJSON(t.data) {
				// Without its dash, an item is a document.
				item.data[bytes.IndexByte(item.data, '-')] = ' '
			}
			// Without a key, it is no object.
			if !read || bytes.IndexByte(item.data, ':') >= 0 && !yield(item) {
				return
			}
		}
	}, true
}

// outline returns the type and the items of a list without parsing these.
func (t text) outline() envelope {
	if isJSON(t.data) {
		return newEnvelope(t.data)
	}
	e := envelope{meta: blockType(t.data), items: blockItems(t.data)}
	for range e.items {
		e.list = true
		break
	}
	return e
}
