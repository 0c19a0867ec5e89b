package inputs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestRecordedResourcesAreServed holds what the auditor assumes of a server it
// cannot ask against the server itself: one without the CRDs of other tests. With
// RECORD=1 it writes what the server serves.
func TestRecordedResourcesAreServed(t *testing.T) {
	t.Parallel()
	file := "../../../pkg/inventory/served/v" + programs.Release() + ".txt"
	_, lists, err := older.Use(t).Kube.Discovery().ServerGroupsAndResources() // where no test makes CRDs
	testenv.Must(t, err)
	var lines []string
	for _, list := range lists {
		for _, r := range list.APIResources {
			scope := "cluster"
			if r.Namespaced {
				scope = "namespaced"
			}
			verbs := strings.Join(slices.Sorted(slices.Values(r.Verbs)), ",")
			lines = append(lines, strings.Join([]string{list.GroupVersion, r.Name, r.Kind, scope, verbs}, " ")+"\n")
		}
	}
	slices.Sort(lines)
	served := strings.Join(lines, "")
	if os.Getenv("RECORD") == "1" {
		testenv.Must(t, os.WriteFile(file, []byte(served), 0o644))
	}
	recorded := testenv.Get(os.ReadFile(file))(t)
	if served != string(recorded) {
		t.Errorf("%s is out of date (RECORD=1 renews it); the server serves\n%s", file, served)
	}
}
