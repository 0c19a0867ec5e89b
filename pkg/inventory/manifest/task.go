package manifest

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

// task is a step of reading: a text to read, something known without reading,
// or the end of a file.
type task struct {
	text
	// known is what is known without reading anything.
	known *outcome
	// whole is the list that the text is an item of.
	whole *text
	// last says that the text is the last item of the whole.
	last bool
	// fileDone says that a file was read to its end.
	fileDone bool
	// claims hold if nothing in the file was unreadable.
	claims []claim
}

func (t task) do() outcome {
	if t.known != nil {
		return *t.known
	}
	return t.text.read()
}

// failure is the task of reporting an error.
func failure(source inventory.Source, message string) task {
	return task{known: &outcome{errors: []inventory.Error{{Source: source, Message: message}}}}
}

// tasks cuts a text into those that are read side by side.
func tasks(t text, emit func(task)) {
	around, spans := items(t)
	if len(spans) == 0 {
		emit(task{text: t})
		return
	}
	outer := t
	outer.data = around
	n, p := outer.parse()
	meta := typeMeta{n.str("apiVersion"), n.str("kind")}
	switch {
	case p != nil && !t.json, p == nil && meta.kind != "" && !meta.list():
		emit(task{text: t})
	case meta.list() && outer.unread(meta):
		emit(task{known: &outcome{input: t.input, skipped: len(spans), openShift: meta.openShift()}})
	default:
		if p = incomplete(n, p); p != nil {
			known := &outcome{}
			known.fail(t.place, "", p)
			emit(task{known: known})
		}
		emitItems(t, meta, spans, emit)
	}
}

// incomplete says whether the end of a list is missing: its kind comes after
// its items.
func incomplete(n node, p *problem) *problem {
	if p == nil && n.str("apiVersion") != "" && n.str("kind") == "" {
		return problemf(n.line, "a list without a kind: the file is truncated")
	}
	return p
}

func emitItems(t text, meta typeMeta, spans []span, emit func(task)) {
	for i, s := range spans {
		item := t
		item.data = t.data[s.start:s.end]
		item.line = t.line + s.line - 1
		item.item = !t.json
		item.implied = meta.item()
		emit(task{text: item, whole: &t, last: i == len(spans)-1})
	}
}
