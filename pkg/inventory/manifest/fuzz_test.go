package manifest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// documents are those of the test data.
func documents(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/read/*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Split(string(data), "---\n")...)
	}
	return out
}

// FuzzRead reads anything as a file. Whatever it is, all objects and errors have
// a line of it.
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

// FuzzToJSON compares the JSON of a YAML document with kubectl's: where both
// convert it, both mean the same.
func FuzzToJSON(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d))
	}
	for _, d := range oddScalars {
		f.Add([]byte("a: " + d + "\n" + d + ": b\n"))
	}
	f.Fuzz(compareJSON)
}

// FuzzCutBundles converts YAML with and without marks in place of CA bundles:
// the JSON and the errors are the same.
func FuzzCutBundles(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d))
	}
	for _, d := range bundlePlaces {
		f.Add([]byte(d))
	}
	f.Fuzz(compareCut)
}

// bundlePlaces have short bundles, for which compareCut puts long ones, where
// YAML allows text.
var bundlePlaces = []string{
	"a: {b: 1}\nwebhooks:\n- clientConfig:\n    caBundle: B\n  name: a\n- clientConfig:\n    caBundle: B\r\n  name: b\n",
	"caBundle: B\n",
	"caBundle: B\n ",
	"caBundle: B",
	"caBundle: B # comment\n",
	"caBundle: B: c\n",
	"caBundle: B\n  C\n\n  caBundle: B\n",
	"- caBundle: B\n  caBundle: B\n",
	"# caBundle: B\na: 1\n",
	"? caBundle: B\n: caBundle\n",
	"? |\n  caBundle: B\n: |\n  caBundle: B\n  caBundle: B\n",
	"a: >-\n  caBundle: B\n  caBundle: B\n\n  caBundle: B\n",
	"a: \"caBundle: B\n  caBundle: B\n\"\n",
	"a: \"\\caBundle: B\n\"\n",
	"a: 'caBundle: B\n  '' caBundle: B\n'\n",
	"a: {caBundle: B\n, b: [caBundle: B\n]}\n",
	"a: [caBundle: B\n: c]\n",
	"a: &caBundle: B\nb: *caBundle: B\n",
	"%TAG caBundle: B\n---\na: !caBundle: B\n",
	"a: &a\n  caBundle: B\nb: *a\n<<: *a\n",
	"caBundle: B\ncaBundle: B\n\tc: d\n",
	"caBundle: caBundle: B\n",
	"a:\n  caBundle: B\n b: *unknown\n",
}

func TestCutBundles(t *testing.T) {
	for _, d := range bundlePlaces {
		compareCut(t, []byte(d))
	}
	data := []byte("- caBundle: " + strings.Repeat("A", 2*minBundle) + "\n")
	if short, b := cutBundles(data); len(b.texts) != 1 || len(short) >= len(data) {
		t.Errorf("%q, %q", short, b.texts)
	}
}

func compareCut(t *testing.T, data []byte) {
	for _, bundle := range []string{"caBundle: ABCDxyz059+/", "caBundle: 0123456789", "caBundle: +-======"} {
		data := bytes.ReplaceAll(data, []byte("caBundle: B"), []byte(strings.Replace(bundle, ": ", ": "+strings.Repeat(bundle[10:], 200), 1)))
		want, wantProblem := convertYAML(data, data, bundles{})
		got, gotProblem := toJSON(data)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%q: %s", data, diff)
		}
		if diff := cmp.Diff(wantProblem, gotProblem, cmp.AllowUnexported(problem{})); diff != "" {
			t.Errorf("%q: %s", data, diff)
		}
	}
}

// oddScalars are those that YAML 1.1 and 1.2 or a naive reader take for
// different values.
var oddScalars = []string{
	"yes", "No", "on", "y", "~", "null", "Null", "nULL", "''", "'yes'", "0x1F", "0b11", "0o17", "0777", "08", "1_000", "-1", "+1", "1.20", "1e3", "1.", ".5",
	"-.5", "443.0", "12:30:45", "2026-11-22", "10.0.0.1", "1.2.3", "9223372036854775807", "18446744073709551615", "99999999999999999999", "1e400", "0x", "-",
	"...", "!!str 1", "!!int '1'", "!!float 1", "!!unknown 1", "!!unknown", "!local x", "&a b", "\"\\u00e9\\n\"", "<<", "'<<'", "_1", "1_", "0.1e1", "-0", "0", "00", "=", ".inf", "-.INF", ".nan",
	"'x\ry'", "'x\u0085y'", "\"x\u2028y\u2029z\"",
}

func TestToJSON(t *testing.T) {
	for _, scalar := range oddScalars {
		for _, d := range []string{"a: " + scalar + "\n", scalar + ": a\n", "- " + scalar + "\n", "[" + scalar + "]\n"} {
			compareJSON(t, []byte(d))
		}
	}
}

// stringTag is the tag "!", which makes a string of any text. The nodes of yaml.v3
// do not show it: "! 1" is read as 1, where kubectl reads "1".
var stringTag = regexp.MustCompile(`!(\s|$)`)

func compareJSON(t *testing.T, data []byte) {
	if stringTag.Match(data) {
		return
	}
	got, p := toJSON(data)
	want, err := yaml.YAMLToJSONStrict(data)
	if p != nil || err != nil {
		return
	}
	var gotValue, wantValue any
	if err := json.Unmarshal(got, &gotValue); err != nil {
		t.Fatalf("%q became %q: %v", data, got, err)
	}
	if err := json.Unmarshal(want, &wantValue); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantValue, gotValue); diff != "" {
		t.Errorf("%q: %s", data, diff)
	}
	if lines := bytes.Count(data, []byte("\n")); bytes.Count(got, []byte("\n")) > lines {
		t.Errorf("%q of %d lines became %q", data, lines, got)
	}
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
