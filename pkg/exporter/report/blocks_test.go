package report

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
)

var blocks = Blocks{
	{Lines: Sentences("Kubernetes v1.37.1 · 3 webhooks", "5 webhooks cannot be called, which stops the writes of configmaps and ingresses and the creation of jobs.")},
	{Heading: "Broken now", Lines: []Line{
		{Label: "X", Tone: Critical, Name: "a.example.com", Text: "validating · legacy", Aside: "service-missing", Under: []Line{
			{Text: "Service legacy/a does not exist: <every> create of *configmaps* fails | always."},
			{Label: "look", Command: "kubectl get deploy,pods,service -n legacy --a-long-flag=of-the-command"},
		}},
		{Label: "!", Tone: Warning, Name: "b.example.com", Text: "run (kubectl get pods -n b) as well", Aside: "single-replica"},
	}},
	{Heading: "Measured", Table: &Table{
		Headings: []string{"Webhook", "Calls/s", "p99", "Message"}, Cut: "Message", Spare: []string{"p99"}, Links: map[string]string{"a": "https://example.com/a?x=1&y"},
		Rows: [][]string{{"a", "0.50", ">10 s", "a long message that wraps where the terminal ends, whatever it says"}, {"b|c", "12.00", "-", "short \x1b[31m"}},
	}},
	{Heading: "Commands", Lines: Sentences("run one"), Commands: []string{"kubectl delete <b>"}},
}

func TestWriteBlocks(t *testing.T) {
	for file, write := range map[string]func(*bytes.Buffer) error{
		"blocks.txt":        func(b *bytes.Buffer) error { return blocks.WriteText(b, TextOptions{Width: 60}) },
		"blocks-narrow.txt": func(b *bytes.Buffer) error { return blocks[2:3].WriteText(b, TextOptions{Width: 34}) },
		"blocks-color.txt":  func(b *bytes.Buffer) error { return blocks.WriteText(b, TextOptions{Color: true}) },
		"blocks.md":         func(b *bytes.Buffer) error { return blocks.WriteMarkdown(b) },
		"blocks.html": func(b *bytes.Buffer) error {
			text, err := blocks.HTML()
			b.WriteString(string(text))
			return err
		},
	} {
		golden.Compare(t, file, reporttest.Rendered(t, write))
	}
}

func TestBounded(t *testing.T) {
	var b bytes.Buffer
	many := Blocks{{
		Lines:    append(Sentences("one", "two", "three"), Line{Text: "four", Under: []Line{{Command: "d"}}}),
		Commands: []string{"a", "b", "c"},
		Table:    &Table{Headings: []string{"Name"}, Rows: [][]string{{"x"}, {"y"}, {"z"}}},
	}}
	must.Succeed(t, many.Bounded(2).WriteText(&b, TextOptions{}))
	const want = "NAME\nx\ny\n… and 1 more\none\ntwo\nfour\n    d\n… and 1 more\n    a\n    b\n    c\n"
	expect.Equal(t, want, b.String())
}

// TestManyAlike: of a thousand webhooks of one Service, or a thousand errors, a terminal
// gets the first.
func TestManyAlike(t *testing.T) {
	var c Consequences
	var d Diagnosis
	for n := range 1000 {
		c.Appearing = append(c.Appearing, Finding{Message: "alike"})
		c.Disappearing = append(c.Disappearing, Finding{Message: strconv.Itoa(n)})
	}
	for range diagnose.MaxErrors {
		d.Errors = append(d.Errors, diagnosedError{Count: 1})
	}
	blocks := c.Text(TextOptions{})
	alike, different := blocks[len(blocks)-2].Lines, blocks[len(blocks)-1].Lines
	if len(alike) != 1 || !strings.HasSuffix(alike[0].Text, "alike (1000 times)") || len(different) != maxEntries+1 {
		t.Errorf("%d lines that are alike, %d that differ", len(alike), len(different))
	}
	if head := d.Text(TextOptions{})[0].Heading; !strings.Contains(head, "at most 20 errors") {
		t.Errorf("the head is %q", head)
	}
}

func TestMarkdown(t *testing.T) {
	for name, d := range map[string]Document{
		"report.md":  NewDocument(reporttest.Blind(reporttest.Report())),
		"healthy.md": NewDocument(reporttest.Healthy()),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, name, reporttest.Rendered(t, func(b *bytes.Buffer) error { return Write(b, "markdown", d, TextOptions{}) }))
		})
	}
}

func TestMarkdownEscapes(t *testing.T) {
	expect.Results(t, markdown, map[string]string{
		"plain":                     "plain",
		"a|b *c* _d_ [e](f) <g> #1": `a|b \*c\* \_d\_ \[e\](f) &lt;g&gt; \#1`,
		"ask @kubernetes/sig-auth":  "ask @<!-- -->kubernetes/sig-auth",
		"of 'kubectl get a_b' c_d":  "of 'kubectl get a\\_b' c\\_d",
		"kubectl get 'a`;b`' c; e":  "``kubectl get 'a`;b`' c``; e",
		"kubectl get 'a;b' c_d; e":  "`kubectl get 'a;b' c_d`; e",
		"do (kubectl get a_b); c_d": "do (`kubectl get a_b`); c\\_d",
		"one ` alone":               "one \\` alone",
		"two\nlines":                "two lines",
	})
}

func TestCode(t *testing.T) {
	expect.Results(t, code, map[string]string{
		"pods":  "`pods`",
		"a`b":   "``a`b``",
		"`a":    "`` `a ``",
		"a``b`": "``` a``b` ```",
	})
}

func TestMarkdownIsBounded(t *testing.T) {
	d := NewDocument(reporttest.Healthy())
	for line := range 3 * MaxErrors {
		d.Errors = append(d.Errors, Error{Source: "x.yaml", Line: line, Message: "truncated"})
	}
	text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return Write(b, "markdown", d, TextOptions{}) }))
	if n := strings.Count(text, "truncated"); n != MaxErrors || !strings.Contains(text, "- … and 100 more\n") {
		t.Errorf("got %d errors, want %d and how many more:\n%s", n, MaxErrors, text)
	}
}

// TestFixParts: each command stands by itself, as it is to be run.
func TestFixParts(t *testing.T) {
	expect.Results(t, FixParts, map[string][]FixPart{
		"":             nil,
		"Scale it up.": {{"Scale it up.", false}},
		"bring it back (kubectl get pods -n a); if it is gone (for good): kubectl delete crd 'a; b'": {
			{"bring it back", false}, {"kubectl get pods -n a", true}, {"if it is gone (for good):", false}, {"kubectl delete crd 'a; b'", true},
		},
		"rename 'kubectl delete x' (twice); then nothing": {{"rename 'kubectl delete x' (twice); then nothing", false}},
	})
}
