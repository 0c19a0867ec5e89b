package rules

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
)

// update is how make generate has the tests write what only they can derive:
// the texts of the alerts as Prometheus renders them, and what stands between
// written text.
var update = flag.Bool("update", false, "write what is derived")

// golden compares what was derived with the committed file.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date: run make generate", file)
	}
}

// TestUpToDateReadme keeps the table of alerts in the README as derived.
func TestUpToDateReadme(t *testing.T) {
	const begin, end = "<!-- begin of what is derived -->\n", "<!-- end of what is derived -->\n"
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("README.md lacks the lines %q and %q", begin, end)
	}
	golden(t, "README.md", []byte(before+begin+table()+end+after))
}

// table lists the alerts, those of several checks once each.
func table() string {
	var b strings.Builder
	b.WriteString("| alert | severity | of the enhancement | waits | what it says |\n|---|---|---|---|---|\n")
	for _, a := range all() {
		enhancement := ""
		if a.Enhancement.Severity != 0 {
			enhancement = a.Enhancement.Severity.String()
		}
		fmt.Fprintf(&b, "| [%s](../%s) | %s | %s | %s | %s |\n", a.Name, a.runbook(), a.Severity, enhancement, model.Duration(a.For), plain(a))
	}
	return b.String()
}

// plain returns the summary of an alert without its template.
func plain(a Alert) string {
	if check := a.Labels["check"]; check != "" {
		return "finding of the check `" + check + "`"
	}
	return label.ReplaceAllString(group.ReplaceAllString(a.Summary, ""), "*$1*")
}

var (
	label = regexp.MustCompile(`\{\{ \$labels\.(\w+) \}\}`)
	group = regexp.MustCompile(`\{\{ with .*\{\{ end \}\}`)
)
