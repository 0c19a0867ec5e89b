package manifest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxObject is the most that is parsed in one piece. etcd takes 1.5 MiB.
const maxObject = 16 << 20

// maxNested bounds the lists in one another. Tools write no list in a list.
const maxNested = 8

// maxBadBundles bounds the CA bundles of an object that are read as if empty.
const maxBadBundles = 100

// text is a document, or an item of a list.
type text struct {
	file *file
	// line is that of its start in the file.
	line int
	data []byte
	// shown is its outline, empty where that is not known yet.
	shown outline
	// implied is the type of an object that does not state its own.
	implied typeMeta
	// nested counts the lists around it.
	nested int
	// notJSON is why a text that starts as JSON does is none: it may be YAML.
	notJSON *problem
}

func (t text) isJSON() bool { return t.notJSON == nil && isJSON(t.data) }

// item returns an item of a list of the type.
func (t text) item(s span, list typeMeta) text {
	t.data, t.line, t.implied, t.shown = t.data[s.start:s.end], t.line+s.line-1, list.item(), outline{}
	if dash := len(t.data) - len(bytes.TrimLeft(t.data, " ")); t.data[dash] == '-' {
		t.data[dash] = ' ' // without it, an item is a document
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
	if meta := shown.meta(); meta.isSkipped() {
		o.skip(meta, len(shown.items()))
		return o
	}
	e, data, p := shown, t.data, (*problem)(nil)
	switch {
	case len(t.data) > maxObject:
		p = problemf(1, "an object of %d MiB: more than %d are not read in one piece", len(t.data)>>20, maxObject>>20)
	case !t.isJSON():
		data, p = toJSON(t.data)
		if meta := shown.meta(); meta.apiVersion == "" || meta.kind == "" || meta.isList() {
			e = jsonOutline(data) // it shows what the lines do not
		}
	}
	switch {
	case p == nil:
		o.value(t, data, e, shown)
	case t.file.lenient && !bytes.Contains(t.data, []byte("apiVersion")):
		o.skipped++
	default:
		p = cmp.Or(t.notJSON, p)
		if bytes.Contains(t.data, []byte("{{")) {
			p.message += ": this looks like a template: render it first, as with helm template"
		}
		o.fail(t, shown.name(t.data), p)
	}
	if o.badBundle {
		return t.withoutBundles(o, shown)
	}
	return o
}

// value reads JSON and its outline: an object or the items of a list. The webhooks
// are where the text shows them; converted YAML has one line.
func (o *outcome) value(t text, data []byte, e, shown outline) {
	meta := cmp.Or(e.meta(), t.implied)
	switch {
	case data[0] != '{':
		if string(data) != "null" {
			o.skipped++
		}
	case e.isList(meta) && t.nested >= maxNested:
		o.fail(t, meta.kind, problemf(1, "more than %d lists in one another: write the items into one", maxNested))
	case e.isList(meta):
		t.nested++
		for i, item := range o.listStart(t, meta, e) {
			data, part, lines := data[item.start:item.end], t, outline{}
			part.line, part.implied = t.line+item.line-1, meta.item()
			if len(shown.elements) == len(e.elements) && !t.isJSON() {
				part = t.item(shown.elements[i], meta)
				lines = blockOutline(part.data)
			}
			o.value(part, data, jsonOutline(data), lines)
		}
	case meta == (typeMeta{}) && e.isVersion():
		o.objects = append(o.objects, object{key: inventory.SourceKey{Kind: "Version"}, line: t.line, value: readVersion(data)})
	case len(shown.elements) == len(e.elements):
		o.object(t, data, meta, shown.elements)
	default:
		o.object(t, data, meta, e.elements)
	}
}

// listStart notes what the list itself says. It returns the items to read.
func (o *outcome) listStart(t text, meta typeMeta, e outline) []span {
	o.listed = true
	if meta.apiVersion != "" && meta.kind == "" { // its kind comes after its items
		o.fail(t, "", problemf(1, "a list without a kind: the file is truncated"))
	}
	if meta.isSkipped() {
		o.skip(meta, len(e.elements))
		return nil
	}
	return e.elements
}

// caBundle matches the text of a CA bundle, in YAML or JSON.
var caBundle = regexp.MustCompile(`caBundle"?:[ \t]*("[^"]*"|'[^']*'|[^\s,]+)`)

// withoutBundles reads the object again without the CA bundles that are not
// base64: the rest of a webhook can be audited without.
func (t text) withoutBundles(o outcome, shown outline) outcome {
	var bad []*problem
	for _, m := range slices.Backward(caBundle.FindAllSubmatchIndex(t.data, -1)) {
		value := strings.Trim(string(t.data[m[2]:m[3]]), `"'`)
		if _, err := base64.StdEncoding.DecodeString(value); err != nil {
			if len(bad) == maxBadBundles {
				return o
			}
			bad = append(bad, problemf(1+bytes.Count(t.data[:m[2]], []byte("\n")), "caBundle: not base64: %v", err))
			t.data = slices.Concat(t.data[:m[2]], []byte(`""`), t.data[m[3]:])
		}
	}
	if len(bad) == 0 {
		return o
	}
	t.shown = outline{}
	o = t.read()
	for _, p := range slices.Backward(bad) {
		name := shown.name(t.data)
		if len(o.objects) == 1 {
			read := o.objects[0]
			name = join(read.key.Kind, read.key.Name)
			p.message += read.hookAt(t.line + p.line - 1)
		}
		o.fail(t, name, p)
	}
	return o
}

// hookAt names the webhook of a configuration on the line, for a message.
func (o object) hookAt(line int) string {
	name := ""
	for _, h := range o.hooks {
		if h.line <= line {
			name = " (webhook " + h.name + ")"
		}
	}
	return name
}
