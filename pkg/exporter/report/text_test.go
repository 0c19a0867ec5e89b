package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest/mixed"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

func TestText(t *testing.T) {
	nobody := &classify.Report{Snapshot: reporttest.Report().Snapshot}
	for name, tc := range map[string]struct {
		report  *classify.Report
		options TextOptions
	}{
		"text.txt":                 {reporttest.Report(), TextOptions{}},
		"text-narrow.txt":          {reporttest.Report(), TextOptions{Width: 80}},
		"text-color.txt":           {reporttest.Report(), TextOptions{Color: true, Width: 100}},
		"text-blind.txt":           {reporttest.Blind(reporttest.Report()), TextOptions{}},
		"text-healthy.txt":         {reporttest.Healthy(), TextOptions{}},
		"text-gathered.txt":        {reporttest.Gathered(reporttest.Healthy()), TextOptions{Width: 100}},
		"text-healthy-blind.txt":   {reporttest.Blind(reporttest.Healthy()), TextOptions{}},
		"text-no-webhooks.txt":     {nobody, TextOptions{}},
		"text-nothing-legible.txt": {reporttest.Blind(&classify.Report{Snapshot: &inventory.Snapshot{}}), TextOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDocument(tc.report)
			golden.Compare(t, name, reporttest.Rendered(t, func(b *bytes.Buffer) error { return Write(b, "text", d, tc.options) }))
		})
	}
}

// TestTextGroupsByCause: one dead Service is one entry, for all webhooks that call it.
func TestTextGroupsByCause(t *testing.T) {
	d := NewDocument(reporttest.Report())
	cause := d.Findings[0]
	d.Findings = nil
	for i := range 10 {
		f := cause
		f.Name, f.Message = fmt.Sprintf("w%d.example.com", i), "calls Service policy/policy:443, which does not exist; CREATE of pods is refused"
		d.Findings = append(d.Findings, f)
	}
	text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return Write(b, "text", d, TextOptions{Width: 100}) }))
	if !strings.Contains(text, "w0.example.com") || !strings.Contains(text, "and 9 others") || strings.Contains(text, "w1.example.com") {
		t.Errorf("ten webhooks of one dead Service are:\n%s", text)
	}
	d.Findings[3].Message = "calls Service other/other:443, which does not exist; CREATE of pods is refused"
	text = string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return Write(b, "text", d, TextOptions{Width: 100}) }))
	if !strings.Contains(text, "and 8 others") || !strings.Contains(text, "w3.example.com") {
		t.Errorf("of two dead Services:\n%s", text)
	}
}

// TestTextMergesEqualSentences: no webhook stands under the sentence of another, and
// the rest of a list is counted.
func TestTextMergesEqualSentences(t *testing.T) {
	d := NewDocument(reporttest.Report())
	d.Stops = nil
	for i := range maxListed + 2 {
		d.Stops = append(d.Stops, fmt.Sprintf("function %d", i))
	}
	broken, review := d.Findings[0], d.Findings[0]
	review.Severity = classify.Info
	d.Findings = nil
	for i, f := range []Finding{broken, broken, review, review} {
		f.Name, f.Message, f.Brief = fmt.Sprintf("w%d.example.com", i), "calls Service policy/policy:443", fmt.Sprintf("each CREATE of r%d is refused: Service policy/policy:443 is gone", i)
		d.Findings = append(d.Findings, f)
	}
	for _, o := range []TextOptions{{}, {Fixes: true}, {Verbose: true}} {
		text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return Write(b, "text", d, o) }))
		expect.Contains(t, text, "function 9; and 2 more.")
		if !o.Verbose {
			expect.Contains(t, text, "w0.example.com", "w1.example.com", "w2.example.com", "w3.example.com", "Each CREATE of r1", "Each CREATE of r3")
		}
	}
}

// TestShortenedKeepsTheCause: where there is no place, the items of a list go first.
func TestShortenedKeepsTheCause(t *testing.T) {
	const message = "each CREATE, UPDATE, DELETE and CONNECT of bindings, configmaps, endpoints, events, limitranges and 98 more is refused: Service a/b:443 has no port 443, only 8443"
	const want = "each CREATE, UPDATE, DELETE and CONNECT of bindings, configmaps, endpoints and 100 more is refused: Service a/b:443 has no port 443, only 8443"
	expect.Equal(t, want, shortened(message, len(want)))
}

// TestTextHasEachCause: whatever the width, nothing that fails or can fail is cut off, and a
// cause stands whole.
func TestTextHasEachCause(t *testing.T) {
	objects, _ := manifest.Read([]string{"../../../e2e/demo"}, manifest.Options{})
	objects.NamespacesKnown, objects.ServicesKnown.All, objects.EndpointsKnown.All = true, true, true
	snapshots := []*inventory.Snapshot{objects.Snapshot(reporttest.Taken)}
	for seed := range uint64(60) {
		objects := mixed.Cluster(rand.New(rand.NewPCG(seed, 0)))
		objects.EndpointSlices = nil
		snapshots = append(snapshots, objects.Snapshot(reporttest.Taken))
	}
	causes := 0
	for _, s := range snapshots {
		d := NewDocument(reporttest.Evaluated(t, s))
		for width := 60; width <= 140; width += 20 {
			var said strings.Builder
			for _, b := range d.Text(TextOptions{Width: width}) {
				for _, l := range b.Lines {
					for _, u := range l.Under {
						said.WriteString(u.Text + u.Command + "\n")
						if b.Heading != "TO REVIEW" && strings.Contains(u.Text, "…") {
							t.Errorf("at %d columns, %s is cut: %s", width, l.Name, u.Text)
						}
					}
				}
			}
			now, _, _ := byUrgency(d.Findings)
			for _, f := range now[:min(len(now), maxEntries)] {
				_, why, _ := strings.Cut(f.Brief, ": ")
				causes++
				expect.Contains(t, said.String(), shortenLists(why))
			}
		}
	}
	if causes < 500 {
		t.Errorf("%d causes", causes)
	}
}

func TestWriteErrors(t *testing.T) {
	many := NewDocument(reporttest.Blind(reporttest.Healthy()))
	for i := range MaxErrors {
		many.Errors = append(many.Errors, Error{Source: fmt.Sprintf("f%d.yaml", i), Message: "truncated"})
	}
	rights := NewDocument(reporttest.Healthy())
	for _, resource := range []string{"namespaces", "pods", "services"} {
		rights.Errors = append(rights.Errors, Error{Source: resource, Message: "list " + resource + " is forbidden: grant the verb list on " + resource + " to a; nothing is known of it", Forbidden: true})
	}
	for _, tc := range []struct {
		name string
		doc  Document
		want []string
	}{
		{"none", NewDocument(reporttest.Healthy()), nil},
		{"of one cause", rights, []string{"ERROR cannot read namespaces, pods, services: list is forbidden: grant the verb list on each to a; nothing is known of it"}},
		{"two", NewDocument(reporttest.Blind(reporttest.Healthy())), []string{
			`ERROR cannot read x.yaml:3: ValidatingWebhookConfiguration/broken: reading namespaceSelector: unknown operator "Like"`,
			`ERROR cannot read customresourcedefinitions.apiextensions.k8s.io: listing is forbidden: grant the verb list`,
		}},
		{"more than a person reads", many, []string{"… and 2 more"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteErrors(b, tc.doc.Errors, TextOptions{}) }))
			for _, want := range tc.want {
				if !strings.Contains(text, want+"\n") {
					t.Errorf("got:\n%s\nwant the line: %s", text, want)
				}
			}
			if lines := strings.Count(text, "\n"); lines != min(len(tc.doc.Errors), MaxErrors+1) && lines != len(tc.want) {
				t.Errorf("got %d lines for %d errors", lines, len(tc.doc.Errors))
			}
		})
	}
}

var writers = map[string]func(io.Writer, Document) error{
	"text":     func(w io.Writer, d Document) error { return Write(w, "text", d, TextOptions{}) },
	"errors":   func(w io.Writer, d Document) error { return WriteErrors(w, d.Errors, TextOptions{}) },
	"JSON":     func(w io.Writer, d Document) error { return WriteJSON(w, d) },
	"Markdown": func(w io.Writer, d Document) error { return Write(w, "markdown", d, TextOptions{}) },
	"table":    func(w io.Writer, d Document) error { return Write(w, "table", d, TextOptions{}) },
	"SARIF":    func(w io.Writer, d Document) error { return WriteSARIF(w, d, "") },
}

func TestTextObeysNoManifest(t *testing.T) {
	d := NewDocument(reporttest.Report())
	d.Findings[0].Name = "evil\x1b[2J\u202ename\nX "
	d.Findings[0].Fix = "one\x07\n  \x1b]0;two\x07"
	d.Errors = []Error{{Source: "a\x1b[31m.yaml", Message: "b\rc"}}
	for name, write := range writers {
		got := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return write(b, d) }))
		if i := strings.IndexFunc(got, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x202e }); i >= 0 {
			t.Errorf("%s holds a control character: %q", name, got[max(0, i-20):i+5])
		}
	}
	text := reporttest.Rendered(t, func(b *bytes.Buffer) error { return Write(b, "text", d, TextOptions{}) })
	if n := len(regexp.MustCompile("(?m)^X ").FindAll(text, -1)); n != 2 {
		t.Errorf("a name forges a finding:\n%s", text)
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string][]string{
		"two  words\n":                                     {"two", "words"},
		"of 'x kubectl delete y' z's a b":                  {"of", "'x kubectl delete y'", "z's", "a", "b"},
		`of 'a'"'"' b', c`:                                 {"of", `'a'"'"' b',`, "c"},
		"see (kubectl get pods -n a); then b c":            {"see", "(kubectl get pods -n a);", "then", "b", "c"},
		`kubectl patch x -p '[{"a b": "; ("}]'; d`:         {`kubectl patch x -p '[{"a b": "; ("}]';`, "d"},
		`kubectl patch x -p '{"e": "it'\''s; here"}' -n z`: {`kubectl patch x -p '{"e": "it'\''s; here"}' -n z`},
		"kubectl":       {"kubectl"},
		"one ` alone":   {"one", "`", "alone"},
		"kubectl 'open": {"kubectl", "'open"},
	} {
		var got []string
		for _, w := range unbrokenWords(words(in, Plain)) {
			got = append(got, w.text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("words of %q are %q, want %q", in, got, want)
		}
		if line := words(in, Plain)[0].text; line != strings.Join(want, " ") {
			t.Errorf("%q is %q on one line", in, line)
		}
	}
}

func TestShortenLists(t *testing.T) {
	expect.Results(t, shortenLists, map[string]string{
		"reaches pods":                                      "reaches pods",
		"reaches a, b, c, d, e, f, g, h, i, j":              "reaches a, b, c, d, e, f, g, h, i, j",
		"reaches a, b, c, d, e, f, g, h, i and j, so that":  "reaches a, b, c, d, e, f, g, h, i and j, so that",
		"reaches a, b, c, d, e, f, g, h, i, j, k":           "reaches a, b, c, d, e, f, g, h, i, j and 1 more",
		"reaches a, b, c, d, e, f, g, h, i, j, k and l":     "reaches a, b, c, d, e, f, g, h, i, j and 2 more",
		"a, b, c, d, e, f, g, h, i, j, k, and l; all of it": "a, b, c, d, e, f, g, h, i, j and 2 more; all of it",
		"a, b, c, d, e, f, g, h, i, j and 90 more":          "a, b, c, d, e, f, g, h, i, j and 90 more",
	})
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWritersReportTheirWritersErrors(t *testing.T) {
	d := NewDocument(reporttest.Blind(reporttest.Report()))
	all := maps.Clone(writers)
	all["checks"] = func(w io.Writer, _ Document) error { return WriteChecks(w) }
	all["policy"] = func(w io.Writer, _ Document) error { return WritePolicy(w) }
	for name, write := range all {
		if err := write(full{}, d); !errors.Is(err, errFull) {
			t.Errorf("%s: got error %v, want %v", name, err, errFull)
		}
	}
}

func TestTables(t *testing.T) {
	d := NewDocument(reporttest.Blind(reporttest.Report()))
	for file, write := range map[string]func(io.Writer) error{
		"table.txt":            func(w io.Writer) error { return Write(w, "table", d, TextOptions{Width: 120}) },
		"table-healthy.txt":    func(w io.Writer) error { return Write(w, "table", NewDocument(reporttest.Healthy()), TextOptions{}) },
		"table-comparison.txt": func(w io.Writer) error { return Write(w, "table", change(), TextOptions{}) },
	} {
		golden.Compare(t, file, reporttest.Rendered(t, func(b *bytes.Buffer) error { return write(b) }))
	}
}
