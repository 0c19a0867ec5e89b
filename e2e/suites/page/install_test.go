package page

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// aptGet stands in for Debian's: it records how it is called, and "installs" the
// packages by their names.
const aptGet = `#!/bin/sh
echo "$@" >> "$0.calls"
[ "$1" = install ] || exit 0
for name; do case "$name" in chromium|npm) printf '#!/bin/sh\n' > "${0%/*}/$name"; chmod +x "${0%/*}/$name";; esac; done
`

// TestInstallsWhatIsMissing: without Chromium and npm, the script has apt-get
// install both, and names them where it cannot.
func TestInstallsWhatIsMissing(t *testing.T) {
	_, err := installed() // axe-core is there then
	testenv.Must(t, err)
	folder := t.TempDir()
	for _, program := range []string{"bash", "sh", "env", "dirname", "cmp", "chmod"} {
		path, err := exec.LookPath(program)
		testenv.Must(t, err)
		testenv.Must(t, os.Symlink(path, filepath.Join(folder, program)))
	}
	run := func() (string, string, error) {
		command := exec.CommandContext(t.Context(), "./install.sh")
		command.Env = []string{"PATH=" + folder}
		var stderr strings.Builder
		command.Stderr = &stderr
		output, err := command.Output()
		return strings.TrimSpace(string(output)), stderr.String(), err
	}
	if _, stderr, err := run(); err == nil || !strings.Contains(stderr, "need chromium npm: install them, or set CHROMIUM") {
		t.Errorf("without apt-get: %v\n%s", err, stderr)
	}
	testenv.Must(t, os.WriteFile(filepath.Join(folder, "apt-get"), []byte(aptGet), 0o755))
	path, stderr, err := run()
	if err != nil || path != filepath.Join(folder, "chromium") {
		t.Errorf("with apt-get: %q, %v\n%s", path, err, stderr)
	}
	calls, err := os.ReadFile(filepath.Join(folder, "apt-get.calls"))
	testenv.Must(t, err)
	if want := "update -q\ninstall -qy --no-install-recommends chromium npm\n"; string(calls) != want {
		t.Errorf("apt-get was called\n%swant\n%s", calls, want)
	}
}
