package rules

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// A unitCase is one of testdata/cases: how often it is scraped and evaluated, series in the
// notation of promtool, and which alerts fire at which times, with which labels; none stands for
// silence.
type unitCase struct {
	name         string
	scrape, step time.Duration
	series       []string
	moments      []moment
}

type moment struct {
	time  time.Duration
	alert string
	fires []string // labels, sorted
}

// unitCases are those of all files.
func unitCases(t testing.TB) []unitCase {
	t.Helper()
	var out []unitCase
	var text strings.Builder
	for _, file := range must.Get(filepath.Glob("testdata/cases/*.txt"))(t) {
		text.WriteString(string(must.Get(os.ReadFile(file))(t)) + "\n")
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text.String()), "\n\n") {
		of := unitCase{}
		for line := range strings.SplitSeq(strings.TrimSpace(paragraph), "\n") {
			fields := strings.Fields(line)
			switch fields[0] {
			case "#":
				of.name = strings.Join(fields[1:], " ")
			case "every":
				of.scrape, of.step = parsedTime(t, fields[1]), parsedTime(t, fields[2])
			case "at":
				fires := strings.SplitAfter(strings.TrimPrefix(line, strings.Join(fields[:3], " ")), `"}`)
				of.moments = append(of.moments, moment{parsedTime(t, fields[1]), fields[2], sortedLabels(fires)})
			default:
				of.series = append(of.series, line)
			}
		}
		out = append(out, of)
	}
	return out
}

// sortedLabels are the labels of alerts, without those that all have.
func sortedLabels(texts []string) []string {
	out := []string{}
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, strings.ReplaceAll(text, ", ", ","))
		}
	}
	slices.Sort(out)
	return out
}

func parsedTime(t testing.TB, text string) time.Duration {
	t.Helper()
	return time.Duration(must.Get(model.ParseDuration(text))(t))
}

// caseWorlds are the worlds of the cases: one for those that are scraped and evaluated alike, and
// one for each that is about what is not there.
func caseWorlds(t testing.TB) []*world {
	t.Helper()
	alike := map[string]*world{}
	for _, c := range unitCases(t) {
		key, cluster := fmt.Sprint("cases of ", c.scrape, c.step), c.name
		if strings.Contains(fmt.Sprint(c.moments), "WebhookAuditor") || strings.Contains(fmt.Sprint(c.moments), "WebhookUnwatched") {
			key, cluster = c.name, ""
		}
		w := cmp.Or(alike[key], &world{name: key, scrape: c.scrape, step: c.step})
		alike[key] = w
		of := scenario{name: c.name, cluster: cluster, series: c.series, wrong: c.wrong}
		for _, m := range c.moments {
			of.alerts, w.last = append(of.alerts, m.alert), max(w.last, m.time)
		}
		w.scenarios = append(w.scenarios, of)
	}
	return slices.SortedFunc(maps.Values(alike), func(a, b *world) int { return strings.Compare(a.name, b.name) })
}

func (c unitCase) wrong(fires firings) string {
	for _, m := range c.moments {
		got := []string{}
		for _, a := range firingOf(fires(m.time), m.alert) {
			l := labels.NewBuilder(a.Labels).Del("cluster", "component", labels.AlertName).Labels()
			got = append(got, l.String())
		}
		if got = sortedLabels(got); !slices.Equal(got, m.fires) {
			return fmt.Sprintf("%s is %q after %s, want %q", m.alert, got, m.time, m.fires)
		}
	}
	return ""
}

// TestCasesOfEachAlert: each signal alert fires in a case, is silent before, and resolves.
func TestCasesOfEachAlert(t *testing.T) {
	sees := map[string]map[string]bool{}
	for _, c := range unitCases(t) {
		fired := map[string]bool{}
		for _, m := range c.moments {
			if sees[m.alert] == nil {
				sees[m.alert] = map[string]bool{}
			}
			switch {
			case len(m.fires) > 0:
				sees[m.alert]["fires"] = true
			case fired[m.alert]:
				sees[m.alert]["resolves"] = true
			default:
				sees[m.alert]["silent"] = true
			}
			fired[m.alert] = len(m.fires) > 0
		}
	}
	for _, a := range all() {
		if got := slices.Sorted(maps.Keys(sees[a.Name])); len(a.Checks) == 0 && !slices.Equal(got, []string{"fires", "resolves", "silent"}) {
			t.Errorf("the cases see %s only as %q", a.Name, got)
		}
	}
}

// triggersOf is what the alert fires on by the first case that sees it fire: each
// series goes on as it did in the minute before.
func triggersOf(t *testing.T, alert string) []trace {
	t.Helper()
	for _, c := range unitCases(t) {
		for _, m := range c.moments {
			if m.alert == alert && len(m.fires) > 0 {
				return c.tracesAt(t, m.time)
			}
		}
	}
	return nil
}

func (c unitCase) tracesAt(t *testing.T, offset time.Duration) []trace {
	t.Helper()
	now, before := int(offset/c.scrape), int((offset-minute)/c.scrape)
	var out []trace
	for i, s := range parsed(t, c.series) {
		name, _, _ := strings.Cut(c.series[i], "} ")
		name += "}"
		is, was := s.values[min(now, len(s.values)-1)], s.values[min(before, len(s.values)-1)]
		switch {
		case !is.Omitted && !was.Omitted && is.Value > was.Value:
			out = append(out, grows(name, is.Value-was.Value))
		case !is.Omitted:
			out = append(out, stays(name, is.Value))
		}
	}
	return out
}
