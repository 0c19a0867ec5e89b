package classify

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// outages is how many stories there are.
const outages = 14

var (
	predictedBy = regexp.MustCompile(`(?m)^# predicted by: (.+)$`)
	seenBy      = regexp.MustCompile(`(?m)^# seen only in metrics, by: Webhook\w+$`)
)

// TestOutages: each outage that webhooks are known to have caused is predicted
// by the checks that its story names, or marked as visible in metrics alone.
func TestOutages(t *testing.T) {
	for n := range outages {
		files, err := filepath.Glob(fmt.Sprintf("testdata/outages/%02d-*.yaml", n+1))
		if err != nil || len(files) != 1 {
			t.Fatalf("outage %d: want one file, got %v, %v", n+1, files, err)
		}
		t.Run(filepath.Base(files[0]), func(t *testing.T) { checkOutage(t, files[0]) })
	}
}

func checkOutage(t *testing.T, file string) {
	text := source(t, file)
	report := evaluate(t, DefaultPolicy(), fixture(t, file))
	var found []string
	for _, f := range report.Findings {
		found = append(found, f.Check.Name)
	}
	m := predictedBy.FindStringSubmatch(text)
	if m == nil {
		if !seenBy.MatchString(text) {
			t.Error("neither a check nor an alert is named")
		}
		if totals := report.Totals(); totals.Critical+totals.Warning > 0 {
			t.Errorf("has findings, although it is marked as visible in metrics alone: %v", found)
		}
		return
	}
	for check := range strings.SplitSeq(m[1], ", ") {
		if !slices.Contains(found, check) {
			t.Errorf("%s does not predict it; there are %v", check, found)
		}
	}
	if totals := report.Totals(); totals.Critical+totals.Warning == 0 {
		t.Errorf("nothing above info predicts it: %v", found)
	}
}
