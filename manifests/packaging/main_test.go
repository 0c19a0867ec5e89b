package packaging

import (
	"log"
	"log/slog"
	"os"
	"os/exec"
	"testing"
)

// TestMain builds the binary. Helm logs each link in the chart: discarded.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if output, err := exec.Command("make", "-C", "../..", "build").CombinedOutput(); err != nil {
		log.Fatalf("make build: %v\n%s", err, output)
	}
	os.Exit(m.Run())
}
