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

// word is the text of a JSON string, "" for any other value.
type word string

func (w *word) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(w))
	}
	return nil
}

// jsonScanner reads the outlines of JSON objects that follow one another.
type jsonScanner struct {
	data    []byte
	decoder *json.Decoder
	// line is that of the offset counted.
	counted, line int
}

func newJSONScanner(data []byte) *jsonScanner {
	return &jsonScanner{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1}
}

// next returns where the next value starts.
func (s *jsonScanner) next() span {
	read := int(s.decoder.InputOffset())
	start := len(s.data) - len(bytes.TrimLeft(s.data[read:], " \t\r\n:,"))
	s.line += bytes.Count(s.data[s.counted:start], []byte("\n"))
	s.counted = start
	return span{start: start, line: s.line}
}

// object reads the outline of the next object.
func (s *jsonScanner) object() (outline, error) {
	o := outline{span: s.next(), words: map[string]string{}}
	open, err := s.decoder.Token()
	if err == nil && open != json.Delim('{') {
		err = errors.New("not an object")
	}
	for err == nil && s.decoder.More() {
		err = s.member(&o)
	}
	if err == nil {
		_, err = s.decoder.Token()
	}
	o.end = int(s.decoder.InputOffset())
	for i := range o.elements { // which count from the object
		e := &o.elements[i]
		*e = span{e.start - o.start, e.end - o.start, e.line - o.line + 1}
	}
	return o, err
}

func (s *jsonScanner) member(o *outline) error {
	token, err := s.decoder.Token()
	if err != nil {
		return err
	}
	key := token.(string) // the decoder takes nothing else for a key
	if at := s.next().start; !isListKey(key) || !bytes.HasPrefix(s.data[at:], []byte("[")) {
		var value word
		err := s.decoder.Decode(&value)
		o.words[key] = string(value)
		return err
	}
	o.list = key
	for _, err = s.decoder.Token(); err == nil && s.decoder.More(); {
		element := s.next()
		err = s.decoder.Decode(new(word))
		element.end = int(s.decoder.InputOffset())
		if err == nil {
			o.elements = append(o.elements, element)
		}
	}
	if err == nil {
		_, err = s.decoder.Token()
	}
	return err
}

// jsonOutline returns the outline of an object, as far as it is valid JSON.
func jsonOutline(data []byte) outline {
	o, _ := newJSONScanner(data).object()
	return o
}

// problem says where and why the scanner could not read an object.
func (s *jsonScanner) problem(o outline, err error) *problem {
	line := s.next().line
	switch {
	case o.start > 0 && s.data[o.start] != '{':
		return problemf(line, "something follows the JSON object: must be another object, or set apart by a line ---")
	case !bytes.HasSuffix(bytes.TrimSpace(s.data), []byte("}")):
		return problemf(line, "the JSON ends in the middle of a value: the file is truncated")
	}
	return problemf(line, "not JSON: %v", err)
}
