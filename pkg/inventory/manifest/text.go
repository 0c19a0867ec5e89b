package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxObject is the most that is parsed in one piece. etcd takes 1.5 MiB.
const maxObject = 16 << 20

// maxNested bounds the lists in one another. Tools write no list in a list.
const maxNested = 8

type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }

type text struct {
	file *file
	// line is that of its start in the file.
	line int
	data []byte
}

// quotedKey is how an object of JSON starts. One in YAML's flow style has no quote there.
var quotedKey = regexp.MustCompile(`^\s*\{\s*"`)

// read passes the values of the document on. What starts as JSON and is none may be YAML.
func (t text) read(emit func(value)) *problem {
	read, p := 0, (*problem)(nil)
	if bytes.HasPrefix(bytes.TrimLeft(t.data, " \t\r\n"), []byte("{")) {
		if read, p = t.json(emit); p == nil {
			return nil
		}
	}
	if read == 0 {
		if notYAML := t.yaml(emit); notYAML == nil {
			return nil
		} else if p == nil || !quotedKey.Match(t.data) {
			p = notYAML
		}
	}
	return p
}

// json reads values of JSON, one after the other. It returns how many there are, and why
// what follows is none.
func (t text) json(emit func(value)) (int, *problem) {
	lines := lineCounter{data: t.data, line: t.line}
	if json.Valid(t.data) { // one value, of which a decoder would make a copy
		start := nextValue(t.data, 0)
		one := place{line: lines.lineAt(start)}
		emit(value{file: t.file, place: one, json: bytes.TrimSpace(t.data), implied: t.file.implied})
		return 1, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(t.data))
	for end, count := 0, 0; ; count++ {
		err := decoder.Decode(&ignored{})
		switch {
		case errors.Is(err, io.EOF):
			return count, nil
		case err != nil:
			offset := int(decoder.InputOffset())
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				offset = int(syntax.Offset)
			}
			if text := bytes.TrimSpace(t.data); offset > len(text) || errors.Is(err, io.ErrUnexpectedEOF) {
				offset, err = len(text), errors.New("it ends in the middle of a value: the file is truncated")
			}
			return count, problemf(lines.lineAt(min(offset, len(t.data)))-t.line+1, "not JSON: %v", err)
		}
		start := nextValue(t.data, end)
		end = int(decoder.InputOffset())
		emit(value{
			file: t.file, place: place{line: lines.lineAt(start)}, json: t.data[start:end], implied: t.file.implied,
		})
	}
}

func (t text) yaml(emit func(value)) *problem {
	if len(t.data) > maxObject {
		return problemf(1, "an object of %d MiB: more than %d are not read in one piece", len(t.data)>>20, maxObject>>20)
	}
	data, node, p := toJSON(t.data)
	if p == nil {
		position := place{line: max(1, t.line+node.Line-1), node: node, base: t.line - 1}
		emit(value{file: t.file, place: position, json: data, implied: t.file.implied})
	}
	return p
}

// Values are those of a file of YAML or JSON that are not empty, as they are written, up to the first
// that cannot be read.
func Values(data io.Reader) (out []map[string]any, err error) {
	_, unread := eachDocument(data, func(d document) {
		p := text{file: &file{}, line: d.line, data: d.data}.read(func(v value) {
			var object map[string]any
			if err == nil {
				err = decode(v.json, &object)
			}
			if err == nil && len(object) > 0 {
				out = append(out, object)
			}
		})
		if p != nil && err == nil {
			err = fmt.Errorf("line %d: %s", d.line+p.line-1, p.message)
		}
	})
	return out, cmp.Or(unread, err)
}

var typeLine = regexp.MustCompile(`(?m)^(?:[{ \t]*")?(apiVersion|kind)"?:[ \t]*["']?([\w./-]+)`)

// unparsed notes why the text cannot be parsed. In a directory, something that is no
// object of Kubernetes need not be valid, nor a template of a kind that is not read.
func (r *reader) unparsed(t text, p *problem) {
	found := map[string]string{}
	for _, m := range typeLine.FindAllSubmatch(t.data, 2) {
		found[string(m[1])] = string(m[2])
	}
	isTemplate := bytes.Contains(t.data, []byte("{{"))
	switch meta := schema.FromAPIVersionAndKind(found["apiVersion"], found["kind"]); {
	case t.file.lenient && (!bytes.Contains(t.data, []byte("apiVersion")) || isTemplate && isSkipped(meta)):
		t.file.input.skipped++
	case isTemplate && t.file.lenient:
		t.file.input.templates = append(t.file.input.templates, t.file)
	case isTemplate:
		p.message += ": this looks like a template: render it first, as with helm template"
		fallthrough
	default:
		r.fail(t.file, max(1, t.line+p.line-1), meta.Kind, p.message)
	}
}

// lineCounter counts the lines of a text up to places of which each is further on.
type lineCounter struct {
	data       []byte
	read, line int
}

func (c *lineCounter) lineAt(offset int) int {
	c.line += bytes.Count(c.data[c.read:offset], []byte("\n"))
	c.read = offset
	return c.line
}

func nextValue(data []byte, offset int) int {
	return len(data) - len(bytes.TrimLeft(data[offset:], " \t\r\n,"))
}

// value is one of JSON, read from JSON or from YAML.
type value struct {
	file *file
	place
	json []byte
	// implied is the type of an object that does not state its own.
	implied schema.GroupVersionKind
	nested  int
}

// value reads an object, or the items of a list.
func (r *reader) value(v value) {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           inPlace `json:"items"`
		GitVersion      any     `json:"gitVersion"`
		ServerVersion   any     `json:"serverVersion"`
	}
	if v.json[0] != '{' {
		if string(v.json) != "null" {
			v.file.input.skipped++
		}
		return
	}
	_ = kjson.UnmarshalCaseSensitivePreserveInts(v.json, &head) // another type is that of no object
	meta := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	if meta.Empty() {
		meta = v.implied
	}
	switch {
	case bytes.HasPrefix(head.Items, []byte("[")) && (isList(meta) || meta.Kind == ""):
		r.list(v, meta, head.Items)
	case meta.Empty() && (head.GitVersion != nil || head.ServerVersion != nil):
		r.found(object{key: inventory.SourceKey{Kind: "Version"}, file: v.file, line: v.line, value: readVersion(v.json)})
	case len(v.json) > maxObject:
		r.fail(v.file, v.line, meta.Kind, fmt.Sprintf("an object of %d MiB: more than %d are not read in one piece", len(v.json)>>20, maxObject>>20))
	default:
		r.object(v, meta)
	}
}

// inPlace is a part of the text that is decoded, of which no copy is made: lists are long.
type inPlace []byte

func (p *inPlace) UnmarshalJSON(part []byte) error {
	*p = part
	return nil
}

func (r *reader) list(v value, meta schema.GroupVersionKind, list inPlace) {
	v.file.listed = true
	var items []inPlace
	_ = json.Unmarshal(list, &items) // it is a list, and was decoded once
	switch {
	case v.nested >= maxNested:
		r.fail(v.file, v.line, meta.Kind, fmt.Sprintf("more than %d lists in one another: write the items into one", maxNested))
		return
	case meta.Version != "" && meta.Kind == "": // its kind comes after its items
		r.fail(v.file, v.line, "", "a list without a kind: the file is truncated")
	case isSkipped(meta):
		r.skip(v.file, meta, len(items))
		return
	}
	places, end := v.part("items"), bytes.Index(v.json, list)+1
	lines := lineCounter{data: v.json, line: v.line}
	for i, item := range items {
		one := value{
			file: v.file, place: place{line: v.line}, json: item, implied: itemType(meta), nested: v.nested + 1,
		}
		switch {
		case v.node == nil:
			start := nextValue(v.json, end)
			one.line, end = lines.lineAt(start), start+len(item)
		case places.elements() == len(items):
			one.place = places.part(i)
		}
		r.value(one)
	}
}
