package rules

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// tick is how often the tests scrape and evaluate, as most clusters do.
const tick = 30 * time.Second

var _ = debug.SetGCPercent(400) // an evaluation leaves much garbage, and little that stays

// evaluator evaluates all alerts, tick by tick, as Prometheus does, over series
// that were written in advance.
type evaluator struct {
	t       testing.TB
	tick    time.Duration
	storage storage.Storage
	groups  []*rules.Group
	now     time.Duration
	mutated bool // its rules may be none that can be evaluated
}

// evaluate loads series, each a line in the notation of promtool's tests with one
// value each tick.
func evaluate(t testing.TB, o Options, series ...string) *evaluator {
	t.Helper()
	return evaluateFile(t, ruleFile(t, o), tick, series)
}

// evaluateFile evaluates the alerts of a file over series with one value each tick.
func evaluateFile(t testing.TB, file string, tick time.Duration, series []string) *evaluator {
	t.Helper()
	return evaluateOn(t, file, tick, scrapedInto(t, tick, parsed(t, series)))
}

// evaluateOn evaluates the alerts of a file over what was scraped.
func evaluateOn(t testing.TB, file string, tick time.Duration, stored storage.Storage) *evaluator {
	t.Helper()
	p := &evaluator{t: t, tick: tick, storage: stored}
	p.load(file)
	for _, g := range p.groups {
		for _, r := range g.AlertingRules() {
			r.SetRestored(true) // has ALERTS written, as a Prometheus does once it runs
		}
	}
	return p
}

// scrapedSeries is a series, and what it says at each scrape.
type scrapedSeries struct {
	labels labels.Labels
	values []parser.SequenceValue
}

// parsed reads series in the notation of promtool's tests.
func parsed(t testing.TB, series []string) []scrapedSeries {
	t.Helper()
	var out []scrapedSeries
	for _, line := range series {
		l, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("parsing %q: %v", line, err)
		}
		out = append(out, scrapedSeries{l, values})
	}
	return out
}

// scrapedInto is a storage with series that were scraped one scrape after the
// other. Stored at once, each would keep a transaction for each sample, which
// makes reading it several times dearer than it is.
func scrapedInto(t testing.TB, interval time.Duration, series []scrapedSeries) *teststorage.TestStorage {
	t.Helper()
	s := teststorage.New(t, func(o *tsdb.Options) { // takes what is recorded at the begin of days
		o.MinBlockDuration, o.MaxBlockDuration = (20 * 24 * time.Hour).Milliseconds(), (20 * 24 * time.Hour).Milliseconds()
	})
	refs := make([]storage.SeriesRef, len(series))
	for scrape, more := 0, true; more; scrape++ {
		more = false
		appender := s.Appender(t.Context())
		at := (time.Duration(scrape) * interval).Milliseconds()
		for i, one := range series {
			if scrape >= len(one.values) {
				continue
			}
			more = true
			if said := one.values[scrape]; !said.Omitted {
				ref, err := appender.Append(refs[i], one.labels, at, said.Value)
				if err != nil {
					t.Fatalf("appending to %s: %v", one.labels, err)
				}
				refs[i] = ref
			}
		}
		must.Succeed(t, appender.Commit())
	}
	s.ForceHeadMMap()
	return s
}

// load reads the rules, as Prometheus does when it starts.
func (p *evaluator) load(file string) {
	p.t.Helper()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:       rules.EngineQueryFunc(promqltest.NewTestEngine(p.t, false, 0, 50_000_000), p.storage),
		NotifyFunc:      func(context.Context, string, ...*rules.Alert) {},
		Appendable:      p.storage,
		Queryable:       p.storage,
		Context:         p.t.Context(),
		Logger:          promslog.NewNopLogger(),
		Parser:          parser.NewParser(parser.Options{}),
		OutageTolerance: time.Hour,
		ForGracePeriod:  10 * time.Minute,
	})
	byName, errs := manager.LoadGroups(p.tick, labels.EmptyLabels(), "", nil, false, file)
	if errs != nil {
		p.t.Fatal(errs)
	}
	p.groups = slices.SortedFunc(maps.Values(byName), func(a, b *rules.Group) int { return strings.Compare(a.Name(), b.Name()) })
}

// eval evaluates the groups whose turn it is. They are in the order of their
// names, so that some read what others recorded at the evaluation before.
func (p *evaluator) eval(offset time.Duration) {
	for _, g := range p.groups {
		if offset%g.Interval() < p.tick {
			g.Eval(p.t.Context(), time.Unix(0, 0).Add(offset))
		}
	}
}

// restart starts Prometheus anew: it evaluates once, and restores the alerts.
func (p *evaluator) restart(file string, offset time.Duration) {
	p.t.Helper()
	p.load(file)
	for _, g := range p.groups {
		g.Eval(p.t.Context(), time.Unix(0, 0).Add(offset))
		g.RestoreForState(time.Unix(0, 0).Add(offset))
	}
	p.now = offset + p.tick
}

// only leaves out the groups that neither hold one of the alerts nor record anything.
func (p *evaluator) only(names ...string) {
	p.groups = slices.DeleteFunc(p.groups, func(g *rules.Group) bool {
		return len(g.AlertingRules()) == len(g.Rules()) && !slices.ContainsFunc(g.Rules(), func(r rules.Rule) bool { return slices.Contains(names, r.Name()) })
	})
}

// ruleFile renders the alerts into a file.
func ruleFile(t testing.TB, o Options) string {
	t.Helper()
	return must.File(t, "rules.yaml", string(must.Get(Render(RuleFile, o))(t)))
}

// whileFiring are the alerts that others look at for as long as they fire.
var whileFiring = regexp.MustCompile(`ALERTS\{alertname=~?"([^"]+)",\s*alertstate="firing"`)

// readBy leaves in the groups the alerts of these names, and the records and alerts that
// they read, in whichever group, so that nothing else is evaluated.
func readBy(groups []monitoringv1.RuleGroup, keep func(monitoringv1.Rule) bool) []monitoringv1.RuleGroup {
	read, waited, before := "", []string{}, -1
	kept := func(r monitoringv1.Rule) bool {
		return r.Record != "" && strings.Contains(read, r.Record) || r.Alert != "" && (keep(r) || slices.Contains(waited, r.Alert))
	}
	for len(read) != before {
		before = len(read)
		var more strings.Builder
		for _, g := range groups {
			for _, r := range g.Rules {
				if kept(r) {
					more.WriteString(r.Expr.String() + r.Annotations["description"])
				}
			}
		}
		read, waited = more.String(), nil
		for _, found := range whileFiring.FindAllStringSubmatch(read, -1) {
			waited = append(waited, strings.Split(found[1], "|")...)
		}
	}
	var out []monitoringv1.RuleGroup
	for _, g := range groups {
		g.Rules = slices.DeleteFunc(g.Rules, func(r monitoringv1.Rule) bool { return !kept(r) })
		if len(g.Rules) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// fileOf renders some alerts into a file, without the annotations, which cost a
// fifth of the time.
func fileOf(t testing.TB, names ...string) string {
	t.Helper()
	return groupFile(t, silentGroupsOf(t, names...))
}

func silentGroupsOf(t testing.TB, names ...string) []monitoringv1.RuleGroup {
	t.Helper()
	return readBy(silenced(usual(t)), func(r monitoringv1.Rule) bool { return slices.Contains(names, r.Alert) })
}

// groupsOf renders some alerts, and the records that they read.
func groupsOf(t testing.TB, names ...string) []monitoringv1.RuleGroup {
	t.Helper()
	return readBy(usual(t), func(r monitoringv1.Rule) bool { return slices.Contains(names, r.Alert) })
}

var usualGroups = sync.OnceValues(Options{}.groups)

// usual are the groups without options, which are rendered once.
func usual(t testing.TB) []monitoringv1.RuleGroup {
	t.Helper()
	out := plain(must.Get(usualGroups())(t))
	for i := range out {
		out[i].Rules = slices.Clone(out[i].Rules)
	}
	return out
}

// plain are the groups without what their rules ask.
func plain(groups []group) []monitoringv1.RuleGroup {
	var out []monitoringv1.RuleGroup
	for _, g := range groups {
		out = append(out, g.RuleGroup)
	}
	return out
}

// silenced drops the annotations.
func silenced(groups []monitoringv1.RuleGroup) []monitoringv1.RuleGroup {
	for _, g := range groups {
		for i := range g.Rules {
			g.Rules[i].Annotations = nil
		}
	}
	return groups
}

// groupFile writes groups that were rendered into a file.
func groupFile(t testing.TB, groups []monitoringv1.RuleGroup) string {
	t.Helper()
	return must.File(t, "rules.yaml", string(must.Get(yaml.Marshal(monitoringv1.PrometheusRuleSpec{Groups: groups}))(t)))
}

// inClusters has the series of each name in a cluster of that name, unless they have one: the
// alerts are about one cluster each, and to evaluate many at once costs hardly more than one.
func inClusters(series map[string][]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(series)) {
		for _, line := range series[name] {
			if name != "" && !strings.Contains(line, "{cluster=") {
				line = strings.Replace(line, "{", fmt.Sprintf("{cluster=%q,", name), 1)
			}
			out = append(out, line)
		}
	}
	return out
}

// evaluateSpan evaluates from one time to another, and returns what fires in a cluster at a time.
func (p *evaluator) evaluateSpan(start, last, step time.Duration) func(cluster string, offset time.Duration) []*rules.Alert {
	p.t.Helper()
	fires := map[time.Duration]map[string][]*rules.Alert{}
	p.tick, p.now = step, start
	for at := start; at <= last; at += step {
		fires[at] = map[string][]*rules.Alert{}
		for _, a := range p.until(at) {
			cluster := a.Labels.Get("cluster")
			fires[at][cluster] = append(fires[at][cluster], a)
		}
	}
	return func(cluster string, offset time.Duration) []*rules.Alert { return fires[offset][cluster] }
}

// until evaluates up to and including a time, and returns the alerts that
// fire then.
func (p *evaluator) until(end time.Duration) []*rules.Alert {
	p.t.Helper()
	for ; p.now <= end; p.now += p.tick {
		p.eval(p.now)
	}
	var firing []*rules.Alert
	for _, g := range p.groups {
		for _, r := range g.AlertingRules() {
			if err := r.LastError(); err != nil && !p.mutated {
				p.t.Fatalf("after %s: evaluating %s: %v", p.now, r.Name(), err)
			}
			firing = append(firing, active(r)...)
		}
	}
	return firing
}

func active(r *rules.AlertingRule) []*rules.Alert {
	return slices.DeleteFunc(r.ActiveAlerts(), func(a *rules.Alert) bool { return a.State != rules.StateFiring })
}

// firing returns what fires at a time, each alert as "Name subject", where
// the subject is what the alert is about: a webhook, a resource or a series.
func (p *evaluator) firing(offset time.Duration) []string {
	p.t.Helper()
	var out []string
	for _, a := range p.until(offset) {
		out = append(out, strings.TrimSpace(a.Labels.Get("alertname")+" "+subject(a.Labels)))
	}
	slices.Sort(out)
	return out
}

func subject(l labels.Labels) string {
	for _, name := range []string{"name", "resource", "series", "pod"} {
		if l.Get(name) != "" {
			return l.Get(name)
		}
	}
	return ""
}
