package diagnose

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// corpusText is a row of testdata/errors.tsv.
type corpusText struct{ cause, firstStep, origin, text string }

// readCorpus reads the texts that users had before them.
func readCorpus(t *testing.T) []corpusText {
	t.Helper()
	return lists.Map(rows(t, "testdata/errors.tsv", 4), func(row []string) corpusText {
		return corpusText{row[0], row[1], row[2], row[3]}
	})
}

// rows reads a table whose last column is a text. A new line in that is written as \n.
func rows(t *testing.T, file string, columns int) [][]string {
	t.Helper()
	var out [][]string
	for line := range strings.Lines(string(must.Get(os.ReadFile(file))(t))) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", columns)
		if len(row) != columns {
			t.Fatalf("%d columns in %q", len(row), line)
		}
		row[columns-1] = strings.ReplaceAll(row[columns-1], `\n`, "\n")
		out = append(out, row)
	}
	return out
}

// TestForms: each form is read as what it is.
func TestForms(t *testing.T) {
	for _, row := range rows(t, "testdata/forms.tsv", 3) {
		got := Parse(row[2])
		of := ""
		if len(got) == 1 {
			c := got[0]
			of = strings.Trim(c.Webhook+c.Object+c.Policy.Name+" "+c.Group+"/"+c.Version+" "+c.Kind, " /")
		}
		if len(got) != 1 || string(got[0].Cause) != row[0] || of != row[1] {
			t.Errorf("%s\nis read as %+v, want %s of %q", row[2], got, row[0], row[1])
		}
	}
}

// TestCorpus: of each text, the cause is named, and the first step.
func TestCorpus(t *testing.T) {
	all := readCorpus(t)
	if len(all) < 120 {
		t.Errorf("%d texts", len(all))
	}
	for _, c := range all {
		got := Parse(c.text)
		if len(got) != 1 || string(got[0].Cause) != c.cause {
			t.Errorf("%s: %s\nis read as %+v, want %s", c.origin, c.text, got, c.cause)
			continue
		}
		if advice := advices[got[0].Cause]; c.firstStep == "" || !strings.HasPrefix(advice.Fix, c.firstStep) {
			t.Errorf("%s: the first step is %q, want %q", c.cause, advice.Fix, c.firstStep)
		}
	}
}

// TestCorpusOrigins: each text is of a test on the real API server, was recorded of one, or
// is of a public thread.
func TestCorpusOrigins(t *testing.T) {
	var e2e strings.Builder
	files, _ := filepath.Glob("../../../e2e/suites/explain/*_test.go")
	for _, file := range files {
		b := must.Get(os.ReadFile(file))(t)
		e2e.Write(b)
	}
	public := regexp.MustCompile(`^https://github\.com/[^/]+/[^/]+/(?:issues|pull)/\d+$`)
	provoked := 0
	for _, c := range readCorpus(t) {
		test, ok := strings.CutPrefix(c.origin, "e2e/suites/explain ")
		switch {
		case ok:
			provoked++
			if !strings.Contains(e2e.String(), "func "+test+"(") {
				t.Errorf("%s: there is no such test", c.origin)
			}
		case c.origin == "kube-apiserver v1.37.1":
			provoked++
		case !public.MatchString(c.origin):
			t.Errorf("%s is neither a test, an API server nor a thread", c.origin)
		}
	}
	if provoked < 40 {
		t.Errorf("%d texts were provoked", provoked)
	}
}

// TestUnrecognized: what names no webhook is answered with what is known of it.
func TestUnrecognized(t *testing.T) {
	expect.Results(t, Unrecognized, map[string]string{
		"what?":                                 "no webhook error recognized",
		"dial tcp: connect: connection refused": `no webhook error recognized, only "connection refused", which names no webhook (where one is called: connection-refused)`,
		`failed to call webhook: Post "https://x.y.svc:443/": proxy error from` + "\n127.0.0.1:6443 while dialing 10.42.3.16:9443, code 503: 503 Service Unavailable": `no webhook error recognized, only "proxy error from 127.0.0.1:6443 while dialing", which names no webhook (where one is called: tunnel)`,
	})
}
