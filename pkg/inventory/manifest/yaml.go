package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsyaml "sigs.k8s.io/yaml"
)

// problem is why a text or a value in it cannot be read. Its line counts from the
// first line of the text, 1; field is the one that it is about, if it is known.
type problem struct {
	line    int
	message string
	field   *field.Path
}

func problemf(line int, format string, args ...any) *problem {
	return &problem{line: line, message: fmt.Sprintf(format, args...)}
}

// maxExpanded bounds the values that aliases stand for: a few hundred bytes of
// nested aliases would be billions otherwise.
const maxExpanded = 1 << 20

// toJSON converts one YAML document to JSON as kubectl does. A key that is there
// twice is refused: which of the two counts would be a guess.
func toJSON(data []byte) ([]byte, *problem) {
	if !utf8.Valid(data) {
		return nil, problemf(1, "not UTF-8: convert the file first, as with iconv")
	}
	if hasAliases(data) {
		if p := checkAliases(data); p != nil {
			return nil, p
		}
	}
	convert := sigsyaml.YAMLToJSONStrict
	if bytes.Contains(data, []byte("<<")) { // what overrides a merged key counts as there twice
		convert = sigsyaml.YAMLToJSON
	}
	out, err := convert(data)
	if err != nil {
		return nil, yamlProblem(err, data)
	}
	return out, nil
}

// hasAliases reports whether a document may have an anchor and an alias of it.
func hasAliases(data []byte) bool {
	return bytes.IndexByte(data, '&') >= 0 && bytes.IndexByte(data, '*') >= 0
}

// checkAliases refuses a document that is much larger with its aliases written out.
func checkAliases(data []byte) *problem {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return yamlProblem(err, data)
	}
	if expandedSize(&document, map[*yaml.Node]int{}) > len(data)+maxExpanded {
		return problemf(1, "aliases for more than %d values", maxExpanded)
	}
	return nil
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
	message, _, _ = strings.Cut(message, ": map[") // the key itself
	if strings.HasPrefix(message, "unknown anchor") {
		message += ": an anchor is known in its own document, and in a large list in its own item"
	}
	if strings.Contains(message, "cannot start any token") && bytes.IndexByte(data, '\t') >= 0 {
		message += ": indent with spaces, not tabs"
	}
	last := 1 + bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n"))
	return problemf(max(1, min(line, last)), "not YAML: %s", message)
}
