package main

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

func readme(t *testing.T) string {
	t.Helper()
	b := must.Get(os.ReadFile("README.md"))(t)
	return string(b)
}

func blocks(text, language string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

var called = regexp.MustCompile(`(?m)(?:^|\| |- (?:run: )?|source <\()webhook-auditor (.*)$`)

// TestReadmeCommands: the commands of the README are understood.
func TestReadmeCommands(t *testing.T) {
	text := readme(t)
	var lines []string
	for _, block := range slices.Concat(blocks(text, "sh"), blocks(text, "yaml")) {
		for _, m := range called.FindAllStringSubmatch(block, -1) {
			lines = append(lines, m[1])
		}
	}
	if len(lines) < 15 {
		t.Errorf("found %d commands only: %q", len(lines), lines)
	}
	for _, line := range lines {
		if err := understood(line); err != nil {
			t.Errorf("webhook-auditor %s: %v", line, err)
		}
	}
}

// understood parses a command line without running it.
func understood(line string) error {
	c, args, err := newRoot(program, streams{}).Find(argumentsOf(line))
	if err != nil {
		return err
	}
	if err := c.ParseFlags(args); err != nil {
		return err
	}
	if !c.Runnable() {
		return errors.New("no such command")
	}
	return c.ValidateArgs(c.Flags().Args())
}

// argumentsOf are the words of a line up to a comment, a pipe or a redirection,
// as a shell reads them.
func argumentsOf(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`'([^']*)'|([^\s']+)`).FindAllStringSubmatch(line, -1) {
		if slices.Contains([]string{"#", "|", ">", "&&"}, m[2]) {
			break
		}
		out = append(out, m[1]+m[2])
	}
	return out
}

// TestReadmePipelines: the examples are YAML, and each one audits a change.
func TestReadmePipelines(t *testing.T) {
	pipelines := blocks(string(must.Get(os.ReadFile("../../docs/ci.md"))(t)), "yaml")
	if len(pipelines) != 2 {
		t.Errorf("%d pipelines, want one for GitHub and one for GitLab", len(pipelines))
	}
	for _, pipeline := range pipelines {
		if err := yaml.UnmarshalStrict([]byte(pipeline), &map[string]any{}); err != nil {
			t.Errorf("%v in:\n%s", err, pipeline)
		}
		if !strings.Contains(pipeline, "--baseline") || !strings.Contains(pipeline, "--fail-on") {
			t.Errorf("it audits nothing:\n%s", pipeline)
		}
	}
}

// TestReadmeListsAllCommands holds the table against the program.
func TestReadmeListsAllCommands(t *testing.T) {
	for _, c := range newRoot(program, streams{}).Commands() {
		if !strings.Contains(readme(t), "\n| `"+c.Name()+"` |") {
			t.Errorf("no row for %s", c.Name())
		}
	}
}

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
