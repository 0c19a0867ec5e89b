package manifest

import (
	"bytes"
	"iter"
	"regexp"
)

// This file looks at the lines of YAML in block style without parsing it: to
// skip documents that are not read, to cut large lists into their items and to
// name objects that cannot be parsed.

// keyLine matches a key with a plain or quoted word as its value.
var keyLine = regexp.MustCompile(`^"?([A-Za-z]+)"?:[ \t]+(["']?)([-./0-9A-Za-z]+)(["']?)[ \t]*(?:#.*)?$`)

// maxWordLine is more than a line with a word takes.
const maxWordLine = 1 << 10

// topLevel returns the values of keys of the outermost mapping. A value is ""
// where it is missing, not a word or given twice.
func topLevel(data []byte, keys ...string) []string {
	values, count := make([]string, len(keys)), make([]int, len(keys))
	base := -1
	for line := range bytes.Lines(data) {
		indent, content := cutIndent(line)
		if len(content) == 0 || content[0] == '#' {
			continue
		}
		if base < 0 {
			base = indent
		}
		if indent < base {
			break
		}
		for i, key := range keys {
			if indent == base && len(content) < maxWordLine && bytes.HasPrefix(bytes.TrimPrefix(content, []byte(`"`)), []byte(key)) {
				if m := keyLine.FindSubmatch(content); m != nil && string(m[1]) == key && bytes.Equal(m[2], m[4]) {
					values[i] = string(m[3])
					count[i]++
				}
			}
		}
	}
	for i, n := range count {
		if n != 1 {
			values[i] = ""
		}
	}
	return values
}

// blockType returns the type that a document in block style states.
func blockType(data []byte) typeMeta {
	v := topLevel(data, "apiVersion", "kind")
	return typeMeta{v[0], v[1]}
}

// blockName names an object for an error: "Kind/name", "Kind" or "".
func blockName(data []byte) string {
	kind := blockType(data).kind
	_, metadata, found := bytes.Cut(data, []byte("metadata:"))
	if !found || kind == "" {
		return kind
	}
	return join(kind, topLevel(metadata, "name")[0])
}

// cutIndent returns the number of leading spaces of a line, and its content.
func cutIndent(line []byte) (int, []byte) {
	content := bytes.TrimLeft(line, " ")
	return len(line) - len(content), bytes.TrimRight(content, " \t\r\n")
}

// span is a part of a text. line counts from the first line of the text, 1.
type span struct{ start, end, line int }

// in returns the span in the text around outer.
func (s span) in(outer span) span {
	return span{outer.start + s.start, outer.start + s.end, outer.line + s.line - 1}
}

// blockItems iterates over the items of a list in block style, each from its
// dash to the next. A quoted scalar with a dash at the start of one of its lines
// is taken for items that cannot be parsed.
func blockItems(data []byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		var item span
		listed, column, offset, number := false, -1, 0, 0
		for line := range bytes.Lines(data) {
			indent, content := cutIndent(line)
			number++
			switch {
			case len(content) == 0 || content[0] == '#':
			case !listed:
				listed = indent == 0 && string(content) == "items:"
			case isDash(content) && (column < 0 || indent == column):
				column, item.end = indent, offset
				if item.line > 0 && !yield(item) {
					return
				}
				item = span{start: offset, line: number}
			case indent <= column || column < 0: // the end of the list
				if item.end = offset; item.line > 0 {
					yield(item)
				}
				return
			}
			offset += len(line)
		}
		if item.end = offset; item.line > 0 {
			yield(item)
		}
	}
}

func isDash(content []byte) bool {
	return content[0] == '-' && (len(content) == 1 || content[1] == ' ')
}
