package dashboards

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/rules"
)

// hour is what the pictures are drawn from: an hour of the series of a real API
// server, of the auditor and of Prometheus with the project's rules.
const hour = "../e2e/screenshots/recorded/hour.om.gz"

// TestRecorded holds that the pictures show what this program exports: each
// check, class, alert, condition and series of the recording exists.
func TestRecorded(t *testing.T) {
	file := must.Get(os.Open(hour))(t)
	defer file.Close()
	text := must.Get(gzip.NewReader(file))(t)
	got := vocabulary(t, text)
	for _, complaint := range unknownNames(got, spoken(t)) {
		t.Errorf("the recording has the %s; record it anew: see e2e/screenshots", complaint)
	}
	for label, least := range map[string]int{"check": 8, "class": 4, "alertname": 8, "condition": 8, "series": 20} {
		if len(got[label]) < least {
			t.Errorf("only %d times %s in the recording", len(got[label]), label)
		}
	}
}

// TestRecordedStrangers shows that an invented name is noticed.
func TestRecordedStrangers(t *testing.T) {
	invented := strings.NewReader("webhook_auditor_finding{check=\"ca-expiring\",class=\"vital\"} 1 1\nALERTS{alertname=\"WebhookSad\"} 1 1\nwebhook_auditor_mood{} 1 1\nALERTS{namespace=\"{{ $labels.x }}\"} 1 1\n")
	want := []string{"alertname WebhookSad", "check ca-expiring", "class vital", "series webhook_auditor_mood", `template namespace="{{ $labels.x }}"`}
	if got := unknownNames(vocabulary(t, invented), spoken(t)); !slices.Equal(got, want) {
		t.Errorf("noticed %q", got)
	}
}

var sample = regexp.MustCompile(`^(\w+)\{(.*)\} \S+ \d+$`)

var pair = regexp.MustCompile(`(check|class|alertname|condition)="([^"]*)"`)

// unrendered is a label that shows its template instead of its value.
var unrendered = regexp.MustCompile(`\w+="[^"]*{{[^"]*"`)

// vocabulary returns the names in a text of samples, by what they name.
func vocabulary(t *testing.T, text io.Reader) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{"check": {}, "class": {}, "alertname": {}, "condition": {}, "series": {}, "template": {}}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := sample.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if template := unrendered.FindString(m[2]); template != "" {
			out["template"][template] = true
		}
		if strings.HasPrefix(m[1], "webhook_auditor_") {
			out["series"][m[1]] = true
		}
		for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
			out[p[1]][p[2]] = true
		}
	}
	must.Succeed(t, lines.Err())
	return out
}

// spoken are the names that the program has.
func spoken(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{"check": {}, "class": {}, "alertname": {}, "condition": {}, "series": {}}
	for _, c := range classify.Checks {
		out["check"][c.Name] = true
		for _, condition := range c.Condition {
			out["condition"][condition] = true
		}
	}
	for _, c := range classify.Classes {
		out["class"][string(c)] = true
	}
	written := must.Get(rules.Render(rules.RuleFile, rules.Options{}))(t)
	for _, m := range regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllStringSubmatch(string(written), -1) {
		out["alertname"][m[1]] = true
	}
	for _, c := range []string{"Available", "Progressing", "Upgradeable", "Degraded", "EvaluationConditionsDetected", "ResourceControllersError"} {
		out["condition"][c] = true
	}
	var documented bytes.Buffer
	must.Succeed(t, exporter.WriteMetrics(&documented))
	for _, name := range regexp.MustCompile(`webhook_auditor_\w+`).FindAllString(documented.String(), -1) {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			out["series"][name+suffix] = true
		}
	}
	return out
}

// unknownNames are the names in got that are not in known, in order.
func unknownNames(got, known map[string]map[string]bool) []string {
	var out []string
	for what, names := range got {
		for name := range maps.Keys(names) {
			if !known[what][name] {
				out = append(out, fmt.Sprintf("%s %s", what, name))
			}
		}
	}
	slices.Sort(out)
	return out
}
