package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// maxDepth is how deep a JSON document may be nested.
const maxDepth = 1000

// parseJSON reads one JSON value. YAML's parser would do for most of it, but
// not for tabs, surrogate pairs and long keys; and encoding/json knows no
// lines.
func parseJSON(data []byte) (node, *problem) {
	r := jsonReader{text: string(data), line: 1}
	n := r.value(0)
	if r.space(); r.problem == nil && (r.bad || r.at < len(r.text)) {
		r.problem = jsonProblem(data)
	}
	if r.problem != nil {
		return node{}, r.problem
	}
	return n, nil
}

// jsonReader makes nodes of JSON, and counts lines.
type jsonReader struct {
	text string
	at   int
	line int
	// bad says that the text is not JSON. Why is found out only then, by
	// encoding/json.
	bad bool
	// problem is something that JSON allows and an object does not.
	problem *problem
}

func (r *jsonReader) space() {
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\n':
			r.line++
		case ' ', '\t', '\r':
		default:
			return
		}
	}
}

// take reports whether the next character is c, and takes it then.
func (r *jsonReader) take(c byte) bool {
	r.space()
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *jsonReader) value(depth int) node {
	r.space()
	line := r.line
	if depth > maxDepth {
		r.problem = problemf(line, "nested deeper than %d", maxDepth)
	}
	switch {
	case r.bad || r.problem != nil:
		return node{}
	case r.take('{'):
		return r.object(line, depth)
	case r.take('['):
		return node{kind: sequence, line: line, items: r.list(depth)}
	case r.take('"'):
		return node{line: line, text: r.str()}
	}
	return node{line: line, text: r.word(), plain: true}
}

func (r *jsonReader) object(line, depth int) node {
	var items []node
	if r.take('}') {
		return node{kind: mapping, line: line}
	}
	for !r.bad && r.problem == nil {
		r.space()
		keyLine := r.line
		r.bad = r.bad || !r.take('"')
		items = append(items, node{line: keyLine, text: r.str()})
		r.bad = r.bad || !r.take(':')
		items = append(items, r.value(depth+1))
		if !r.take(',') {
			break
		}
	}
	if r.bad = r.bad || !r.take('}'); r.bad || r.problem != nil {
		return node{}
	}
	n, p := newMapping(line, items)
	r.problem = p
	return n
}

func (r *jsonReader) list(depth int) []node {
	var items []node
	if r.take(']') {
		return nil
	}
	for !r.bad && r.problem == nil {
		items = append(items, r.value(depth+1))
		if !r.take(',') {
			break
		}
	}
	r.bad = r.bad || !r.take(']')
	return items
}

// str reads a string of which the quote was taken.
func (r *jsonReader) str() string {
	start, escaped := r.at, false
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.unescape(start, escaped)
		case c == '\\':
			escaped = true
			r.at++
		case c < ' ':
			r.bad = true
		}
	}
	r.bad = true
	return ""
}

func (r *jsonReader) unescape(start int, escaped bool) string {
	if !escaped {
		return r.text[start : r.at-1]
	}
	var s string
	if err := json.Unmarshal([]byte(r.text[start-1:r.at]), &s); err != nil {
		r.bad = true
	}
	return s
}

// words are what a value that is no string begins and ends with.
const words = "+-.0123456789Eaeflnrstu"

// word reads a number, true, false or null.
func (r *jsonReader) word() string {
	start := r.at
	for r.at < len(r.text) && strings.IndexByte(words, r.text[r.at]) >= 0 {
		r.at++
	}
	word := r.text[start:r.at]
	r.bad = r.bad || !json.Valid([]byte(word))
	return word
}

// jsonProblem says where and why the data is not JSON.
func jsonProblem(data []byte) *problem {
	end := len(data)
	var whole json.RawMessage
	err := json.Unmarshal(data, &whole)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		end = min(end, int(syntax.Offset))
	}
	before := bytes.TrimRight(data[:end], "\r\n")
	line := 1 + bytes.Count(before, []byte("\n"))
	if len(bytes.TrimSpace(data[len(before):])) == 0 {
		return problemf(line, "the JSON ends in the middle of a value: the file is truncated")
	}
	return problemf(line, "not JSON: %v", err)
}

// appendJSON writes a node as JSON, for the few types of the API that read
// nothing else.
func appendJSON(b []byte, n *node) []byte {
	switch n.kind {
	case mapping:
		return appendObject(b, n)
	case sequence:
		b = append(b, '[')
		for i := range n.items {
			b = appendJSON(comma(b, i), &n.items[i])
		}
		return append(b, ']')
	}
	return appendScalar(b, n)
}

func appendObject(b []byte, n *node) []byte {
	b = append(b, '{')
	for i := 0; i < len(n.items); i += 2 {
		b = append(appendString(comma(b, i), n.items[i].text), ':')
		b = appendJSON(b, &n.items[i+1])
	}
	return append(b, '}')
}

func comma(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}

func appendScalar(b []byte, n *node) []byte {
	if n.plain {
		switch resolve(n.text) {
		case null:
			return append(b, "null"...)
		case boolean:
			return strconv.AppendBool(b, truth(n.text))
		case integer:
			if i, ok := parseWhole(n.text); ok {
				return strconv.AppendInt(b, i, 10)
			}
		case float:
			if f, err := strconv.ParseFloat(n.text, 64); err == nil && json.Valid([]byte(n.text)) {
				return strconv.AppendFloat(b, f, 'g', -1, 64)
			}
		}
	}
	return appendString(b, n.text)
}

func appendString(b []byte, s string) []byte {
	// Strings always marshal.
	quoted, _ := json.Marshal(s)
	return append(b, quoted...)
}
