package manifest

import "strings"

// parseBlock reads the YAML that machines write, and most of what people do:
// mappings and sequences in block style, in flow style on one line, scalars on
// one line, literals, ASCII.
// It reports false for anything else, valid or not; that is up to parseYAML,
// which takes several times as long. Where it reports true, both agree to the
// line: FuzzParseBlock holds it to that.
func parseBlock(data []byte) (node, bool) {
	if !simpleBytes(data) {
		return node{}, false
	}
	b := block{text: string(data)}
	b.next()
	n, ok := b.value(0)
	return n, ok && b.done
}

// simpleBytes reports whether the data is printable ASCII in lines.
func simpleBytes(data []byte) bool {
	for i, c := range data {
		switch {
		case c >= ' ' && c < 0x7f, c == '\n':
		case c == '\r' && i+1 < len(data) && data[i+1] == '\n':
		default:
			return false
		}
	}
	return len(data) > 0 && data[len(data)-1] == '\n'
}

// block reads a document line by line.
type block struct {
	text string
	// rest is where the line after the current one begins.
	rest int
	// number, indent and content are those of the current line; the dashes of
	// a sequence are taken off its content as they are read.
	number  int
	indent  int
	content string
	done    bool
}

// next goes to the next line that is neither blank nor a comment.
func (b *block) next() {
	for b.rest < len(b.text) {
		b.line()
		if b.content != "" && b.content[0] != '#' {
			return
		}
	}
	b.done, b.content = true, ""
}

// line goes to the next line, whatever it is.
func (b *block) line() {
	line, _, column := b.raw()
	b.indent, b.content = column, strings.TrimRight(line[column:], " ")
	b.rest += strings.IndexByte(b.text[b.rest:], '\n') + 1
	b.number++
}

// maxBlockDepth is deeper than any object of Kubernetes.
const maxBlockDepth = 100

// value reads the mapping or sequence that begins on the current line.
func (b *block) value(depth int) (node, bool) {
	switch {
	case b.done || depth > maxBlockDepth:
		return node{}, false
	case b.dashed():
		return b.sequence(depth)
	}
	return b.mapping(depth)
}

func (b *block) dashed() bool {
	return !b.done && b.content[0] == '-' && (len(b.content) == 1 || b.content[1] == ' ')
}

func (b *block) mapping(depth int) (node, bool) {
	indent, line := b.indent, b.number
	items := make([]node, 0, 8)
	for !b.done && b.indent == indent && !b.dashed() {
		key, rest, ok := cutKey(b.content)
		if !ok {
			return node{}, false
		}
		items = append(items, node{line: b.number, text: key, plain: true})
		value, ok := b.entry(rest, indent, depth)
		if !ok {
			return node{}, false
		}
		items = append(items, value)
	}
	if !b.done && b.indent > indent || len(items) == 0 {
		return node{}, false
	}
	n, p := newMapping(line, items)
	return n, p == nil
}

// maxKey is less than what YAML takes for a key on one line.
const maxKey = 512

// cutKey splits "key: value" or "key:".
func cutKey(content string) (key, rest string, ok bool) {
	end := strings.Index(content, ": ")
	if end < 0 {
		end = len(content) - 1
	}
	key = content[:end]
	if content[end] != ':' || len(key) > maxKey || !plainScalar(key) || key == mergeKey {
		return "", "", false
	}
	return key, strings.TrimLeft(content[end+1:], " "), true
}

// entry reads the value of a key whose line is at the indentation.
func (b *block) entry(rest string, indent, depth int) (node, bool) {
	line := b.number
	switch rest {
	case "|", "|-":
		return b.literal(rest, indent)
	case "":
		b.next()
		if !b.done && (b.indent > indent || b.indent == indent && b.dashed()) {
			return b.value(depth + 1)
		}
		return node{line: line, plain: true}, true
	}
	return b.scalar(rest, indent)
}

func (b *block) sequence(depth int) (node, bool) {
	n := node{kind: sequence, line: b.number}
	indent := b.indent
	for b.indent == indent && b.dashed() {
		item, ok := b.item(indent, depth)
		if !ok {
			return node{}, false
		}
		n.items = append(n.items, item)
	}
	return n, b.done || b.indent <= indent
}

// item reads what follows a dash.
func (b *block) item(indent, depth int) (node, bool) {
	rest := strings.TrimLeft(b.content[1:], " ")
	if rest == "" {
		line := b.number
		b.next()
		if !b.done && b.indent > indent {
			return b.value(depth + 1)
		}
		return node{line: line, plain: true}, true
	}
	b.indent += len(b.content) - len(rest)
	b.content = rest
	if _, _, keyed := cutKey(rest); keyed || b.dashed() {
		return b.value(depth + 1)
	}
	return b.scalar(rest, indent)
}

// scalar reads a scalar or a collection on one line. What is indented deeper
// below it would be its continuation.
func (b *block) scalar(text string, indent int) (node, bool) {
	n, ok := scalarOf(text, b.number)
	b.next()
	return n, ok && (b.done || b.indent <= indent)
}

func scalarOf(text string, line int) (node, bool) {
	switch text[0] {
	case '[', '{':
		return flowOf(text, line)
	case '\'', '"':
		return quoted(text, line)
	}
	return node{line: line, text: text, plain: true}, plainScalar(text)
}

// quoted reads a quoted scalar without escapes.
func quoted(text string, line int) (node, bool) {
	inner := text[1:]
	end := strings.IndexByte(inner, text[0])
	if end < 0 || end != len(inner)-1 || text[0] == '"' && strings.IndexByte(inner, '\\') >= 0 {
		return node{}, false
	}
	return node{line: line, text: inner[:end]}, true
}

// plainScalar reports whether the text is a plain scalar and nothing else.
func plainScalar(text string) bool {
	if text == "" || text[len(text)-1] == ':' || text[len(text)-1] == ' ' {
		return false
	}
	if strings.IndexByte("-?:,[]{}#&*!|>'\"%@`", text[0]) >= 0 && (text[0] != '-' || len(text) == 1 || text[1] == ' ' || text[1] == '-') {
		return false
	}
	return !strings.Contains(text, ": ") && !strings.Contains(text, " #") && !strings.HasPrefix(text, "...")
}

// literal reads the lines of a literal scalar, which keeps its line breaks.
func (b *block) literal(style string, indent int) (node, bool) {
	n := node{line: b.number}
	var text strings.Builder
	inner := 0
	for b.rest < len(b.text) {
		raw, blank, column := b.raw()
		if !blank && column <= indent {
			break
		}
		if inner == 0 {
			inner = column
		}
		if inner <= indent || !blank && column < inner || blank && len(raw) > inner || text.Len() == 0 && blank {
			return node{}, false
		}
		text.WriteString(raw[min(inner, len(raw)):])
		text.WriteByte('\n')
		b.line()
	}
	n.text = strings.TrimRight(text.String(), "\n")
	if style == "|" {
		n.text += "\n"
	}
	b.next()
	return n, text.Len() > 0
}

// raw returns the line after the current one as it is, whether there is nothing
// on it, and where its content begins.
func (b *block) raw() (line string, blank bool, column int) {
	end := b.rest + strings.IndexByte(b.text[b.rest:], '\n')
	line = strings.TrimSuffix(b.text[b.rest:end], "\r")
	content := strings.TrimLeft(line, " ")
	return line, content == "", len(line) - len(content)
}
