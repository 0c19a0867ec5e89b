package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
)

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
