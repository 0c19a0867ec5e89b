package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/served"
)

// TestRecordedResourcesAreServed holds what the auditor assumes of a server it
// cannot ask against the server itself: one without the CRDs of other tests.
// "go run ./record bin ../pkg/inventory/served" renews the record.
func TestRecordedResourcesAreServed(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile("../pkg/inventory/served/v1.37.txt")
	must(t, err)
	lines, err := served.Lines(use(t, guarded).kube.Discovery()) // where no test makes CRDs
	must(t, err)
	if strings.Join(lines, "\n")+"\n" != string(recorded) {
		t.Errorf("the record is out of date; the server serves\n%s", strings.Join(lines, "\n"))
	}
}
