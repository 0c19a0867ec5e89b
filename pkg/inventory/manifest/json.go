package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// problem is why a document or a value in it cannot be read.
type problem struct {
	// line counts from the first line of the text, 1.
	line int
	// path leads from the object to the value, "webhooks[0].rules".
	path    string
	message string
	// object is what cannot be read, where that is known.
	object string
}

// of adds which webhook of a configuration the problem is about.
func (p *problem) of(data []byte) *problem {
	var i int
	if _, err := fmt.Sscanf(p.path, "webhooks[%d]", &i); err != nil {
		return p
	}
	if all := hooks(data); i < len(all) && all[i].name != "" {
		p.message += " (webhook " + all[i].name + ")"
	}
	return p
}

func (p *problem) Error() string {
	if p.path == "" {
		return p.message
	}
	return p.path + ": " + p.message
}

func problemf(line int, format string, args ...any) *problem {
	return &problem{line: line, message: fmt.Sprintf(format, args...)}
}

// encoding/json does not say where in the text a value is. members and elements
// do, for JSON that it, or toJSON, found valid: there, only strings and brackets
// matter.

// members iterates over the keys and values of an object.
func members(object []byte) iter.Seq2[string, span] {
	return func(yield func(string, span) bool) {
		for i := 1; i < len(object); i++ {
			if i += spaces(object[i:]); i == len(object) || object[i] != '"' {
				return
			}
			end := valueEnd(object, i)
			key := object[i:end]
			i = end + spaces(object[end:]) + 1 // the colon
			value := valueAt(object, i)
			i = value.end + spaces(object[value.end:]) // the comma
			if !yield(unquote(key), value) {
				return
			}
		}
	}
}

// elements iterates over the values of a list.
func elements(list []byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		for i := 1; i < len(list); i++ {
			value := valueAt(list, i)
			i = value.end + spaces(list[value.end:]) // the comma
			if value.start == value.end || !yield(value) {
				return
			}
		}
	}
}

// valueAt returns the value that starts at the offset or behind spaces there.
func valueAt(data []byte, at int) span {
	at = min(at, len(data))
	start := at + spaces(data[at:])
	return span{start: start, end: valueEnd(data, start)}
}

func spaces(data []byte) int {
	for i, c := range data {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return i
		}
	}
	return len(data)
}

// valueEnd returns the end of the value that starts at the offset.
func valueEnd(data []byte, start int) int {
	depth := 0
	for i := start; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
			if depth == 0 {
				return min(i+1, len(data))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			} else if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(data)
}

// stringEnd returns the offset of the quote that ends the string.
func stringEnd(data []byte, start int) int {
	for i := start + 1; i < len(data); i++ {
		length := bytes.IndexByte(data[i:], '"')
		if length < 0 {
			break
		}
		escape := bytes.IndexByte(data[i:i+length], '\\')
		if escape < 0 {
			return i + length
		}
		i += escape + 1
	}
	return len(data)
}

// unquote returns the text of a string, "" for any other value.
func unquote(value []byte) string {
	if n := len(value); n > 1 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : n-1])
	}
	var text string
	_ = json.Unmarshal(value, &text) // another value is not a string
	return text
}

// member returns the value of a key of an object, if there is one.
func member(object []byte, key string) []byte {
	for k, value := range members(object) {
		if k == key {
			return object[value.start:value.end]
		}
	}
	return nil
}

// metadataName returns the name of an object that cannot be decoded.
func metadataName(object []byte) string {
	return unquote(member(member(object, "metadata"), "name"))
}

// lineAt returns the line of the offset, counted from 1.
func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }

// lineCounter counts lines up to offsets that do not decrease.
type lineCounter struct {
	data          []byte
	counted, line int
}

func newLineCounter(data []byte) *lineCounter { return &lineCounter{data: data, line: 1} }

func (c *lineCounter) at(offset int) int {
	c.line += bytes.Count(c.data[c.counted:offset], []byte("\n"))
	c.counted = offset
	return c.line
}

// envelope is the outermost level of a JSON object.
type envelope struct {
	meta typeMeta
	// list is set where the object has items, which are in items.
	list  bool
	items iter.Seq[span]
	// server is set where the object has the version of the API server.
	server bool
}

func newEnvelope(object []byte) envelope {
	e := envelope{items: func(func(span) bool) {}}
	for key, value := range members(object) {
		switch text := object[value.start:value.end]; key {
		case "apiVersion":
			e.meta.apiVersion = unquote(text)
		case "kind":
			e.meta.kind = unquote(text)
		case "items":
			if len(text) > 0 && text[0] == '[' {
				e.list = true
				e.items = itemsOf(object, value)
			}
		case "gitVersion", "serverVersion":
			e.server = true
		}
	}
	return e
}

// itemsOf iterates over the elements of a list in the object, with their lines.
func itemsOf(object []byte, list span) iter.Seq[span] {
	return func(yield func(span) bool) {
		lines := newLineCounter(object)
		for item := range elements(object[list.start:list.end]) {
			start := list.start + item.start
			if !yield(span{start: start, end: list.start + item.end, line: lines.at(start)}) {
				return
			}
		}
	}
}

// count returns the number of items, and 1 for an empty list.
func count(items iter.Seq[span]) int {
	n := 0
	for range items {
		n++
	}
	return max(n, 1)
}

// hook is the position of a webhook in its configuration.
type hook struct {
	name string
	line int
}

// hooks returns the webhooks of a configuration with the line of each name, or
// of the entry where that is missing.
func hooks(object []byte) []hook {
	var out []hook
	for key, value := range members(object) {
		if key != "webhooks" {
			continue
		}
		for entry := range itemsOf(object, value) {
			text := object[entry.start:entry.end]
			h := hook{line: entry.line}
			for key, value := range members(text) {
				if key == "name" {
					h = hook{unquote(text[value.start:value.end]), entry.line + bytes.Count(text[:value.start], []byte("\n"))}
				}
			}
			out = append(out, h)
		}
	}
	return out
}

// located is a value in JSON, and the keys and indices that lead to it.
type located struct {
	span
	path string
	// key is its key, if it has one, and keyEnd where that ends.
	key    string
	keyEnd int
}

// maxPath is more than a value in an object of Kubernetes has.
const maxPath = 1 << 9

// walkJSON visits a value and those in it, in their order, until visit returns true.
func walkJSON(data []byte, at located, visit func(located) bool) bool {
	if at.start == at.end || len(at.path) > maxPath || visit(at) {
		return true
	}
	text := data[at.start:at.end]
	switch text[0] {
	case '{':
		for key, value := range members(text) {
			keyEnd := at.start + bytes.LastIndexByte(text[:value.start], '"')
			path := strings.TrimPrefix(at.path+"."+key, ".")
			if walkJSON(data, located{value.in(at.span), path, key, keyEnd}, visit) {
				return true
			}
		}
	case '[':
		i := 0
		for value := range elements(text) {
			if walkJSON(data, located{span: value.in(at.span), path: fmt.Sprintf("%s[%d]", at.path, i)}, visit) {
				return true
			}
			i++
		}
	}
	return false
}

// jsonProblem says where and why data is not one JSON value.
func jsonProblem(data []byte) *problem {
	end := len(data)
	var whole json.RawMessage
	err := json.Unmarshal(data, &whole)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		end = min(end, int(syntax.Offset))
	}
	before := bytes.TrimRight(data[:end], "\r\n")
	line := 1 + bytes.Count(before, []byte("\n"))
	if len(bytes.TrimSpace(data[len(before):])) == 0 {
		return problemf(line, "the JSON ends in the middle of a value: the file is truncated")
	}
	return problemf(line, "not JSON: %v", err)
}
