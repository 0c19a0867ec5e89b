package manifest

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

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
		little := limits{entries: 100, member: 1 << 20, members: 1 << 20, ratio: 100, free: 1 << 20}
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
