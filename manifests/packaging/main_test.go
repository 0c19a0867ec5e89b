package packaging

import (
	"log"
	"log/slog"
	"os"
	"os/exec"
	"testing"
)

// TestMain runs the command that the READMEs name for a checkout, because the
// AlertingRules are not committed. Helm logs each link in the chart: discarded.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if output, err := exec.Command("make", "-C", "../..", "manifests").CombinedOutput(); err != nil {
		log.Fatalf("make manifests: %v\n%s", err, output)
	}
	os.Exit(m.Run())
}
