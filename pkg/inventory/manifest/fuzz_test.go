package manifest

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// FuzzRead reads anything as a file. Whatever it is, all that is said of it has
// a place in it.
func FuzzRead(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d))
		f.Add([]byte(d + "---\n" + hookYAML))
	}
	f.Add(zip(f, []byte(hookYAML)))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, summary := Read([]string{"-"}, Options{Stdin: bytes.NewReader(data)})
		if len(summary.Inputs) != 1 || summary.Objects > len(data) {
			t.Errorf("%+v", summary)
		}
		if isGzip(data) || len(data) > 262 && isTar(data[:262]) {
			return
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for key, source := range o.Sources {
			if source.File != stdinName || source.Line < 1 || source.Line > lines {
				t.Errorf("%v at %v of %d lines", key, source, lines)
			}
		}
		for _, e := range o.Errors {
			if e.Source.File != stdinName || e.Source.Line > lines+1 || e.Message == "" {
				t.Errorf("%#v of %d lines", e, lines)
			}
		}
	})
}

// FuzzReadArchive reads anything as an archive, packed and not.
func FuzzReadArchive(f *testing.F) {
	f.Add(mustGatherTree().tar(f))
	f.Add(zip(f, mustGatherTree().tar(f)))
	f.Add(tree{"../a.yaml": hookYAML, "b/c.json": "{}"}.tar(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		little := limits{objects: 100, entries: 100, member: 1 << 20, members: 1 << 20, ratio: 100, free: 1 << 20}
		for _, packed := range [][]byte{data, zip(t, data)} {
			o, _ := readWithin(little, []string{"-"}, Options{Stdin: bytes.NewReader(packed)})
			for _, e := range o.Errors {
				if !strings.HasPrefix(e.Source.File, stdinName) && e.Source.File != "" || e.Message == "" {
					t.Errorf("%#v", e)
				}
			}
		}
	})
}

// FuzzItems holds the items that a list is cut into against those that the
// whole list has: where each can be parsed by itself, they are the same.
func FuzzItems(f *testing.F) {
	f.Add([]byte{0, 5, 2, 1, 0, 5})
	f.Add([]byte{2, 7, 4, 9, 2, 7, 0, 14})
	f.Add([]byte{0, 7, 4, 11, 4, 5, 0, 5})
	f.Fuzz(func(t *testing.T, data []byte) { compareItems(t, shape(data)) })
}

func TestItems(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		data := make([]byte, 2+2*random.IntN(8))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		compareItems(t, shape(data))
	}
}

func compareItems(t *testing.T, shaped []byte) {
	t.Helper()
	whole := text{data: slices.Concat([]byte("a: b\nitems:\n"), shaped, []byte("kind: List\n"))}
	around, spans := items(whole)
	want, p := whole.parse()
	if p != nil || len(spans) == 0 {
		return
	}
	if _, p := (text{data: around}).parse(); p != nil {
		return
	}
	got := node{kind: sequence, line: 3}
	for _, s := range spans {
		n, p := text{data: whole.data[s.start:s.end], item: true}.parse()
		if p != nil {
			return
		}
		shift(&n, s.line-1)
		got.items = append(got.items, n)
	}
	if list := want.get("items"); !sameNode(got, *list) && list.line == 3 {
		t.Errorf("%s: %s", whole.data, cmp.Diff(*list, got, cmp.AllowUnexported(node{})))
	}
}

// shift moves a node down.
func shift(n *node, lines int) {
	n.line += lines
	for i := range n.items {
		shift(&n.items[i], lines)
	}
}

// FuzzParseJSON holds the reader of JSON against encoding/json.
func FuzzParseJSON(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d))
	}
	for _, d := range []string{`{"a": ["\u00e9\n", -1.5e+3, true, null], "b": {}}`, ` [ ] `, `{"a": 01}`, `"\ud83d\ude00"`, `[1,]`, `{"a" 1}`, `{"a":1,}`, `[1 2]`, `"a`, `{} {}`, `"\x"`, "\"\t\"", "1e", "-"} {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) {
			return
		}
		n, p := parseJSON(data)
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var want any
		valid := json.Valid(data) && d.Decode(&want) == nil
		refused := p != nil && (strings.Contains(p.message, "twice") || strings.Contains(p.message, "nested deeper"))
		switch {
		case valid != (p == nil) && !refused:
			t.Errorf("%q: valid %t, %v", data, valid, p)
		case p == nil && !reflect.DeepEqual(anyOf(&n), want):
			t.Errorf("%q: got %#v, want %#v", data, anyOf(&n), want)
		}
	})
}

// anyOf is a node of JSON as encoding/json decodes it.
func anyOf(n *node) any {
	switch {
	case n.kind == sequence:
		out := []any{}
		for i := range n.items {
			out = append(out, anyOf(&n.items[i]))
		}
		return out
	case n.kind == mapping:
		out := map[string]any{}
		for i := 0; i < len(n.items); i += 2 {
			out[n.items[i].text] = anyOf(&n.items[i+1])
		}
		return out
	case !n.plain:
		return n.text
	case n.text == "null":
		return nil
	case n.text == "true" || n.text == "false":
		return n.text == "true"
	}
	return json.Number(n.text)
}

// FuzzDecode holds what becomes of a document against the API machinery: where
// both understand it, both understand the same.
func FuzzDecode(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, p := text{data: data}.parse()
		if p != nil || n.kind != mapping {
			return
		}
		for _, into := range []func() any{
			func() any { return &admissionv1.ValidatingWebhookConfiguration{} },
			func() any { return &admissionv1.MutatingWebhookConfiguration{} },
			func() any { return &corev1.Service{} },
			func() any { return &discoveryv1.EndpointSlice{} },
			func() any { return &metav1.PartialObjectMetadata{} },
		} {
			compareDecoders(t, data, &n, into)
		}
	})
}

func compareDecoders(t *testing.T, data []byte, n *node, into func() any) {
	t.Helper()
	d, got, want := newDecoder(), into(), into()
	if p := d.decode(n, got); p != nil || len(d.soft) > 0 {
		return
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil || kjson.UnmarshalCaseSensitivePreserveInts(asJSON, want) != nil {
		return
	}
	dropFields(want)
	if !reflect.DeepEqual(got, want) {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q as %T: %s", data, got, diff)
		}
	}
}

// dropFields drops the one part that is not read.
func dropFields(object any) {
	o := object.(metav1.Object)
	fields := o.GetManagedFields()
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	o.SetManagedFields(fields)
}

// TestReadKeepsOrder reads more documents than are under way at once.
func TestReadKeepsOrder(t *testing.T) {
	var b strings.Builder
	for range 3000 {
		b.WriteString("---\n" + namespace("a") + "  labels:\n    line: \"x\"\n")
	}
	b.WriteString("---\n" + namespace("a") + "  labels:\n    line: last\n")
	o, summary := Read([]string{"-"}, Options{Stdin: strings.NewReader(b.String())})
	if got := o.Namespaces[0].Labels["line"]; got != "last" || summary.Objects != 1 || len(o.Errors) != 0 {
		t.Errorf("%q, %+v, %v", got, summary, o.Errors)
	}
	key := inventory.SourceKey{Kind: "Namespace", Name: "a"}
	if got := o.Sources[key].Line; got != 3000*7+2 {
		t.Error(got)
	}
}
