package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// maxExpanded bounds the values that aliases stand for: a few hundred bytes of
// nested aliases would be billions otherwise.
const maxExpanded = 1 << 20

// toJSON converts one YAML document to JSON as kubectl does. Each value is on
// the line that it has in the document, so that a line of the JSON is one of
// the file. The third version of the library is the one that keeps lines.
func toJSON(data []byte) ([]byte, *problem) {
	short, bundles := cutBundles(data)
	return convertYAML(data, short, bundles)
}

// convertYAML converts data. It parses short, which is data with marks in place
// of CA bundles.
func convertYAML(data, short []byte, bundles bundles) ([]byte, *problem) {
	if !utf8.Valid(data) {
		line := lineOf(data, func(l []byte) bool { return !utf8.Valid(l) })
		return nil, problemf(line, "not UTF-8: convert the file first, as with iconv")
	}
	var document yaml.Node
	// YAML has line breaks that a file has not: a lone carriage return and three of
	// Unicode. No line is behind the last one for them.
	last := bytes.Count(data, []byte("\n")) + 1
	if err := yaml.Unmarshal(short, &document); err != nil {
		p := yamlProblem(err, data)
		p.line = min(p.line, last)
		return nil, p
	}
	bundles.restore(&document)
	if bytes.IndexByte(data, '&') >= 0 {
		a := aliases{last: last, open: map[*yaml.Node]bool{}, sizes: map[*yaml.Node]int{}}
		if _, p := a.size(&document); p != nil {
			return nil, p
		}
	}
	w := jsonWriter{line: 1, last: last, out: make([]byte, 0, len(data))}
	if p := w.value(&document); p != nil {
		return nil, p
	}
	return w.out, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlProblem makes the library's error point at the right line. Its parser
// counts from 0 where its scanner counts from 1, and some errors have no line.
func yamlProblem(err error, data []byte) *problem {
	message := err.Error()
	found := yamlLine.FindStringSubmatch(message)
	if found == nil {
		return problemf(1, "%s", message)
	}
	message = strings.TrimPrefix(message, found[0])
	line, _ := strconv.Atoi(found[1])
	if strings.HasPrefix(message, "did not find expected") {
		line++
	}
	if strings.Contains(message, "tab character") || strings.Contains(message, "cannot start any token") {
		if tab := lineOf(data, tabIndented); tab > 0 {
			return problemf(tab, "not YAML: a tab in the indentation: use spaces")
		}
	}
	switch alias, unknown := strings.CutPrefix(message, "unknown anchor '"); {
	case unknown:
		alias, _, _ = strings.Cut(alias, "'")
		line = lineOf(data, func(l []byte) bool { return bytes.Contains(l, []byte("*"+alias)) })
	case strings.HasPrefix(message, "control characters"):
		line = lineOf(data, func(l []byte) bool { return bytes.ContainsFunc(l, isControl) })
	}
	return problemf(max(line, 1), "not YAML: %s", message)
}

func tabIndented(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")) && len(bytes.TrimSpace(line)) > 0
}

func isControl(r rune) bool {
	return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' && r != '\u0085'
}

// lineOf returns the number of the first line that matches, or 0.
func lineOf(data []byte, matches func([]byte) bool) int {
	number := 0
	for line := range bytes.Lines(data) {
		if number++; matches(line) {
			return number
		}
	}
	return 0
}

// aliases checks that a document stays small with its aliases written out.
type aliases struct {
	// last is the last line of the document.
	last int
	// open are the anchors around the current value, sizes those of anchors.
	open  map[*yaml.Node]bool
	sizes map[*yaml.Node]int
	// expanded is the size of what aliases stand for.
	expanded int
}

// size returns the number of values that a node stands for; a long text counts
// as several.
func (a *aliases) size(n *yaml.Node) (int, *problem) {
	if n.Kind == yaml.AliasNode {
		size := a.sizes[n.Alias]
		a.expanded += size
		switch {
		case a.open[n.Alias]:
			return 0, problemf(min(n.Line, a.last), "the alias *%s stands inside its own anchor", n.Value)
		case a.expanded > maxExpanded:
			return 0, problemf(min(n.Line, a.last), "aliases for more than %d values", maxExpanded)
		}
		return size, nil
	}
	if n.Anchor != "" {
		a.open[n] = true
	}
	size := 1 + len(n.Value)/64
	for _, child := range n.Content {
		s, p := a.size(child)
		if p != nil {
			return 0, p
		}
		size += s
	}
	delete(a.open, n)
	if n.Anchor != "" {
		a.sizes[n] = size
	}
	return size, nil
}

// jsonWriter writes YAML nodes as JSON, with aliases and merge keys resolved.
type jsonWriter struct {
	out []byte
	// line is the current line of out, last is the last one of the document.
	line, last int
	// aliases counts those that are being written.
	aliases int
}

func (w *jsonWriter) value(n *yaml.Node) *problem {
	w.moveTo(n)
	switch n.Kind {
	case yaml.DocumentNode:
		return w.value(n.Content[0])
	case yaml.AliasNode:
		w.aliases++
		defer func() { w.aliases-- }()
		return w.value(n.Alias)
	case yaml.SequenceNode:
		return w.sequence(n)
	case yaml.MappingNode:
		return w.mapping(n)
	case yaml.ScalarNode:
		w.out = appendScalar(w.out, n)
	default: // an empty document
		w.out = append(w.out, "null"...)
	}
	return nil
}

// moveTo starts lines up to the one of the node. Within aliases there are none
// to start: their values have the line of the alias.
func (w *jsonWriter) moveTo(n *yaml.Node) {
	for line := min(n.Line, w.last); w.line < line && w.aliases == 0; w.line++ {
		w.out = append(w.out, '\n')
	}
}

func (w *jsonWriter) sequence(n *yaml.Node) *problem {
	w.out = append(w.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if p := w.value(item); p != nil {
			return p
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *jsonWriter) mapping(n *yaml.Node) *problem {
	content, p := w.merged(n)
	if p != nil {
		return p
	}
	w.out = append(w.out, '{')
	for i := 0; i < len(content); i += 2 {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if p := w.key(content[i]); p != nil {
			return p
		}
		w.out = append(w.out, ':')
		if p := w.value(content[i+1]); p != nil {
			return p
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// key writes a key as kubectl does: those that YAML takes for booleans and
// numbers are not what they look like.
func (w *jsonWriter) key(n *yaml.Node) *problem {
	w.moveTo(n)
	n = resolve(n)
	switch {
	case n.Kind == yaml.MappingNode:
		return problemf(w.line, "a mapping as a key")
	case n.Kind == yaml.SequenceNode:
		return problemf(w.line, "a list as a key")
	case !isTyped(n):
		w.out = appendString(w.out, n.Value)
		return nil
	}
	object, err := sigsyaml.YAMLToJSON([]byte(n.Value + ": 0"))
	key, _, found := strings.Cut(string(object), ":0}")
	if err != nil || !found {
		return problemf(w.line, "%s as a key", cmp.Or(n.Value, "null"))
	}
	w.out = append(w.out, strings.TrimPrefix(key, "{")...)
	return nil
}

// merged returns the keys and values of a mapping with the key << of YAML 1.1
// resolved: the keys of the mappings it names are added where they are missing.
func (w *jsonWriter) merged(n *yaml.Node) ([]*yaml.Node, *problem) {
	at := mergeKey(n.Content)
	if at < 0 {
		return n.Content, nil
	}
	content := append(append([]*yaml.Node{}, n.Content[:at]...), n.Content[at+2:]...)
	present := map[string]bool{}
	for i := 0; i < len(content); i += 2 {
		present[content[i].Value] = true
	}
	sources := []*yaml.Node{n.Content[at+1]}
	if resolve(sources[0]).Kind == yaml.SequenceNode {
		sources = resolve(sources[0]).Content
	}
	for _, source := range sources {
		if resolve(source).Kind != yaml.MappingNode {
			return nil, problemf(min(source.Line, w.last), "<< must be a mapping, or a list of them")
		}
		added, p := w.merged(resolve(source))
		if p != nil {
			return nil, p
		}
		for i := 0; i < len(added); i += 2 {
			if !present[added[i].Value] {
				present[added[i].Value] = true
				content = append(content, added[i], added[i+1])
			}
		}
	}
	return content, nil
}

// resolve returns the node that an alias stands for, else the node itself.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func mergeKey(content []*yaml.Node) int {
	for i := 0; i < len(content); i += 2 {
		if content[i].Value == "<<" && content[i].Tag == "!!merge" {
			return i
		}
	}
	return -1
}

// appendScalar writes a scalar as kubectl does: by the rules of YAML 1.1, where
// yes and on are booleans and 0777 is octal, which are those of sigs.k8s.io/yaml.
// What JSON writes in the same way stays as it is: an error then quotes 1.20.
func appendScalar(out []byte, n *yaml.Node) []byte {
	switch {
	case !isTyped(n):
		return appendString(out, n.Value)
	case json.Valid([]byte(n.Value)):
		return append(out, n.Value...)
	}
	converted, err := sigsyaml.YAMLToJSON([]byte(n.Value))
	if err != nil {
		return appendString(out, n.Value)
	}
	return append(out, bytes.TrimSpace(converted)...)
}

// isTyped reports whether a scalar may be something else than a string. The third
// version of the library takes nothing for a string that the second does not, but
// some words.
func isTyped(n *yaml.Node) bool {
	switch n.Tag {
	case "!!bool", "!!float", "!!int", "!!null", "!!timestamp":
		return true
	}
	return n.Style == 0 && len(n.Value) <= len("yes") && yaml11[strings.ToLower(n.Value)]
}

// yaml11 are the words that YAML 1.1 takes for booleans, and 1.2 for strings.
var yaml11 = map[string]bool{"y": true, "yes": true, "on": true, "n": true, "no": true, "off": true}

func appendString(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // strings always marshal
			return append(out, quoted...)
		}
	}
	out = append(out, '"')
	out = append(out, s...)
	return append(out, '"')
}
