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
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
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
	mutated bool // its rules may be none that can be evaluated, and then say nothing
	engine  *promql.Engine
	options *rules.ManagerOptions
	ahead   map[string]map[int64]promql.Vector // by expression and time, what queries yield
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
	p.engine = promqltest.NewTestEngine(p.t, false, 0, 500_000_000)
	p.options = &rules.ManagerOptions{
		QueryFunc:       p.query,
		NotifyFunc:      func(context.Context, string, ...*rules.Alert) {},
		Appendable:      p.storage,
		Queryable:       p.storage,
		Context:         p.t.Context(),
		Logger:          promslog.NewNopLogger(),
		Parser:          parser.NewParser(parser.Options{}),
		OutageTolerance: time.Hour,
		ForGracePeriod:  10 * time.Minute,
	}
	byName, errs := rules.NewManager(p.options).LoadGroups(p.tick, labels.EmptyLabels(), "", nil, false, file)
	if errs != nil {
		p.t.Fatal(errs)
	}
	p.groups = slices.SortedFunc(maps.Values(byName), func(a, b *rules.Group) int { return strings.Compare(a.Name(), b.Name()) })
}

// eval evaluates those of the groups whose turn it is. They are in the order of their
// names, so that some read what others recorded at the evaluation before.
func (p *evaluator) eval(groups []*rules.Group, offset time.Duration) {
	for _, g := range groups {
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

// evaluateSpan evaluates from one time to another, and returns what fires in a cluster at a time. Rules
// that do not depend on themselves are evaluated one after the other, each by one query over all the
// time, which takes a fraction of one each time.
func (p *evaluator) evaluateSpan(start, last, step time.Duration) func(cluster string, offset time.Duration) []*rules.Alert {
	p.t.Helper()
	p.tick = step
	fires := map[time.Duration]map[string][]*rules.Alert{}
	for at := start; at <= last; at += step {
		fires[at] = map[string][]*rules.Alert{}
	}
	for _, c := range p.components() {
		p.ahead = nil
		if !c.isCyclic {
			p.lookAhead(c.groups[0].Rules()[0].Query().String(), start, last)
		}
		for at := start; at <= last; at += step {
			p.eval(c.groups, at)
			for _, a := range p.fires(c.groups, at) {
				cluster := a.Labels.Get("cluster")
				fires[at][cluster] = append(fires[at][cluster], a)
			}
		}
	}
	return func(cluster string, offset time.Duration) []*rules.Alert { return fires[offset][cluster] }
}

// query answers a rule, by what was looked ahead if that was.
func (p *evaluator) query(ctx context.Context, expr string, when time.Time) (promql.Vector, error) {
	if vectors, exists := p.ahead[expr]; exists {
		return vectors[when.UnixMilli()], nil
	}
	return rules.EngineQueryFunc(p.engine, p.storage)(ctx, expr, when)
}

// lookAhead evaluates an expression at all times.
func (p *evaluator) lookAhead(expr string, start, last time.Duration) {
	p.t.Helper()
	timeAfter := func(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }
	query := must.Get(p.engine.NewRangeQuery(p.t.Context(), p.storage, nil, expr, timeAfter(start), timeAfter(last), p.tick))(p.t)
	defer query.Close()
	vectors := map[int64]promql.Vector{}
	matrix, err := query.Exec(p.t.Context()).Matrix()
	if err != nil && !p.mutated {
		p.t.Fatalf("evaluating %s: %v", expr, err)
	}
	for _, series := range matrix {
		for _, point := range series.Floats {
			vectors[point.T] = append(vectors[point.T], promql.Sample{Metric: series.Metric, T: point.T, F: point.F})
		}
	}
	p.ahead = map[string]map[int64]promql.Vector{expr: vectors}
}

// A component are rules that depend on each other, in groups as they were, or a single one.
type component struct {
	groups   []*rules.Group
	isCyclic bool
}

// components are those of all rules, each after what it reads. What a rule reads that stands below it in
// its group is read as it was before: these two are evaluated in turn.
func (p *evaluator) components() (out []component) {
	var all []rules.Rule
	groupOf, inputs, depends := map[rules.Rule]*rules.Group{}, map[rules.Rule][]rules.Rule{}, map[rules.Rule]map[rules.Rule]bool{}
	for _, g := range p.groups {
		for _, r := range g.Rules() {
			all, groupOf[r] = append(all, r), g
		}
	}
	for i, reader := range all {
		selectors := parser.ExtractSelectors(reader.Query())
		for k, input := range all {
			if !reads(selectors, input.Name()) {
				continue
			}
			inputs[reader] = append(inputs[reader], input)
			if k > i && groupOf[reader] == groupOf[input] {
				inputs[input] = append(inputs[input], reader)
			}
		}
	}
	for _, r := range all {
		depends[r] = map[rules.Rule]bool{r: true}
		for left := []rules.Rule{r}; len(left) > 0; left = left[1:] {
			for _, input := range inputs[left[0]] {
				if !depends[r][input] {
					depends[r][input] = true
					left = append(left, input)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b rules.Rule) int { return len(depends[a]) - len(depends[b]) })
	done := map[rules.Rule]bool{}
	for _, r := range all {
		if done[r] {
			continue
		}
		c, members := component{isCyclic: slices.Contains(inputs[r], r)}, map[*rules.Group][]rules.Rule{}
		for _, other := range all {
			if depends[r][other] && depends[other][r] {
				members[groupOf[other]] = append(members[groupOf[other]], other)
				done[other], c.isCyclic = true, c.isCyclic || other != r
			}
		}
		for _, g := range p.groups {
			if len(members[g]) > 0 {
				c.groups = append(c.groups, rules.NewGroup(rules.GroupOptions{Name: g.Name(), Interval: g.Interval(), Rules: members[g], Opts: p.options}))
			}
		}
		out = append(out, c)
	}
	return out
}

// reads reports whether selectors select what the rule of the name writes.
func reads(selectors [][]*labels.Matcher, name string) bool {
	isAlert := !strings.Contains(name, ":")
	return slices.ContainsFunc(selectors, func(matchers []*labels.Matcher) bool {
		return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
			switch {
			case m.Name == model.MetricNameLabel && isAlert:
				return !strings.HasPrefix(m.Value, activeAlerts)
			case m.Name == model.MetricNameLabel:
				return m.Value != name
			}
			return isAlert && m.Name == labels.AlertName && !m.Matches(name)
		})
	})
}

// until evaluates up to and including a time, and returns the alerts that
// fire then.
func (p *evaluator) until(end time.Duration) []*rules.Alert {
	p.t.Helper()
	for ; p.now <= end; p.now += p.tick {
		p.eval(p.groups, p.now)
	}
	return p.fires(p.groups, end)
}

// fires returns the alerts of groups that fire after a time.
func (p *evaluator) fires(groups []*rules.Group, elapsed time.Duration) []*rules.Alert {
	p.t.Helper()
	var firing []*rules.Alert
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			if err := r.LastError(); err != nil && !p.mutated {
				p.t.Fatalf("after %s: evaluating %s: %v", elapsed, r.Name(), err)
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
