package manifest

import (
	"bytes"
	"encoding/json"
	"strings"
)

// peek reads apiVersion and kind off the lines of a YAML document, or of an
// item of a list, without parsing it. It reports false where they are not
// plainly there, which does not mean that they are missing.
func peek(data []byte) (typeMeta, bool) {
	var meta typeMeta
	base := -1
	for line := range bytes.Lines(data) {
		indent, content := cutIndent(line)
		if len(content) == 0 || content[0] == '#' {
			continue
		}
		if base < 0 {
			for bytes.HasPrefix(content, []byte("- ")) {
				more, rest := cutIndent(content[1:])
				indent, content = indent+1+more, rest
			}
			base = indent
		}
		if indent != base {
			continue
		}
		if v, ok := plainValue(content, "apiVersion:"); ok {
			meta.apiVersion = v
		} else if v, ok := plainValue(content, "kind:"); ok {
			meta.kind = v
		}
		if meta.apiVersion != "" && meta.kind != "" {
			return meta, true
		}
	}
	return meta, false
}

// cutIndent returns the number of leading spaces of a line, and its content.
func cutIndent(line []byte) (int, []byte) {
	content := bytes.TrimLeft(line, " ")
	return len(line) - len(content), bytes.TrimRight(content, "\r\n")
}

// plainValue returns the value of the key, if it is a plain or quoted word.
func plainValue(content []byte, key string) (string, bool) {
	rest, ok := bytes.CutPrefix(content, []byte(key))
	if !ok {
		return "", false
	}
	value, _, _ := strings.Cut(string(rest), " #")
	value = strings.TrimSpace(value)
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		value = value[1 : len(value)-1]
	}
	return value, len(value) > 0 && strings.IndexFunc(value, notInWord) < 0
}

func notInWord(r rune) bool {
	return !(r == '.' || r == '/' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
}

// peekName reads metadata.name off the lines of a document, to name an object
// that cannot be parsed.
func peekName(data []byte) string {
	_, metadata, found := bytes.Cut(data, []byte("metadata:"))
	if !found {
		return ""
	}
	first := -1
	for line := range bytes.Lines(metadata) {
		indent, content := cutIndent(line)
		if len(content) == 0 || content[0] == '#' {
			continue
		}
		if first < 0 {
			first = indent
		}
		if name, ok := plainValue(content, "name:"); ok && indent == first {
			return name
		}
		if indent < first {
			break
		}
	}
	return ""
}

// peekJSON reads apiVersion and kind of an object of JSON, if they stand before
// its first value that is neither a string nor a number.
func peekJSON(data []byte) (typeMeta, bool) {
	var meta typeMeta
	d := json.NewDecoder(bytes.NewReader(data[:min(len(data), 1024)]))
	if _, err := d.Token(); err != nil {
		return meta, false
	}
	for meta.apiVersion == "" || meta.kind == "" {
		key, err1 := d.Token()
		value, err2 := d.Token()
		if err1 != nil || err2 != nil {
			return meta, false
		}
		if _, nested := value.(json.Delim); nested {
			return meta, false
		}
		switch text, _ := value.(string); key {
		case "apiVersion":
			meta.apiVersion = text
		case "kind":
			meta.kind = text
		}
	}
	return meta, true
}
