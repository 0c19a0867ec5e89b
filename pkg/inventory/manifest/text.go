package manifest

import (
	"bytes"
	"cmp"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxObject is the most that is parsed in one piece. etcd takes 1.5 MiB.
const maxObject = 16 << 20

// maxNested bounds the lists in one another. Tools write no list in a list.
const maxNested = 8

// text is a document, or an item of a list.
type text struct {
	file *file
	// line is that of its start in the file.
	line int
	data []byte
	// shown is its outline, empty where that is not known yet.
	shown outline
	// implied is the type of an object that does not state its own.
	implied schema.GroupVersionKind
	// nested counts the lists around it.
	nested int
	// notJSON is why a text that starts as JSON does is none: it may be YAML.
	notJSON *problem
}

func (t text) isJSON() bool { return t.notJSON == nil && isJSON(t.data) }

// item returns an item of a list of the type; an empty span is one of which no more
// is known than the list's line.
func (t text) item(s span, list schema.GroupVersionKind) text {
	t.data, t.line, t.implied, t.shown = t.data[s.start:s.end], t.line+max(0, s.line-1), itemType(list), outline{}
	if content := bytes.TrimLeft(t.data, " "); bytes.HasPrefix(content, []byte("-")) {
		content[0] = ' ' // without its dash, an item is a document
	}
	return t
}

// outline returns what the text shows before it is parsed.
func (t text) outline() outline {
	switch {
	case t.shown.words != nil:
		return t.shown
	case t.isJSON():
		return jsonOutline(t.data)
	}
	return blockOutline(t.data)
}

// read reads the object that the text is, and a list that could not be cut into
// its items.
func (t text) read() outcome {
	var o outcome
	shown := t.outline()
	if meta := shown.meta(); isSkipped(meta) {
		if p := t.malformed(); p != nil {
			o.fail(t, shown.name(t.data), p)
			return o
		}
		o.skip(meta, len(shown.items()))
		if !isList(meta) {
			o.metadata(t, meta, t.data)
		}
		return o
	}
	data, p := t.data, (*problem)(nil)
	switch {
	case len(t.data) > maxObject:
		p = problemf(1, "an object of %d MiB: more than %d are not read in one piece", len(t.data)>>20, maxObject>>20)
	case !t.isJSON():
		data, p = toJSON(t.data)
	}
	switch {
	case p == nil:
		o.value(t, shown, data)
	case t.file.lenient && !bytes.Contains(t.data, []byte("apiVersion")):
		o.skipped++
	default:
		o.fail(t, shown.name(t.data), t.orTemplate(p))
	}
	return o
}

// malformed is why a document of a kind that is not read does not parse: it would not be
// applied either. What stands in a list, and what a tool collected, was written by a tool.
func (t text) malformed() *problem {
	document := t.file.plain && t.shown.words != nil && !t.isJSON() && len(t.data) <= maxObject
	if !document || t.file.lenient && bytes.Contains(t.data, []byte("{{")) {
		return nil
	}
	var syntax yaml.Node
	if err := yaml.Unmarshal(t.data, &syntax); err != nil {
		return t.orTemplate(yamlProblem(err, t.data))
	}
	return nil
}

// orTemplate says of a text that is not YAML what else it may be.
func (t text) orTemplate(p *problem) *problem {
	p = cmp.Or(t.notJSON, p)
	if bytes.Contains(t.data, []byte("{{")) {
		p.message += ": this looks like a template: render it first, as with helm template"
	}
	return p
}

// value reads JSON: an object or the items of a list. Its text shows on which lines
// they are, as YAML that was converted to JSON has but one.
func (o *outcome) value(t text, shown outline, data []byte) {
	e := shown
	if meta := shown.meta(); !t.isJSON() && (meta.Version == "" || meta.Kind == "" || isList(meta)) {
		e = jsonOutline(data) // it shows what the lines do not
	}
	meta := cmp.Or(e.meta(), t.implied)
	switch {
	case data[0] != '{':
		if string(data) != "null" {
			o.skipped++
		}
	case e.isList(meta) && t.nested >= maxNested:
		o.fail(t, meta.Kind, problemf(1, "more than %d lists in one another: write the items into one", maxNested))
	case e.isList(meta):
		t.nested++
		places := shown.elements
		if len(places) != len(e.elements) {
			places = make([]span, len(e.elements))
		}
		for i, item := range o.listStart(t, meta, e) {
			one := t.item(places[i], meta)
			o.value(one, one.outline(), data[item.start:item.end])
		}
	case meta.Empty() && e.isVersion():
		o.objects = append(o.objects, object{key: inventory.SourceKey{Kind: "Version"}, line: t.line, value: readVersion(data)})
	default:
		o.object(t, data, meta, shown.elements)
	}
}

// listStart notes what the list itself says. It returns the items to read.
func (o *outcome) listStart(t text, meta schema.GroupVersionKind, e outline) []span {
	o.listed = true
	if meta.Version != "" && meta.Kind == "" { // its kind comes after its items
		o.fail(t, "", problemf(1, "a list without a kind: the file is truncated"))
	}
	if isSkipped(meta) {
		o.skip(meta, len(e.elements))
		return nil
	}
	return e.elements
}
