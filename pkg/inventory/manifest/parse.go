package manifest

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxObject is the most that is parsed in one piece. etcd takes 1.5 MiB.
const maxObject = 16 << 20

// text is a piece of a document that is read by itself: all of it, or an item
// of a list.
type text struct {
	place
	// input is which of the paths the text comes from.
	input int
	data  []byte
	json  bool
	// item says that the data is an element of a list.
	item bool
	// implied is the type of an object that does not say its own.
	implied typeMeta
	// lenient says that what is no object of Kubernetes need not be valid YAML:
	// a directory holds other files too.
	lenient bool
}

// read makes objects of the text.
func (t text) read() outcome {
	o := outcome{file: t.file, input: t.input}
	meta, peeked := t.peek()
	if peeked && t.unread(meta) {
		o.skip(meta)
		return o
	}
	n, p := t.parse()
	switch {
	case p != nil && t.lenient && !bytes.Contains(t.data, []byte("apiVersion")):
		o.skipped++
	case p != nil:
		o.broken = true
		o.fail(t.place, t.name(meta), hint(p, t.data))
	default:
		o.node(&n, t.place, t.implied)
	}
	return o
}

func (t text) peek() (typeMeta, bool) {
	if t.json {
		return peekJSON(t.data)
	}
	return peek(t.data)
}

// unread reports whether objects of the type are skipped without a look.
func (t text) unread(meta typeMeta) bool {
	if meta.list() {
		meta = meta.item()
	}
	_, known := meta.reading()
	return !known && meta.kind != ""
}

// name names the object for an error: "Kind/name", as far as it can be told.
func (t text) name(meta typeMeta) string {
	if meta.kind == "" {
		return ""
	}
	if name := peekName(t.data); name != "" {
		return meta.kind + "/" + name
	}
	return meta.kind
}

func (t text) parse() (node, *problem) {
	if len(t.data) > maxObject {
		return node{}, problemf(1, "an object of %d MiB: more than %d are not read in one piece", len(t.data)>>20, maxObject>>20)
	}
	if p := notUTF8(t.data); p != nil {
		return node{}, p
	}
	if t.json {
		n, p := parseJSON(t.data)
		if p == nil || json.Valid(t.data) {
			return n, p
		}
		// YAML's flow style may look like JSON.
		if n, yamlProblem := parseYAML(t.data); yamlProblem == nil {
			return n, nil
		}
		return node{}, p
	}
	n, ok := parseBlock(t.data)
	if !ok {
		var p *problem
		if n, p = parseYAML(t.data); p != nil {
			return node{}, p
		}
	}
	if t.item {
		return onlyItem(n)
	}
	return n, nil
}

func onlyItem(n node) (node, *problem) {
	if n.kind != sequence || len(n.items) != 1 {
		return node{}, problemf(1, "not an item of a list")
	}
	return n.items[0], nil
}

// hint adds what to do about a file that is not meant to be YAML yet.
func hint(p *problem, data []byte) *problem {
	if bytes.Contains(data, []byte("{{")) {
		p.message += ": this looks like a template: render it first, as with helm template"
	}
	return p
}

func notUTF8(data []byte) *problem {
	if utf8.Valid(data) {
		return nil
	}
	line := lineOf(data, func(l []byte) bool { return !utf8.Valid(l) })
	return problemf(line, "not UTF-8: convert the file first, as with iconv")
}
