package manifest

import (
	"fmt"
	"strconv"
)

// kind is the shape of a node.
type kind uint8

const (
	scalar kind = iota
	mapping
	sequence
)

// node is one value of a document and the line on which it starts. YAML and
// JSON become nodes alike, so that everything after the parsers is written
// once.
type node struct {
	kind kind
	// plain says that the type of a scalar is up to resolve; all others are
	// strings.
	plain bool
	line  int
	text  string
	// items are the elements of a sequence, or the keys and values of a
	// mapping in turn.
	items []node
}

// get returns the value of a key of a mapping, or nil.
func (n *node) get(key string) *node {
	if n == nil || n.kind != mapping {
		return nil
	}
	for i := 0; i < len(n.items); i += 2 {
		if n.items[i].text == key {
			return &n.items[i+1]
		}
	}
	return nil
}

// key returns the node of a key itself, or nil.
func (n *node) key(key string) *node {
	for i := 0; n.kind == mapping && i < len(n.items); i += 2 {
		if n.items[i].text == key {
			return &n.items[i]
		}
	}
	return nil
}

// str returns the text of a scalar at the path of keys, or "".
func (n *node) str(path ...string) string {
	for _, key := range path {
		n = n.get(key)
	}
	if n == nil || n.kind != scalar {
		return ""
	}
	return n.text
}

// null reports whether the node is absent in all but name.
func (n *node) null() bool {
	return n.kind == scalar && n.plain && len(n.text) <= len("null") && resolve(n.text) == null
}

// what names the node's type for an error message.
func (n *node) what() string {
	switch n.kind {
	case mapping:
		return "a mapping"
	case sequence:
		return "a list"
	}
	if !n.plain {
		return "a string"
	}
	return resolve(n.text).String()
}

// problem is why a document or a value in it cannot be understood.
type problem struct {
	line int
	// path leads from the object to the value, ".webhooks[0].rules".
	path    string
	message string
}

func (p *problem) Error() string {
	if p.path == "" {
		return p.message
	}
	return p.path[1:] + ": " + p.message
}

// under puts a field's name before the problem's path.
func (p *problem) under(field string) *problem {
	p.path = "." + field + p.path
	return p
}

// of says which webhook of the configuration n the problem is about.
func (p *problem) of(n *node) *problem {
	var i int
	if _, err := fmt.Sscanf(p.path, ".webhooks[%d]", &i); err != nil {
		return p
	}
	if name := n.get("webhooks").items[i].str("name"); name != "" {
		p.message += " (webhook " + name + ")"
	}
	return p
}

// at puts an index before the problem's path.
func (p *problem) at(index int) *problem {
	p.path = "[" + strconv.Itoa(index) + "]" + p.path
	return p
}

func problemf(line int, format string, args ...any) *problem {
	return &problem{line: line, message: fmt.Sprintf(format, args...)}
}

// manyKeys is where a map finds a duplicate faster than comparing all pairs.
const manyKeys = 12

// duplicateKey returns the second of two equal keys of a mapping, or nil.
func duplicateKey(items []node) *node {
	if len(items) > 2*manyKeys {
		return duplicateAmongMany(items)
	}
	for i := 2; i < len(items); i += 2 {
		for j := 0; j < i; j += 2 {
			if items[i].text == items[j].text {
				return &items[i]
			}
		}
	}
	return nil
}

func duplicateAmongMany(items []node) *node {
	seen := make(map[string]bool, len(items)/2)
	for i := 0; i < len(items); i += 2 {
		if seen[items[i].text] {
			return &items[i]
		}
		seen[items[i].text] = true
	}
	return nil
}

// newMapping refuses duplicate keys: which of the two counts would be a guess.
func newMapping(line int, items []node) (node, *problem) {
	for i := 0; i < len(items); i += 2 {
		if p := items[i].makeKey(); p != nil {
			return node{}, p
		}
	}
	if d := duplicateKey(items); d != nil {
		return node{}, problemf(d.line, "the key %q is there twice: remove one", d.text)
	}
	return node{kind: mapping, line: line, items: items}, nil
}

// makeKey writes a key as kubectl turns it into JSON: those that YAML takes for
// booleans and numbers are not what they look like.
func (n *node) makeKey() *problem {
	switch {
	case n.kind != scalar:
		return problemf(n.line, "%s as a key", n.what())
	case !n.plain || n.text == mergeKey:
		return nil
	}
	switch resolve(n.text) {
	case null:
		return problemf(n.line, "null as a key")
	case boolean:
		n.text = strconv.FormatBool(truth(n.text))
	case integer:
		if i, ok := parseWhole(n.text); ok {
			n.text = strconv.FormatInt(i, 10)
		}
	case float:
		if f, err := strconv.ParseFloat(n.text, 64); err == nil {
			n.text = strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
	return nil
}
