//go:build contributing

package contributing

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

func TestContributing(t *testing.T) {
	root := testenv.Get(programs.Root())(t)
	page := testenv.Get(os.ReadFile(filepath.Join(root, "CONTRIBUTING.md")))(t)
	limits := map[string]int{
		"Add a check": 4, "Add a metric": 2, "Add a panel": 1, "Add an alert": 3, "Add a flag": 1, "Add a key of the Policy": 5,
		"Add a cause of `explain --error`": 2, "Add a watched kind": 6, "Add a generator of claims": 2,
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

func (s step) run(t *testing.T, dir string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-ec", s.text)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", s.text, err, out)
	}
}
