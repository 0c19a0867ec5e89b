package classify

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

var _ = debug.SetGCPercent(400) // an evaluation leaves much garbage, and little that stays

var taken = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fixture reads a file as a cluster that holds just what the file says. Its
// comments "# as: files", "# server: v1.36", "# routing: cluster-ip", "# probe: …" and
// "# called-last-week: TYPE NAME, …" and "# params: …" say the rest: a manifest cannot
// answer a dial, and has no metrics.
func fixture(t testing.TB, file string) *inventory.Snapshot {
	t.Helper()
	o, _ := manifest.Read([]string{file}, manifest.Options{})
	for _, e := range o.Errors {
		t.Errorf("%s: %v", file, e)
	}
	text := source(t, file)
	if header(text, "as") != "files" {
		o.NamespacesKnown, o.APIServicesKnown, o.PoliciesKnown = true, true, true
		o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	}
	if v := header(text, "server"); v != "" {
		o.Server = must.Get(inventory.ParseVersion(v))(t)
	}
	o.Routing = inventory.Routing(header(text, "routing"))
	s := o.Snapshot(taken)
	s.Probes = probes(t, s, text)
	s.Observed = observed(header(text, "called-last-week"))
	return s
}

// observed is what a Prometheus knows of the last week, if anything.
func observed(called string) *inventory.Observation {
	if called == "" {
		return nil
	}
	o := &inventory.Observation{Scraped: 3, CalledLastWeek: map[inventory.Series]bool{}}
	for webhook := range strings.SplitSeq(called, ", ") {
		kind, name, _ := strings.Cut(webhook, " ")
		o.CalledLastWeek[inventory.Series{Type: inventory.Type(kind), Name: name}] = true
	}
	return o
}

// probes reads the comments `# probe: WEBHOOK {"Answer": "unreachable"}`, the
// rest of which is an inventory.Probe.
func probes(t testing.TB, s *inventory.Snapshot, text string) map[inventory.Ref]inventory.Probe {
	t.Helper()
	out := map[inventory.Ref]inventory.Probe{}
	for _, m := range regexp.MustCompile(`(?m)^# probe: (\S+) (.+)$`).FindAllStringSubmatch(text, -1) {
		var probe inventory.Probe
		if err := json.Unmarshal([]byte(m[2]), &probe); err != nil {
			t.Fatalf("reading the probe of %s: %v", m[1], err)
		}
		i := slices.IndexFunc(s.Webhooks, func(w *inventory.Webhook) bool { return w.Name == m[1] })
		if i < 0 {
			t.Fatalf("a probe of %s, which is not registered", m[1])
		}
		out[s.Webhooks[i].Ref] = probe
	}
	return out
}

// reportOn is the report on a fixture, by the default Policy but for what its
// comment "# policy: {…}" decides.
func reportOn(t *testing.T, file string) *Report {
	t.Helper()
	policy := must.Get(ParsePolicy([]byte(header(source(t, file), "policy"))))(t)
	return evaluate(t, policy, fixture(t, file))
}

func evaluate(t testing.TB, p Policy, s *inventory.Snapshot) *Report {
	t.Helper()
	return must.Get(p.Evaluate(t.Context(), s))(t)
}

// findingOf is a finding of the check, an empty one where there is none.
func findingOf(r *Report, check *Check) *Finding {
	i := slices.IndexFunc(r.Findings, func(f *Finding) bool { return f.Check == check })
	if i < 0 {
		return &Finding{}
	}
	return r.Findings[i]
}

func source(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: add pkg/classify/%s", err, file)
	}
	return string(b)
}

func header(text, key string) string {
	_, after, _ := strings.Cut("\n"+text, "\n# "+key+": ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

var wanted = regexp.MustCompile(`# want ([a-z =-]+)$`)

// wantedChecks returns the checks wanted by line, as NAME or NAME=SEVERITY.
func wantedChecks(text string) map[int][]string {
	out := map[int][]string{}
	for i, line := range strings.Split(text, "\n") {
		if m := wanted.FindStringSubmatch(line); m != nil {
			out[i+1] = strings.Fields(m[1])
			slices.Sort(out[i+1])
		}
	}
	return out
}

// found returns the checks that were found by line, with the severity where one
// is wanted.
func found(r *Report, want map[int][]string) map[int][]string {
	out := map[int][]string{}
	for _, f := range r.Findings {
		label := f.Check.Name
		for _, w := range want[f.Source.Line] {
			if strings.HasPrefix(w, label+"=") {
				label += "=" + f.Severity.String()
			}
		}
		out[f.Source.Line] = append(out[f.Source.Line], label)
	}
	for line := range out {
		slices.Sort(out[line])
	}
	return out
}

// TestChecks: each check has a runbook and a fixture with its stem; of the
// fixture it reports exactly what its comments want. A message completes a sentence,
// and says how to get out.
func TestChecks(t *testing.T) {
	for _, check := range Checks {
		t.Run(check.Name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", check.Name+".yaml")
			want := wantedChecks(source(t, file))
			report := reportOn(t, file)
			if diff := cmp.Diff(want, found(report, want)); diff != "" {
				t.Errorf("%s: by line, -wanted +found; correct the check, or the comments \"# want CHECK\" of the file:\n%s", file, diff)
			}
			if !slices.ContainsFunc(report.Findings, func(f *Finding) bool { return f.Check == check }) {
				t.Errorf("%s shows no finding of the check: add a webhook that it reports, with \"# want %s\" on its line", file, check.Name)
			}
			for _, f := range report.Findings {
				if f.Message == "" || strings.ToLower(f.Message[:1]) != f.Message[:1] || strings.HasSuffix(f.Message, ".") {
					t.Errorf("%s: %s: %q does not complete the sentence \"webhook NAME …\"", file, f.Check.Name, f.Message)
				}
				if f.Fix == "" {
					t.Errorf("%s: %s: no fix", file, f.Check.Name)
				}
			}
		})
	}
}

var sections = regexp.MustCompile(`(?s)^# (\S+)\n\n## Meaning\n\n.+\n## Impact\n\n.+\n## Diagnosis\n\n.+\n## Mitigation\n\n.+\n$`)

func TestRunbooks(t *testing.T) {
	for _, check := range Checks {
		m := sections.FindStringSubmatch(check.Runbook())
		if m == nil || m[1] != check.Name {
			t.Errorf("pkg/classify/%s.md: add it, with the title %q and the sections Meaning, Impact, Diagnosis and Mitigation", check.Name, "# "+check.Name)
		}
		if strings.Contains(check.Runbook(), "\n|") {
			t.Errorf("pkg/classify/%s.md has a table, which the status page does not render: make it a list", check.Name)
		}
	}
}

// TestLiterals holds the checks to what is derived from them.
func TestLiterals(t *testing.T) {
	severityOf := map[string]Severity{}
	names := map[string]bool{}
	for _, c := range Checks {
		if names[c.Name] {
			t.Errorf("two checks are named %s", c.Name)
		}
		names[c.Name] = true
		if c.Severity == 0 || c.Find == nil && c.FindPolicy == nil || !strings.HasSuffix(c.Summary, ".") {
			t.Errorf("%s: want a severity, a summary that is a sentence, and a function", c.Name)
		}
		if (len(c.Condition) > 0) != (c.Reason != "") {
			t.Errorf("%s: want a reason with the condition, and no reason without", c.Name)
		}
		for severity, alert := range c.Alerts {
			if other, ok := severityOf[alert]; ok && other != severity {
				t.Errorf("alert %s has two severities: %s and %s", alert, other, severity)
			}
			severityOf[alert] = severity
		}
		if other, ok := severityOf[c.ConversionAlert]; ok && other != Warning {
			t.Errorf("alert %s has two severities: %s and %s", c.ConversionAlert, other, Warning)
		}
		if c.ConversionAlert != "" && (c.Alerts[Critical] == "" || c.Alerts[Warning] == "") {
			t.Errorf("%s: want an alert to split off from", c.Name)
		}
		if len(c.Alerts) > 0 && c.For == 0 {
			t.Errorf("%s: an alert without a duration pages for every restart", c.Name)
		}
	}
}

// TestNoOrphans: a runbook or a fixture without a check is a left-over.
func TestNoOrphans(t *testing.T) {
	for _, pattern := range []string{"*.md", "testdata/*.yaml"} {
		files := must.Get(filepath.Glob(pattern))(t)
		for _, file := range files {
			stem := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
			if !slices.Contains([]string{"README", "POLICY"}, stem) && !slices.ContainsFunc(Checks, func(c *Check) bool { return c.Name == stem }) {
				t.Errorf("%s belongs to no check", file)
			}
		}
	}
}

// compareSnapshots compares the facts; the index is derived from them.
var compareSnapshots = []cmp.Option{
	cmpopts.IgnoreUnexported(inventory.Snapshot{}, inventory.Selector{}),
	cmp.Comparer(func(a, b []inventory.Served) bool { return reflect.DeepEqual(a, b) }), // hundreds, at once
	cmp.Comparer(func(a, b labels.Selector) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
	cmp.Comparer(func(a, b inventory.NetworkPolicy) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) }),
	cmpopts.EquateErrors(),
}

// TestEvaluateDoesNotWrite: a check that wrote to the Snapshot would make the
// order of the checks matter.
func TestEvaluateDoesNotWrite(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("testdata/*.yaml"))(t)
	for _, file := range files {
		used, pristine := fixture(t, file), fixture(t, file)
		evaluate(t, DefaultPolicy(), used)
		if diff := cmp.Diff(pristine, used, compareSnapshots...); diff != "" {
			t.Errorf("%s: evaluating changed the Snapshot:\n%s", file, diff)
		}
	}
}
