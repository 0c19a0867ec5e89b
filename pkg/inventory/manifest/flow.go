package manifest

import "strings"

// flow reads a collection in flow style that stands on one line, as people
// write short lists: [CREATE, UPDATE] or {a: b}. Like parseBlock it reports
// false for whatever is unusual.
type flow struct {
	text string
	at   int
	line int
}

// flowOf reads a text that is one collection and nothing else.
func flowOf(text string, line int) (node, bool) {
	f := flow{text: text, line: line}
	n, ok := f.value(0)
	return n, ok && f.at == len(text)
}

// take skips spaces and reports whether the next character is c, and takes it
// then.
func (f *flow) take(c byte) bool {
	f.space()
	if f.at < len(f.text) && f.text[f.at] == c {
		f.at++
		return true
	}
	return false
}

func (f *flow) space() {
	for f.at < len(f.text) && f.text[f.at] == ' ' {
		f.at++
	}
}

func (f *flow) value(depth int) (node, bool) {
	switch {
	case depth > maxBlockDepth:
		return node{}, false
	case f.take('['):
		return f.sequence(depth)
	case f.take('{'):
		return f.mapping(depth)
	}
	return f.scalar()
}

func (f *flow) sequence(depth int) (node, bool) {
	n := node{kind: sequence, line: f.line}
	if f.take(']') {
		return n, true
	}
	for {
		item, ok := f.value(depth + 1)
		if !ok {
			return node{}, false
		}
		n.items = append(n.items, item)
		if f.take(']') {
			return n, true
		}
		if !f.take(',') {
			return node{}, false
		}
	}
}

func (f *flow) mapping(depth int) (node, bool) {
	if f.take('}') {
		return node{kind: mapping, line: f.line}, true
	}
	var items []node
	for {
		key, ok := f.scalar()
		if !ok || len(key.text) > maxKey || key.plain && key.text == mergeKey || !f.colon() {
			return node{}, false
		}
		value, ok := f.value(depth + 1)
		if !ok {
			return node{}, false
		}
		items = append(items, key, value)
		if f.take('}') {
			n, p := newMapping(f.line, items)
			return n, p == nil
		}
		if !f.take(',') {
			return node{}, false
		}
	}
}

// colon takes what ends a key: right after it, and with a space behind.
func (f *flow) colon() bool {
	if !strings.HasPrefix(f.text[f.at:], ": ") {
		return false
	}
	f.at += len(": ")
	return true
}

// scalar reads a plain scalar of letters, digits and a few signs that mean
// nothing to YAML, or a quoted one without escapes.
func (f *flow) scalar() (node, bool) {
	f.space()
	rest := f.text[f.at:]
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		end := strings.IndexByte(rest[1:], rest[0]) + 2
		f.at += end
		if end < 2 {
			return node{}, false
		}
		n, ok := quoted(rest[:end], f.line)
		return n, ok && f.ends()
	}
	end := 0
	for end < len(rest) && inWord(rest[end], end) {
		end++
	}
	f.at += end
	return node{line: f.line, text: rest[:end], plain: true}, end > 0 && f.ends()
}

// ends reports whether a scalar ends here. Two quotes in a row, say, would be
// one in it.
func (f *flow) ends() bool {
	return f.at < len(f.text) && strings.IndexByte(" ,:]}", f.text[f.at]) >= 0
}

// inWord reports whether the character may be part of a plain scalar in flow
// style, at the index.
func inWord(c byte, index int) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '/', c == '.':
		return true
	}
	return index > 0 && (c == '-' || c == '*')
}
