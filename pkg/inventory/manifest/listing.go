package manifest

import "bytes"

// span is where an item of a list stands in a document.
type span struct {
	start, end int
	// line counts from the document's first, which is 1.
	line int
}

// items cuts a list at its items, so that they can be parsed one by one and
// side by side, and returns what is left of the document around them. It looks
// at indentation and braces alone: whoever finds that a piece cannot be parsed
// by itself must parse the whole.
func items(t text) ([]byte, []span) {
	if t.json {
		spans := jsonItems(t.data)
		return envelope(t.data, spans, "0"), spans
	}
	spans := yamlItems(t.data)
	return envelope(t.data, spans, ""), spans
}

// envelope returns the data with a placeholder for each span. It has all lines
// of the data, so that the lines of errors are right.
func envelope(data []byte, spans []span, placeholder string) []byte {
	var out []byte
	end := 0
	for _, s := range spans {
		out = append(out, data[end:s.start]...)
		out = append(out, placeholder...)
		out = append(out, bytes.Repeat([]byte("\n"), bytes.Count(data[s.start:s.end], []byte("\n")))...)
		end = s.end
	}
	return append(out, data[end:]...)
}

// yamlItems finds the items of a list in block style: "items:" in the first
// column, then a dash on the same column for each of them.
func yamlItems(data []byte) []span {
	var spans []span
	listed, column, offset, number := false, -1, 0, 0
	for line := range bytes.Lines(data) {
		indent, content := cutIndent(line)
		number++
		dash := len(content) > 0 && content[0] == '-' && (len(content) == 1 || content[1] == ' ')
		switch {
		case len(content) == 0 || content[0] == '#':
		case !listed:
			listed = indent == 0 && string(bytes.TrimRight(content, " \t")) == "items:"
		case dash && (column < 0 || indent == column):
			column = indent
			spans = closeSpan(spans, offset)
			spans = append(spans, span{start: offset, line: number})
		case indent <= column || column < 0:
			// Only another key of the document ends the list for certain.
			if _, _, key := cutKey(string(content)); !key || indent > 0 {
				return nil
			}
			return closeSpan(spans, offset)
		}
		offset += len(line)
	}
	return closeSpan(spans, len(data))
}

func closeSpan(spans []span, end int) []span {
	if n := len(spans); n > 0 {
		spans[n-1].end = end
	}
	return spans
}

// jsonItems finds the objects in the list "items" of an object.
func jsonItems(data []byte) []span {
	var (
		spans  []span
		last   []byte
		depth  int
		inside bool
	)
	line := 1
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\n':
			line++
		case '"':
			end := i + 1 + stringEnd(data[i+1:])
			if depth == 1 {
				last = data[i+1 : end]
			}
			i = end
		case '{', '[':
			depth++
			inside = inside || depth == 2 && data[i] == '[' && string(last) == "items"
			if inside && depth == 3 && data[i] == '{' {
				spans = append(spans, span{start: i, line: line})
			}
		case '}', ']':
			if n := len(spans); n > 0 && depth == 3 && spans[n-1].end == 0 {
				spans[n-1].end = i + 1
			}
			depth--
			inside = inside && depth > 1
		}
	}
	return complete(spans)
}

// stringEnd returns the length of a JSON string whose quote was just opened.
func stringEnd(data []byte) int {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(data)
}

// complete drops the last item if the data ends in the middle of it.
func complete(spans []span) []span {
	if n := len(spans); n > 0 && spans[n-1].end == 0 {
		return spans[:n-1]
	}
	return spans
}
