//go:build contributing

// Package contributing follows CONTRIBUTING.md as printed.
package contributing

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
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

// section is a chapter of the page.
type section struct {
	title string
	steps []step
}

var (
	fence = regexp.MustCompile("^```(\\w+)(?: ([^,\n]+)(.*))?$")
	title = regexp.MustCompile(`^## (Add .+)$`)
)

// sections reads the page.
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
		s := step{language: m[1], path: m[2]}
		for _, after := range strings.Split(m[3], ", after: ")[1:] {
			s.after = append(s.after, after)
		}
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

func TestContributing(t *testing.T) {
	root := testenv.Get(programs.Root())(t)
	page := testenv.Get(os.ReadFile(filepath.Join(root, "CONTRIBUTING.md")))(t)
	limits := map[string]int{
		"Add a check": 4, "Add a metric": 2, "Add a panel": 1, "Add an alert": 3, "Add a flag": 1, "Add a key of the Policy": 5,
		"Add a cause of `explain --error`": 2, "Add a watched kind": 7, "Add a generator of claims": 2,
	}
	dir := copied(t, root)
	for _, s := range sections(t, string(page)) {
		t.Run(s.title, func(t *testing.T) {
			restore(t, dir)
			touched := map[string]bool{}
			for _, step := range s.steps {
				if step.language == "sh" && step.path == "" {
					step.run(t, dir)
					continue
				}
				touched[step.path] = true
				step.write(t, dir)
			}
			if len(touched) == 0 || len(touched) > limits[s.title] {
				t.Errorf("%d files by hand, want 1 to %d", len(touched), limits[s.title])
			}
		})
		delete(limits, s.title)
	}
	for title := range limits {
		t.Errorf("CONTRIBUTING.md has no section %q", title)
	}
}

// copied is a repository with what this one has, uncommitted changes included. Its path is
// always the same: what one recipe, or an earlier run, has compiled no other compiles again.
func copied(t *testing.T, root string) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("contributing-%x", sha256.Sum256([]byte(root)))[:24])
	testenv.Must(t, os.RemoveAll(dir))
	testenv.Must(t, os.MkdirAll(dir, 0o755))
	t.Cleanup(func() { testenv.Must(t, os.RemoveAll(dir)) })
	shell(t, dir, root, `(cd "$ROOT" && git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read --files-from=- 2>/dev/null) | tar -x`)
	shell(t, dir, root, "git init -q && git add -A && git -c user.name=x -c user.email=x@example.com commit -qm copy")
	return dir
}

// restore takes the changes of a recipe back. Servers are those of this repository.
func restore(t *testing.T, dir string) {
	t.Helper()
	root := testenv.Get(programs.Root())(t)
	shell(t, dir, root, `git reset -q --hard && git clean -fdxq && if [ -d "$ROOT/e2e/bin" ]; then ln -s "$ROOT/e2e/bin" e2e/bin; fi`)
}

func shell(t *testing.T, dir, root, command string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "sh", "-ec", command)
	run.Dir, run.Env = dir, append(os.Environ(), "ROOT="+root, "GIT_CONFIG_GLOBAL="+os.DevNull)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// run runs the commands of a block.
func (s step) run(t *testing.T, dir string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-ec", s.text)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", s.text, err, out)
	}
}

// write creates the file, or inserts the lines.
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
