package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// problem is why a text or a value in it cannot be read, and on which line.
type problem struct {
	line    int
	message string
}

func problemf(line int, format string, args ...any) *problem {
	return &problem{line: line, message: fmt.Sprintf(format, args...)}
}

// place is where a value stands in a file: on a line, and of YAML with a node that shows
// where its parts are.
type place struct {
	line int
	node *yaml.Node
	// base is the line of the file before the first one of the node's document.
	base int
}

// part is the place of a key or an element; of one that the node does not show, the line
// of what it is in.
func (p place) part(key any) place {
	n := p.node
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch i, isIndex := key.(int); {
	case n == nil:
	case isIndex && n.Kind == yaml.SequenceNode && i < len(n.Content):
		return place{line: p.base + n.Content[i].Line, node: n.Content[i], base: p.base}
	case !isIndex && n.Kind == yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return place{line: p.base + n.Content[i].Line, node: n.Content[i+1], base: p.base}
			}
		}
	}
	return place{line: p.line, base: p.base}
}

func (p place) elements() int {
	if p.node == nil || p.node.Kind != yaml.SequenceNode {
		return 0
	}
	return len(p.node.Content)
}

func (p place) word() string {
	if p.node == nil {
		return ""
	}
	return p.node.Value
}

// showing is the place with the parts of a value of JSON, which is YAML but for rare
// escapes.
func (p place) showing(data []byte) place {
	var document yaml.Node
	if p.node == nil && yaml.Unmarshal(data, &document) == nil && len(document.Content) == 1 {
		return place{line: p.line, node: document.Content[0], base: p.line - 1}
	}
	return p
}

// maxExpanded bounds the values that aliases stand for: a few hundred bytes of
// nested aliases would be billions otherwise.
const maxExpanded = 1 << 20

// toJSON converts one YAML document to JSON as kubectl does. A key that is there
// twice is refused: which of the two counts would be a guess. The node shows its places.
func toJSON(data []byte) ([]byte, *yaml.Node, *problem) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, nil, yamlProblem(err, data)
	}
	if expandedSize(&document, map[*yaml.Node]int{}) > len(data)+maxExpanded {
		return nil, nil, problemf(1, "aliases for more than %d values", maxExpanded)
	}
	convert := sigsyaml.YAMLToJSONStrict
	if bytes.Contains(data, []byte("<<")) { // what overrides a merged key counts there as there twice
		convert = sigsyaml.YAMLToJSON
		if err := document.Decode(new(any)); err != nil {
			return nil, nil, yamlProblem(err, data)
		}
	}
	out, err := convert(data)
	if err != nil {
		return nil, nil, yamlProblem(err, data)
	}
	if len(document.Content) == 0 {
		return out, &document, nil
	}
	return out, document.Content[0], nil
}

// expandedSize returns how many values a node stands for, or a number above
// maxExpanded; a long text counts as several.
func expandedSize(n *yaml.Node, anchors map[*yaml.Node]int) int {
	if n.Kind == yaml.AliasNode {
		return anchors[n.Alias]
	}
	size := 1 + len(n.Value)/64
	for _, child := range n.Content {
		size += expandedSize(child, anchors)
	}
	if n.Anchor != "" {
		anchors[n] = min(size, 1<<32)
	}
	return size
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:unmarshal errors:\s*)?(?:line (\d+): )?(.*)`)

// yamlProblem makes the library's error point into the document. Its parser
// counts lines from 0 where its scanner counts from 1, and some errors have none.
func yamlProblem(err error, data []byte) *problem {
	found := yamlError.FindStringSubmatch(err.Error())
	if found == nil {
		return problemf(1, "not YAML: %v", err)
	}
	line, _ := strconv.Atoi(found[1])
	message := strings.ReplaceAll(found[2], "\n", "; ")
	if strings.HasPrefix(message, "did not find expected") {
		line++
	}
	message, _, _ = strings.Cut(message, ": map[")    // the key itself
	message, _, _ = strings.Cut(message, " at line ") // of the document, not of the file
	switch {
	case strings.HasPrefix(message, "unknown anchor"):
		message += ": an anchor is known in its own document, and in a large list in its own item"
	case strings.Contains(message, "UTF-8 octet"):
		message += ": convert the file to UTF-8 first, as with iconv"
	case strings.Contains(message, "cannot start any token") && bytes.IndexByte(data, '\t') >= 0:
		message += ": indent with spaces, not tabs"
	}
	last := 1 + bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n"))
	return problemf(max(1, min(line, last)), "not YAML: %s", message)
}
