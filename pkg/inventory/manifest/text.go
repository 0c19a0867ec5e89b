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
	converted, p := toJSON(t.data)
	if p == nil {
		o.converted(t, converted)
		return nil
	}
	if o.readItems(t) {
		return nil
	}
	return p
}

// converted reads what a text of YAML is in JSON.
func (o *outcome) converted(t text, data []byte) {
	t.data = data
	s := valueAt(data, 0)
	s.line = newLineCounter(data).at(s.start)
	o.value(t, s)
}

func tooLarge(object []byte) *problem {
	return problemf(1, "an object of %d MiB: more than %d are not read in one piece", len(object)>>20, maxObject>>20)
}

// readItems reads the items of a broken list one by one. It reports whether that
// shows what is wrong.
func (o *outcome) readItems(t text) bool {
	l, ok := t.cut()
	if !ok {
		return false
	}
	o.add(l.outcome)
	before := len(o.errors)
	for item := range l.items {
		o.add(item.read())
	}
	return len(o.errors) > before
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
		value := t.data[s.start:s.end]
		e := newEnvelope(value)
		if len(value) > maxObject && !e.list {
			p := tooLarge(value)
			p.line, p.object = s.line, e.meta.kind
			return p
		}
		if json.Valid(value) {
			o.value(t, s)
			continue
		}
		if s.start > 0 && value[0] != '{' {
			return problemf(s.line, "something follows the JSON object: must be another object, or set apart by a line ---")
		}
		// YAML's flow style may look like JSON.
		if converted, p := toJSON(t.data); p == nil {
			o.converted(t, converted)
			return nil
		}
		return o.truncated(t, s)
	}
}

// truncated reads the items of a list that are whole.
func (o *outcome) truncated(t text, s span) *problem {
	value := t.data[s.start:s.end]
	p := jsonProblem(value)
	p.line += s.line - 1
	e := newEnvelope(value)
	if !e.list {
		p.object = join(e.meta.kind, metadataName(value))
		return p
	}
	o.listed = true
	t.implied = e.meta.item()
	for item := range e.items {
		if json.Valid(value[item.start:item.end]) {
			o.value(t, item.in(s))
		}
	}
	return p
}

// value reads a value of valid JSON: an object or the items of a list.
func (o *outcome) value(t text, s span) {
	value := t.data[s.start:s.end]
	if len(value) == 0 || value[0] != '{' {
		if string(value) != "null" {
			o.skipped++
		}
		return
	}
	e := newEnvelope(value)
	if e.meta == (typeMeta{}) {
		e.meta = t.implied
	}
	at := position{t.file, t.line + s.line - 1}
	switch {
	case e.list && (e.meta.isList() || e.meta.kind == ""):
		o.list(t, s, e)
	case e.meta == (typeMeta{}) && e.server:
		o.objects = append(o.objects, object{key: inventory.SourceKey{Kind: "Version"}, line: at.line, value: readVersion(value)})
	default:
		o.object(value, at, e.meta)
	}
}

func (o *outcome) list(t text, s span, e envelope) {
	if !o.listStart(position{t.file, t.line + s.line - 1}, e) {
		return
	}
	t.implied = e.meta.item()
	for item := range e.items {
		o.value(t, item.in(s))
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

// cutList is a list whose items are read by themselves, side by side.
type cutList struct {
	items iter.Seq[text]
	// outcome is what is known without reading the items.
	outcome outcome
}

// cut cuts a list into its items, if the text is one.
func (t text) cut() (cutList, bool) {
	e := t.outline()
	if !e.list || !e.meta.isList() && e.meta.kind != "" {
		return cutList{}, false
	}
	l := cutList{outcome: outcome{file: t.file, input: t.input}, items: func(func(text) bool) {}}
	if !l.outcome.listStart(t.position, e) {
		return l, true
	}
	l.items = func(yield func(text) bool) {
		for s := range e.items {
			// Without a key, it is no object.
			if bytes.IndexByte(t.data[s.start:s.end], ':') >= 0 && !yield(t.item(s, e.meta.item())) {
				return
			}
		}
	}
	return l, true
}

// item returns an item of the list as a text of its own.
func (t text) item(s span, implied typeMeta) text {
	yaml := !isJSON(t.data)
	t.data, t.line, t.implied = t.data[s.start:s.end], t.line+s.line-1, implied
	if yaml {
		// Without its dash, an item is a document.
		t.data[bytes.IndexByte(t.data, '-')] = ' '
	}
	return t
}

// outline returns the type and the items of a list without parsing these.
func (t text) outline() envelope {
	if !isJSON(t.data) {
		e := envelope{meta: blockType(t.data), items: blockItems(t.data)}
		for range e.items {
			e.list = true
			break
		}
		return e
	}
	whole := valueAt(t.data, 0)
	if value := t.data[whole.start:]; json.Valid(value) && whole.start == 0 {
		return newEnvelope(value)
	}
	return envelope{}
}
