// Package contributing follows CONTRIBUTING.md as printed.
package contributing

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// step is a fenced block of the page: a file to create, lines to insert into one,
// or commands.
type step struct {
	language, path string
	// after are the lines, each below the one before, under which the block is
	// inserted; none where the file is created.
	after []string
	text  string
}

type section struct {
	title string
	steps []step
}

var (
	fence = regexp.MustCompile("^```(\\w+)(?: ([^,\n]+)(.*))?$")
	title = regexp.MustCompile(`^## (Add .+)$`)
)

func sections(t *testing.T, page string) []section {
	t.Helper()
	var out []section
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		if m := title.FindStringSubmatch(lines[i]); m != nil {
			out = append(out, section{title: m[1]})
			continue
		}
		m := fence.FindStringSubmatch(lines[i])
		if m == nil || len(out) == 0 {
			continue
		}
		s := step{language: m[1], path: m[2], after: strings.Split(m[3], ", after: ")[1:]}
		var text []string
		for i++; i < len(lines) && !closes(s, lines, i); i++ {
			text = append(text, lines[i])
		}
		s.text = strings.Join(text, "\n") + "\n"
		last := &out[len(out)-1]
		last.steps = append(last.steps, s)
	}
	return out
}

// closes reports whether line i ends the block: in a runbook, which has blocks
// itself, only the fence that ends the outer one, whose inner fences are paired.
func closes(s step, lines []string, i int) bool {
	if lines[i] != "```" {
		return false
	}
	if s.language != "md" {
		return true
	}
	open := 0
	for j := i - 1; !strings.HasPrefix(lines[j], "```md "); j-- {
		if strings.HasPrefix(lines[j], "```") {
			open++
		}
	}
	return open%2 == 0
}

func (s step) write(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(s.path))
	if len(s.after) == 0 {
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("CONTRIBUTING.md creates %s, which exists: choose another example", s.path)
		}
		testenv.Must(t, os.WriteFile(path, []byte(s.text), 0o644))
		return
	}
	text := testenv.Get(os.ReadFile(path))(t)
	at := 0
	for _, line := range s.after {
		i := bytes.Index(text[at:], []byte("\n"+line+"\n"))
		if i < 0 {
			t.Fatalf("CONTRIBUTING.md inserts lines into %s after %q, which is not there: correct the page", s.path, line)
		}
		at += i + len(line) + 1
	}
	testenv.Must(t, os.WriteFile(path, []byte(string(text[:at+1])+s.text+string(text[at+1:])), 0o644))
}

// TestRecipesFit holds in a second what TestContributing needs minutes to reach: the
// lines below which a recipe inserts are there.
func TestRecipesFit(t *testing.T) {
	root := testenv.Get(programs.Root())(t)
	page := testenv.Get(os.ReadFile(filepath.Join(root, "CONTRIBUTING.md")))(t)
	for _, s := range sections(t, string(page)) {
		t.Run(s.title, func(t *testing.T) {
			dir := t.TempDir()
			for _, step := range s.steps {
				file := filepath.Join(dir, step.path)
				if _, err := os.Stat(file); step.path != "" && err != nil {
					testenv.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
					if text, err := os.ReadFile(filepath.Join(root, step.path)); err == nil {
						testenv.Must(t, os.WriteFile(file, text, 0o644))
					}
				}
				if step.path != "" {
					step.write(t, dir)
				}
			}
		})
	}
}
