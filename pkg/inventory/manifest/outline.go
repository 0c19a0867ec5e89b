package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// outline is what the text of an object shows before it is decoded: its type, and
// where the items of a list or the webhooks of a configuration are.
type outline struct {
	span
	// words are the values of the outermost keys: "" for one that is not a word.
	words map[string]string
	// list is the key of the list that the elements are of: items or webhooks.
	list     string
	elements []span
}

// span is a part of a text. line counts from the first line of the text, 1.
type span struct{ start, end, line int }

func (o outline) meta() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.words["apiVersion"], o.words["kind"])
}

// isList reports whether an object of the type is a list.
func (o outline) isList(meta schema.GroupVersionKind) bool {
	return o.list == "items" && (isList(meta) || meta.Kind == "")
}

// isVersion reports whether the object has the version of the API server.
func (o outline) isVersion() bool {
	_, isServer := o.words["gitVersion"]
	_, isClient := o.words["serverVersion"]
	return isServer || isClient
}

// items are the elements of a list.
func (o outline) items() []span {
	if o.list == "items" {
		return o.elements
	}
	return nil
}

// name names an object that cannot be decoded: "Kind/name", "Kind" or "".
func (o outline) name(data []byte) string {
	kind := o.meta().Kind
	_, metadata, found := bytes.Cut(data, []byte("metadata:"))
	if !found || kind == "" {
		return kind
	}
	return join(kind, blockOutline(metadata).words["name"])
}

func isListKey(key string) bool { return key == "items" || key == "webhooks" }

// isJSON reports whether data starts as a JSON object does. One in YAML's flow
// style has no quote after its brace.
func isJSON(data []byte) bool {
	rest, isObject := bytes.CutPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	rest = bytes.TrimLeft(rest, " \t\r")
	return isObject && (len(rest) == 0 || bytes.IndexByte([]byte("\"}\n"), rest[0]) >= 0)
}

// blockOutline reads the outline of YAML in block style from its lines, without
// parsing it. In other styles it finds no words and no elements.
func blockOutline(data []byte) outline {
	o := outline{span: span{end: len(data), line: 1}, words: map[string]string{}}
	base, column, offset, number := -1, -1, 0, 0
	list := ""
	for line := range bytes.Lines(data) {
		number++
		content := bytes.TrimLeft(line, " ")
		indent := len(line) - len(content)
		switch content = bytes.TrimRight(content, " \t\r\n"); {
		case len(content) == 0 || content[0] == '#':
		case list != "" && isDash(content) && (indent == column || column < 0 && indent >= base):
			o.endElement(offset)
			o.list, column = list, indent
			o.elements = append(o.elements, span{start: offset, line: number})
		case indent < base:
			o.endElement(offset)
			return o
		case base < 0 || indent == base:
			o.endElement(offset)
			base, list = indent, o.addWord(content)
		}
		offset += len(line)
	}
	o.endElement(len(data))
	return o
}

func isDash(content []byte) bool {
	return content[0] == '-' && (len(content) == 1 || content[1] == ' ')
}

// endElement ends the last element at the offset, if it has no end yet.
func (o *outline) endElement(offset int) {
	if last := len(o.elements) - 1; last >= 0 && o.elements[last].end == 0 {
		o.elements[last].end = offset
	}
}

// keyLine matches a key, alone or with a plain or quoted word as its value.
var keyLine = regexp.MustCompile(`^"?([A-Za-z]+)"?:(?:[ \t]+(["']?)([-./0-9A-Za-z]+)(["']?))?[ \t]*(?:#.*)?$`)

// addWord adds the word of a line. It returns the key, if a list may follow.
func (o *outline) addWord(line []byte) string {
	m := keyLine.FindSubmatch(line)
	if m == nil {
		return ""
	}
	key, value := string(m[1]), string(m[3])
	if _, twice := o.words[key]; twice || !bytes.Equal(m[2], m[4]) {
		value = ""
	}
	o.words[key] = value
	if !isListKey(key) || value != "" || o.list != "" {
		return ""
	}
	return key
}

// jsonOutline returns the outline of an object of JSON; of anything else it has no words.
func jsonOutline(data []byte) outline {
	o := outline{span: span{end: len(data), line: 1}, words: map[string]string{}}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return o
	}
	for key, value := range members {
		word := ""
		_ = json.Unmarshal(value, &word) // what is no string is no word
		o.words[key] = word
		if isListKey(key) && value[0] == '[' && o.list != "items" {
			o.list, o.elements = key, elementsOf(data, value)
		}
	}
	return o
}

// elementsOf are where the elements of a list stand in the text.
func elementsOf(data []byte, list json.RawMessage) []span {
	var values []json.RawMessage
	_ = json.Unmarshal(list, &values) // it is a list, and was decoded once
	end, line := bytes.Index(data, list)+1, 1
	line += bytes.Count(data[:end], []byte("\n"))
	var out []span
	for _, value := range values {
		start := next(data, end)
		line += bytes.Count(data[end:start], []byte("\n"))
		end = start + len(value)
		out = append(out, span{start: start, end: end, line: line})
		line += bytes.Count(value, []byte("\n"))
	}
	return out
}

// next is where the next value of JSON starts.
func next(data []byte, from int) int {
	return len(data) - len(bytes.TrimLeft(data[from:], " \t\r\n,"))
}

// jsonProblem says where and why the value at an offset is not JSON.
func jsonProblem(data []byte, from int) *problem {
	err := json.Unmarshal(data[from:], &ignored{})
	at := from
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = min(from+int(syntax.Offset), len(data))
	}
	line := 1 + bytes.Count(bytes.TrimRight(data[:at], " \t\r\n"), []byte("\n"))
	switch {
	case from > 0 && data[from] != '{':
		return problemf(line, "something follows the JSON object: must be another object, or set apart by a line ---")
	case !bytes.HasSuffix(bytes.TrimSpace(data), []byte("}")):
		return problemf(line, "the JSON ends in the middle of a value: the file is truncated")
	}
	return problemf(line, "not JSON: %v", err)
}
