package observe

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestTopWatch: it prints whole documents, one after the other, until Ctrl-C ends
// it, which is a success.
func TestTopWatch(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	cmd := exec.CommandContext(t.Context(), testenv.Binary(t), "top", "--watch", "-o", "json", "--observe-for=1s", "--kubeconfig="+w.Plane.Kubeconfig())
	cmd.WaitDelay = testenv.MaxWait
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	testenv.Must(t, err)
	testenv.Must(t, cmd.Start())
	documents := json.NewDecoder(stdout)
	var taken []time.Time
	for range 3 {
		var document struct{ Taken time.Time }
		if err := documents.Decode(&document); err != nil {
			t.Fatalf("%v: %s", err, &stderr)
		}
		taken = append(taken, document.Taken)
	}
	if !taken[0].Before(taken[1]) || !taken[1].Before(taken[2]) {
		t.Errorf("documents of %v", taken)
	}
	testenv.Must(t, cmd.Process.Signal(os.Interrupt))
	for documents.More() { // printed before it ended
		var document map[string]any
		if err := documents.Decode(&document); err != nil {
			t.Errorf("a document is cut short: %v", err)
			break
		}
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v: %s", err, &stderr)
	}
}
