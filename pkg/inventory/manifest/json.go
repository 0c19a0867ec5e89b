package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// maxDepth is how deep a JSON document may be nested.
const maxDepth = 1000

// parseJSON reads one JSON value. YAML's parser would do for most of it, but
// not for tabs, surrogate pairs and long keys.
func parseJSON(data []byte) (node, *problem) {
	r := jsonReader{decoder: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	r.decoder.UseNumber()
	n, p := r.value(0)
	if p != nil {
		return node{}, p
	}
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return node{}, problemf(r.here(), "not JSON: something follows the end of the value")
	}
	return n, nil
}

// jsonReader builds nodes from tokens and counts lines up to each.
type jsonReader struct {
	decoder *json.Decoder
	data    []byte
	counted int
	line    int
}

// here returns the line of the last token read.
func (r *jsonReader) here() int {
	offset := int(r.decoder.InputOffset())
	r.line += bytes.Count(r.data[r.counted:offset], []byte("\n"))
	r.counted = offset
	return r.line
}

func (r *jsonReader) token() (json.Token, *problem) {
	t, err := r.decoder.Token()
	if err == nil {
		return t, nil
	}
	return nil, jsonProblem(r.data, err)
}

// jsonProblem says where the data is not JSON. It reads all of it again, for
// the offsets in the errors of tokens do not count from its start.
func jsonProblem(data []byte, err error) *problem {
	end := len(data)
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(data, &whole), &syntax) {
		end, err = min(end, int(syntax.Offset)), syntax
	}
	before := bytes.TrimRight(data[:end], "\r\n")
	line := 1 + bytes.Count(before, []byte("\n"))
	if len(bytes.TrimSpace(data[len(before):])) == 0 {
		return problemf(line, "the JSON ends in the middle of a value: the file is truncated")
	}
	return problemf(line, "not JSON: %v", err)
}

func (r *jsonReader) value(depth int) (node, *problem) {
	t, p := r.token()
	if p != nil {
		return node{}, p
	}
	line := r.here()
	if depth > maxDepth {
		return node{}, problemf(line, "nested deeper than %d", maxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		return r.collection(t, line, depth)
	case string:
		return node{line: line, text: t}, nil
	case json.Number:
		return node{line: line, text: t.String(), plain: true}, nil
	case bool:
		return node{line: line, text: strconv.FormatBool(t), plain: true}, nil
	}
	return node{line: line, plain: true}, nil
}

func (r *jsonReader) collection(open json.Delim, line, depth int) (node, *problem) {
	var items []node
	for r.decoder.More() {
		n, p := r.value(depth + 1)
		if p != nil {
			return node{}, p
		}
		items = append(items, n)
	}
	if _, p := r.token(); p != nil {
		return node{}, p
	}
	if open == '{' {
		return newMapping(line, items)
	}
	return node{kind: sequence, line: line, items: items}, nil
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
