package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// codeSpans are the code spans of a Markdown file that begin with prefix, without
// the escapes of a table.
func codeSpans(t *testing.T, path, prefix string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	var out []string
	for _, m := range regexp.MustCompile("`("+prefix+"[^`\n]*)`").FindAllStringSubmatch(string(text), -1) {
		out = append(out, strings.ReplaceAll(m[1], `\|`, "|"))
	}
	return out
}

// TestDocumentedCommands: the commands in the text of the READMEs are understood.
func TestDocumentedCommands(t *testing.T) {
	for path, least := range map[string]int{"../../README.md": 3, "../../docs/releases.md": 1, "../../SECURITY.md": 1} {
		commands := codeSpans(t, path, program+" ")
		if len(commands) < least {
			t.Errorf("%s: found %d commands only: %q", path, len(commands), commands)
		}
		for _, command := range commands {
			if err := understood(strings.TrimPrefix(command, program+" ")); err != nil {
				t.Errorf("%s: %s: %v", path, command, err)
			}
		}
	}
}

// TestObjectivesAreQueries: Prometheus understands the expressions of the
// objectives.
func TestObjectivesAreQueries(t *testing.T) {
	const path = "../../docs/operate.md"
	text := must.Get(os.ReadFile(path))(t)
	queries := append(blocks(string(text), "promql"), codeSpans(t, path, "(?:absent|count_over_time|group|min|sum|time)\\(")...)
	if len(queries) != 7 {
		t.Errorf("%d queries, want 7: %q", len(queries), queries)
	}
	for _, query := range queries {
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}
