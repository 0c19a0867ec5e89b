package diagnose

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// corpusText is a row of testdata/errors.tsv.
type corpusText struct{ cause, firstStep, origin, text string }

// readCorpus reads the texts that users had before them.
func readCorpus(t *testing.T) []corpusText {
	t.Helper()
	return lists.Map(must.Rows(t, "testdata/errors.tsv", 4), func(row []string) corpusText {
		return corpusText{row[0], row[1], row[2], row[3]}
	})
}

// TestForms: each text is read as what it is, of all that it names.
func TestForms(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/forms.tsv", 3) {
		if got, want := summary(row[2]), row[0]+"\t"+row[1]; got != want {
			t.Errorf("%s\nis read as %s, want %s", row[2], got, want)
		}
		for _, c := range Parse(row[2]) {
			if strings.Contains(strings.Join(FromMessage(c).Notes, ""), "went on") != c.WentOn {
				t.Errorf("%s: %+v", row[2], FromMessage(c))
			}
			if a := advices[c.Cause]; a.Meaning == "" || a.Fix == "" {
				t.Errorf("%s: %s has no meaning or fix: %+v", row[2], c.Cause, a)
			}
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
	for _, row := range must.Rows(t, "testdata/unrecognized.tsv", 2) {
		if got := Unrecognized(row[1]); got != row[0] {
			t.Errorf("%s: %s, want %s", row[1], got, row[0])
		}
	}
}
