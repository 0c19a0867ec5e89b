package manifest

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// maxExpanded bounds the values that aliases stand for: a few hundred bytes of
// nested aliases would be billions otherwise.
const maxExpanded = 1 << 20

// parseYAML reads one YAML document. The third version of the library is the
// one that keeps lines; what its scalars mean is up to resolve.
func parseYAML(data []byte) (node, *problem) {
	var y yaml.Node
	lines := physicalLines(data)
	if err := yaml.Unmarshal(data, &y); err != nil {
		return node{}, yamlProblem(err, data).on(lines)
	}
	if y.Kind == 0 {
		return node{plain: true, line: 1}, nil
	}
	c := converter{anchors: map[*yaml.Node]anchored{}, lines: lines}
	return c.convert(&y)
}

// physicalLines leads from the lines that YAML counts to those that everybody
// else does: it takes a lone carriage return and three characters of Unicode
// for line breaks too. It is nil where there are none.
func physicalLines(data []byte) []int {
	if !oddBreaks(data) {
		return nil
	}
	lines := []int{0, 1}
	for _, b := range anyBreak.FindAll(data, -1) {
		physical := lines[len(lines)-1]
		if b[len(b)-1] == '\n' {
			physical++
		}
		lines = append(lines, physical)
	}
	return lines
}

func oddBreaks(data []byte) bool {
	for _, b := range []string{"\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(data, []byte(b)) {
			return true
		}
	}
	return bytes.Count(data, []byte("\r")) != bytes.Count(data, []byte("\r\n"))
}

var anyBreak = regexp.MustCompile(`\r\n|[\r\n\x{85}\x{2028}\x{2029}]`)

// on puts a problem on its physical line.
func (p *problem) on(lines []int) *problem {
	if lines != nil {
		p.line = lines[min(p.line, len(lines)-1)]
	}
	return p
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
		line = lineOf(data, func(l []byte) bool { return bytes.ContainsFunc(l, control) })
	}
	return problemf(max(line, 1), "not YAML: %s", message)
}

func tabIndented(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")) && len(bytes.TrimSpace(line)) > 0
}

func control(r rune) bool {
	return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' && r != '\u0085'
}

// lineOf returns the number of the first line that is so, or 0.
func lineOf(data []byte, is func([]byte) bool) int {
	number := 0
	for line := range bytes.Lines(data) {
		if number++; is(line) {
			return number
		}
	}
	return 0
}

// converter turns the library's nodes into ours, aliases written out.
type converter struct {
	anchors map[*yaml.Node]anchored
	// size counts the nodes so far, expanded those that aliases stand for.
	size, expanded int
	// lines are the physical ones, nil where they are those of the nodes.
	lines []int
}

// anchored is the value of an anchor, and how many nodes it is made of.
type anchored struct {
	node node
	size int
}

func (c *converter) convert(y *yaml.Node) (node, *problem) {
	before := c.size
	c.size++
	n, p := c.value(y)
	if p == nil && y.Anchor != "" {
		c.anchors[y] = anchored{node: n, size: c.size - before}
	}
	return n, p
}

func (c *converter) value(y *yaml.Node) (node, *problem) {
	switch y.Kind {
	case yaml.DocumentNode:
		return c.convert(y.Content[0])
	case yaml.AliasNode:
		return c.alias(y)
	case yaml.SequenceNode:
		items, p := c.items(y)
		return node{kind: sequence, line: c.line(y), items: items}, p
	case yaml.MappingNode:
		items, p := c.items(y)
		if p != nil {
			return node{}, p
		}
		n, p := newMapping(c.line(y), items)
		if p != nil {
			return node{}, p
		}
		return merge(n)
	}
	return c.scalar(y), nil
}

// line returns the physical line of a node.
func (c *converter) line(y *yaml.Node) int {
	if c.lines == nil {
		return y.Line
	}
	return c.lines[min(y.Line, len(c.lines)-1)]
}

func (c *converter) items(y *yaml.Node) ([]node, *problem) {
	items := make([]node, len(y.Content))
	for i, content := range y.Content {
		n, p := c.convert(content)
		if p != nil {
			return nil, p
		}
		items[i] = n
	}
	return items, nil
}

func (c *converter) alias(y *yaml.Node) (node, *problem) {
	known, ok := c.anchors[y.Alias]
	if !ok {
		return node{}, problemf(c.line(y), "the alias *%s stands inside its own anchor", y.Value)
	}
	c.size += known.size
	if c.expanded += known.size; c.expanded > maxExpanded {
		return node{}, problemf(c.line(y), "aliases for more than %d values", maxExpanded)
	}
	return known.node, nil
}

func (c *converter) scalar(y *yaml.Node) node {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	n := node{line: c.line(y), text: y.Value, plain: y.Style&quoted == 0}
	if y.Style&yaml.TaggedStyle != 0 {
		n.plain = strings.HasPrefix(y.Tag, "!!") && y.Tag != "!!str"
	}
	return n
}

// mergeKey is the key of YAML 1.1 that merge resolves.
const mergeKey = "<<"

// merge resolves the key << of YAML 1.1: the keys of the mappings it names are
// added where they are not given.
func merge(n node) (node, *problem) {
	i := mergeAt(n.items)
	if i < 0 {
		return n, nil
	}
	out := node{kind: mapping, line: n.line}
	out.items = append(append(out.items, n.items[:i]...), n.items[i+2:]...)
	sources := []node{n.items[i+1]}
	if sources[0].kind == sequence {
		sources = sources[0].items
	}
	for _, source := range sources {
		if source.kind != mapping {
			return node{}, problemf(source.line, "<< wants a mapping, or a list of them")
		}
		addAbsent(&out, source)
	}
	return out, nil
}

func mergeAt(items []node) int {
	for i := 0; i < len(items); i += 2 {
		if items[i].plain && items[i].text == mergeKey {
			return i
		}
	}
	return -1
}

func addAbsent(n *node, source node) {
	for i := 0; i < len(source.items); i += 2 {
		if n.get(source.items[i].text) == nil {
			n.items = append(n.items, source.items[i:i+2]...)
		}
	}
}
