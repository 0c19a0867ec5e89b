package inputs

import (
	"os"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apiresources"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestRecordedResourcesAreServed holds what the auditor assumes of a server it
// cannot ask against the server itself: one without the CRDs of other tests. In
// the folder e2e, "go run ./internal/apiresources/record bin
// ../pkg/inventory/served" renews the record.
func TestRecordedResourcesAreServed(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile("../../../pkg/inventory/served/v1.37.txt")
	testenv.Must(t, err)
	lines, err := apiresources.Lines(older.Use(t).Kube.Discovery()) // where no test makes CRDs
	testenv.Must(t, err)
	if strings.Join(lines, "\n")+"\n" != string(recorded) {
		t.Errorf("the record is out of date; the server serves\n%s", strings.Join(lines, "\n"))
	}
}
