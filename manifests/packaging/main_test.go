package packaging

import (
	"log/slog"
	"os"
	"testing"
)

// TestMain keeps Helm from telling of each link in the chart.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}
