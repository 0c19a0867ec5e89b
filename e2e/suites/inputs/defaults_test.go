package inputs

import (
	"os"
	"os/exec"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestDefaultsAreTheAPIServers: a unit test holds what is read of files against a record
// of what the tables of defaults of kube-apiserver make of them; this is how to renew it.
func TestDefaultsAreTheAPIServers(t *testing.T) {
	t.Parallel()
	const folder = "../../../pkg/inventory/manifest/testdata/defaults/"
	tables := testenv.Get(programs.Defaults())(t)
	written := testenv.Get(os.Open(folder + "written.yaml"))(t)
	defer written.Close()
	recorded := testenv.Get(os.ReadFile(folder + "stored.yaml"))(t)
	program := exec.CommandContext(t.Context(), tables)
	program.Stdin = written
	got := testenv.Get(program.Output())(t)
	if string(got) != string(recorded) {
		t.Errorf("stored.yaml is out of date: %s <written.yaml >stored.yaml in %s", tables, folder)
	}
}
