package rules

import (
	"context"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// A mutant is a rule of which one comparison, threshold or matcher is another.
type mutant struct {
	group  string
	rule   monitoringv1.Rule // the usual one
	change string
	expr   string
}

// nameOf is the name of a rule, identityOf is that with what distinguishes records of one name.
func nameOf(r monitoringv1.Rule) string { return r.Alert + r.Record }

func identityOf(r monitoringv1.Rule) string { return nameOf(r) + " " + r.Labels["series"] }

// opposites are what comparisons and matchers become.
var (
	opposites = map[parser.ItemType]parser.ItemType{
		parser.GTR: parser.LTE, parser.LTE: parser.GTR, parser.LSS: parser.GTE, parser.GTE: parser.LSS, parser.EQLC: parser.NEQ, parser.NEQ: parser.EQLC,
	}
	otherMatches = map[labels.MatchType]labels.MatchType{
		labels.MatchEqual: labels.MatchNotEqual, labels.MatchNotEqual: labels.MatchEqual, labels.MatchRegexp: labels.MatchNotRegexp, labels.MatchNotRegexp: labels.MatchRegexp,
	}
)

// mutantsOf are all that a rule can become.
func mutantsOf(t *testing.T, group string, r monitoringv1.Rule) []mutant {
	t.Helper()
	var out []mutant
	for n := 0; ; n++ {
		expr := must.Get(parser.NewParser(parser.Options{}).ParseExpr(r.Expr.String()))(t)
		changes, left := []string{}, n
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			for _, change := range changesOf(nameOf(r), node, path) {
				if left--; left == -1 {
					changes = append(changes, change())
				}
			}
			return nil
		})
		if len(changes) == 0 {
			return out
		}
		out = append(out, mutant{group, r, changes[0], expr.String()})
	}
}

// changesOf change a node of a rule, each in one way, and say how.
func changesOf(rule string, node parser.Node, path []parser.Node) []func() string {
	var out []func() string
	switch n := node.(type) {
	case *parser.BinaryExpr:
		if opposite, compares := opposites[n.Op]; compares {
			out = append(out, func() string {
				was := n.String()
				n.Op = opposite
				return fmt.Sprintf("%s for the comparison of %s", opposite, shortened(was))
			})
		}
	case *parser.NumberLiteral:
		if !isThreshold(n, path) {
			return nil
		}
		for _, other := range []float64{n.Val * 2, n.Val / 2} {
			if usual, exists := findNumber(rule); exists && n.Val == usual.Value && other < usual.Lowest {
				continue // no option gives it: a record that the alert reads ends there
			}
			out = append(out, func() string {
				was := n.Val
				n.Val = other
				return fmt.Sprintf("%g for %g in %s", other, was, shortened(path[len(path)-1].String()))
			})
		}
	case *parser.VectorSelector:
		for i, m := range n.LabelMatchers {
			if m.Name == model.MetricNameLabel {
				continue
			}
			out = append(out, func() string {
				n.LabelMatchers[i] = labels.MustNewMatcher(otherMatches[m.Type], m.Name, m.Value)
				return fmt.Sprintf("%s for %s of %s", n.LabelMatchers[i], m, n.Name)
			})
		}
	}
	return out
}

// isThreshold reports whether a number is compared with, as it is or as a factor. Zero is none:
// that there is any is the comparison's. One below a thousandth is a margin for rounding. Of a
// product of two, the first is a threshold.
func isThreshold(number *parser.NumberLiteral, path []parser.Node) bool {
	for _, parent := range slices.Backward(path) {
		switch n := parent.(type) {
		case *parser.BinaryExpr:
			if n.Op.IsComparisonOperator() {
				return number.Val > 0.001
			}
			if _, isNumber := n.LHS.(*parser.NumberLiteral); isNumber && n.RHS == number {
				return false
			}
		case *parser.ParenExpr, *parser.UnaryExpr:
		default:
			return false
		}
	}
	return false
}

func shortened(expr string) string {
	if len(expr) > 120 {
		return expr[:55] + " … " + expr[len(expr)-60:]
	}
	return expr
}

// allMutants are those of all rules.
func allMutants(t *testing.T) []mutant {
	t.Helper()
	var out []mutant
	for _, g := range usual(t) {
		for _, r := range g.Rules {
			if r.Record == facts {
				continue // which texts alone read: TestAnnotations holds them
			}
			out = append(out, mutantsOf(t, g.Name, r)...)
		}
	}
	return out
}

// inputsOf are, by the names of the rules of the world, those of the rules that each reads.
func (w *world) inputsOf() map[string][]string {
	out := map[string][]string{}
	for _, g := range w.groups {
		for _, r := range g.Rules {
			expr, _ := parser.NewParser(parser.Options{}).ParseExpr(r.Expr.String())
			selectors := parser.ExtractSelectors(expr)
			for _, other := range w.groups {
				for _, input := range other.Rules {
					if reads(selectors, nameOf(input)) {
						out[nameOf(r)] = append(out[nameOf(r)], nameOf(input))
					}
				}
			}
		}
	}
	return out
}

// readers are the names of the rules that a rule reaches, itself first, each after what it reads
// of them, as far as they do not read each other.
func (w *world) readers(name string) []string {
	reached := []string{name}
	for i := 0; i < len(reached); i++ {
		for reader, inputs := range w.inputs {
			if slices.Contains(inputs, reached[i]) && !slices.Contains(reached, reader) {
				reached = append(reached, reader)
			}
		}
	}
	out, left := []string{name}, []string{}
	for _, g := range w.groups {
		for _, r := range g.Rules {
			if n := nameOf(r); n != name && slices.Contains(reached, n) && !slices.Contains(left, n) {
				left = append(left, n)
			}
		}
	}
	for len(left) > 0 {
		next := slices.IndexFunc(left, func(reader string) bool {
			return !slices.ContainsFunc(w.inputs[reader], func(input string) bool { return input != reader && slices.Contains(left, input) })
		})
		next = max(next, 0)
		out, left = append(out, left[next]), slices.Delete(left, next, next+1)
	}
	return out
}

// An extent is what a mutant changes: by rule and cluster, since when it says anything else.
type extent map[string]map[string]time.Duration

// rulesOf are those that say anything else in the cluster.
func (e extent) rulesOf(cluster string) map[string]bool {
	out := map[string]bool{}
	for rule, clusters := range e {
		if _, differs := clusters[cluster]; differs {
			out[rule] = true
		}
	}
	return out
}

// noticedBy is the first scenario of the world whose expectation the mutant does not meet, or "".
func (w *world) noticedBy(t *testing.T, m mutant) string {
	t.Helper()
	extent := w.extent(t, m)
	for _, s := range w.scenarios {
		reached := extent.rulesOf(s.cluster)
		if slices.ContainsFunc(s.alerts, func(name string) bool { return reached[name] }) && w.notices(t, m, reached, s, extent[nameOf(m.rule)][s.cluster]) {
			return s.name
		}
	}
	return ""
}

func (w *world) has(rule monitoringv1.Rule) bool {
	return slices.ContainsFunc(w.groups, func(g monitoringv1.RuleGroup) bool {
		return slices.ContainsFunc(g.Rules, func(r monitoringv1.Rule) bool { return identityOf(r) == identityOf(rule) })
	})
}

// extent is what the mutant changes. Each rule that it reaches is evaluated over all the time at
// once, over what the rules before it now say: that is as it is evaluated, but where a rule
// reads what it yielded itself, of which only the first change is seen. What reads alerts may say
// anything else wherever these do.
func (w *world) extent(t *testing.T, m mutant) extent {
	t.Helper()
	anew := must.Get(teststorage.NewWithError())(t)
	defer func() { must.Succeed(t, anew.Close()) }()
	out, recorded := extent{}, map[string]bool{}
	for _, name := range w.readers(nameOf(m.rule)) {
		isFirst := name == nameOf(m.rule)
		for _, input := range w.inputs[name] {
			if !isFirst && !recorded[input] {
				out.add(name, out[input])
			}
		}
		if !isFirst && !slices.ContainsFunc(w.inputs[name], func(input string) bool { return recorded[input] }) {
			continue
		}
		w.rulesOf(name, func(group string, r monitoringv1.Rule) {
			expr := r.Expr.String()
			if isFirst && identityOf(r) == identityOf(m.rule) {
				expr = m.expr
			}
			yields := w.output(t, group, r, expr, overlay{w.run.storage, anew, recorded, false})
			out.add(name, yields.since(w.usualOutput(t, group, r)))
			if r.Record != "" && len(out[name]) > 0 {
				w.copyBefore(t, anew, map[string]bool{name: true}, "", w.begin)
				yields.record(t, anew, r)
				recorded[name] = true
			}
		})
	}
	return out
}

func (e extent) add(rule string, clusters map[string]time.Duration) {
	for cluster, at := range clusters {
		if e[rule] == nil {
			e[rule] = map[string]time.Duration{}
		}
		if before, exists := e[rule][cluster]; !exists || at < before {
			e[rule][cluster] = at
		}
	}
}

// rulesOf visits the rules of a name.
func (w *world) rulesOf(name string, visit func(group string, r monitoringv1.Rule)) {
	for _, g := range w.groups {
		for _, r := range g.Rules {
			if nameOf(r) == name {
				visit(g.Name, r)
			}
		}
	}
}

var seed = maphash.MakeSeed()

// An output is what a rule yields from when until when.
type output struct {
	matrix             promql.Matrix
	hashes             map[string]map[time.Duration]uint64 // by cluster and time
	begin, last, every time.Duration
}

// usualOutput is what the rule says that is no mutant.
func (w *world) usualOutput(t *testing.T, group string, r monitoringv1.Rule) output {
	t.Helper()
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.usual == nil {
		w.usual = map[string]output{}
	}
	yields, exists := w.usual[identityOf(r)]
	if !exists {
		yields = w.output(t, group, r, r.Expr.String(), w.run.storage)
		yields.matrix = nil
		w.usual[identityOf(r)] = yields
	}
	return yields
}

// output is what an expression yields in the place of a rule. What is recorded at the same time, but
// after it, is read as it was before.
func (w *world) output(t *testing.T, group string, r monitoringv1.Rule, expr string, stored storage.Queryable) output {
	t.Helper()
	parsed := must.Get(parser.NewParser(parser.Options{}).ParseExpr(expr))(t)
	later := w.recordedAfter(group, r)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok && (later[s.Name] || strings.HasPrefix(s.Name, activeAlerts)) {
			s.OriginalOffset += w.step
		}
		return nil
	})
	every := w.interval(group)
	out := output{begin: w.begin.Truncate(every), last: w.last, every: every, hashes: map[string]map[time.Duration]uint64{}}
	query := must.Get(engine(t).NewRangeQuery(t.Context(), stored, nil, parsed.String(), time.Unix(0, 0).Add(out.begin), time.Unix(0, 0).Add(w.last), every))(t)
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		return out // it is no expression that can be evaluated, and says nothing
	}
	// What differs by its name alone, as the sides of an "or" do, is one series of a rule.
	unnamed := map[string]promql.Series{}
	for _, series := range matrix {
		of := labels.NewBuilder(series.Metric).Del(model.MetricNameLabel).Labels()
		unnamed[of.String()] = promql.Series{Metric: of, Floats: append(unnamed[of.String()].Floats, series.Floats...)}
	}
	for _, series := range unnamed {
		slices.SortFunc(series.Floats, func(a, b promql.FPoint) int { return int(a.T - b.T) })
		cluster := series.Metric.Get("cluster")
		if out.hashes[cluster] == nil {
			out.hashes[cluster] = map[time.Duration]uint64{}
		}
		for _, point := range series.Floats {
			at := time.Duration(point.T) * time.Millisecond
			out.hashes[cluster][at] += maphash.String(seed, fmt.Sprint(series.Metric.Hash(), point.F))
		}
		out.matrix = append(out.matrix, series)
	}
	return out
}

// since is when the output first differs from the usual one, in the clusters in which
// it does.
func (s output) since(usual output) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, one := range [][2]output{{s, usual}, {usual, s}} {
		for cluster, hashes := range one[0].hashes {
			for at, hash := range hashes {
				if before, exists := out[cluster]; one[1].hashes[cluster][at] != hash && (!exists || at < before) {
					out[cluster] = at
				}
			}
		}
	}
	return out
}

// record writes the output as the rule records it.
func (s output) record(t *testing.T, stored storage.Storage, r monitoringv1.Rule) {
	t.Helper()
	appender := stored.Appender(t.Context())
	for _, series := range s.matrix {
		named := labels.NewBuilder(series.Metric).Set(model.MetricNameLabel, r.Record)
		for name, v := range r.Labels {
			named.Set(name, v)
		}
		points, isThere := series.Floats, false
		for at := s.begin; at <= s.last; at += s.every {
			v := math.Float64frombits(value.StaleNaN)
			is := len(points) > 0 && points[0].T == at.Milliseconds()
			if is {
				v, points = points[0].F, points[1:]
			}
			if is || isThere {
				_, err := appender.Append(0, named.Labels(), at.Milliseconds(), v)
				must.Succeed(t, err)
			}
			isThere = is
		}
	}
	must.Succeed(t, appender.Commit())
}

// recordedAfter are the records that are written after the rule's at one time, as they stand below it in its group, and
// its own.
func (w *world) recordedAfter(group string, rule monitoringv1.Rule) map[string]bool {
	out, isAfter := map[string]bool{}, false
	for _, g := range w.groups {
		for _, r := range g.Rules {
			isAfter = g.Name == group && (isAfter || identityOf(r) == identityOf(rule))
			out[r.Record] = out[r.Record] || isAfter && r.Record != ""
		}
	}
	return out
}

func (w *world) interval(group string) time.Duration {
	at := slices.IndexFunc(w.run.groups, func(g *rules.Group) bool { return g.Name() == group })
	return max(w.run.groups[at].Interval(), w.step)
}

func engine(t *testing.T) *promql.Engine {
	t.Helper()
	return promqltest.NewTestEngine(t, false, 0, 500_000_000)
}

// notices reports whether the scenario is any other than is expected with the mutant in the
// place of its rule: what it changes is evaluated again, in the cluster of the scenario, over
// what was recorded of all else.
func (w *world) notices(t *testing.T, m mutant, reached map[string]bool, s scenario, begins time.Duration) bool {
	t.Helper()
	anew := must.Get(teststorage.NewWithError())(t)
	defer func() { must.Succeed(t, anew.Close()) }()
	begin := max(w.begin, (begins - w.longestWait(reached)).Truncate(15*time.Minute))
	w.copyBefore(t, anew, reached, s.cluster, begin)
	w.copyAlerts(t, anew, reached, s.cluster)
	p := &evaluator{t: t, tick: w.step, now: begin, storage: overlay{w.run.storage, anew, reached, true}, mutated: true}
	p.load(groupFile(t, w.mutatedGroups(t, m, reached, s.cluster)))
	for _, g := range p.groups {
		for _, r := range g.AlertingRules() {
			r.SetRestored(true)
		}
	}
	fires := p.evaluateSpan(begin, w.last, w.step)
	return s.wrong(func(offset time.Duration) []*rules.Alert {
		usual := w.fires(s.cluster, offset)
		if offset < begins {
			return usual
		}
		other := slices.DeleteFunc(slices.Clone(usual), func(a *rules.Alert) bool { return reached[a.Labels.Get(labels.AlertName)] })
		return append(other, fires(s.cluster, offset)...)
	}) != ""
}

// longestWait is longer than any of the alerts waits and lasts on.
func (w *world) longestWait(reached map[string]bool) (longest time.Duration) {
	for _, a := range all() {
		if reached[a.Name] {
			longest = max(longest, a.For+a.keepFiring()+2*w.step)
		}
	}
	return longest
}

// mutatedGroups are the rules that are reached, in one cluster.
func (w *world) mutatedGroups(t *testing.T, m mutant, reached map[string]bool, cluster string) []monitoringv1.RuleGroup {
	t.Helper()
	var out []monitoringv1.RuleGroup
	for _, g := range w.groups {
		group := g
		group.Rules = nil
		for _, r := range g.Rules {
			if !reached[nameOf(r)] {
				continue
			}
			if identityOf(r) == identityOf(m.rule) {
				r.Expr = intstr.FromString(m.expr)
			}
			parsed := must.Get(parser.NewParser(parser.Options{}).ParseExpr(r.Expr.String()))(t)
			parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
				if s, ok := node.(*parser.VectorSelector); ok && cluster != "" {
					s.LabelMatchers = append(s.LabelMatchers, labels.MustNewMatcher(labels.MatchEqual, "cluster", cluster))
				}
				return nil
			})
			r.Expr = intstr.FromString(parsed.String())
			group.Rules = append(group.Rules, r)
		}
		if len(group.Rules) > 0 {
			out = append(out, group)
		}
	}
	return out
}

// overlay is a storage of which what is reached is written anew, and perhaps all alerts.
type overlay struct {
	storage.Storage

	anew    storage.Storage
	reached map[string]bool
	alerts  bool
}

func (o overlay) Appender(ctx context.Context) storage.Appender { return o.anew.Appender(ctx) }

func (o overlay) Querier(begin, end int64) (storage.Querier, error) {
	before, err := o.Storage.Querier(begin, end)
	if err != nil {
		return nil, err
	}
	anew, err := o.anew.Querier(begin, end)
	return overlayQuerier{before, anew, o.reached, o.alerts}, err
}

type overlayQuerier struct {
	storage.Querier

	anew    storage.Querier
	reached map[string]bool
	alerts  bool
}

func (q overlayQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel && (q.reached[m.Value] || q.alerts && strings.HasPrefix(m.Value, activeAlerts)) {
			return q.anew.Select(ctx, sorted, hints, matchers...)
		}
	}
	return q.Querier.Select(ctx, sorted, hints, matchers...)
}

// copyBefore copies what was recorded of rules before a time, in a cluster, or in all.
func (w *world) copyBefore(t *testing.T, anew storage.Storage, reached map[string]bool, cluster string, begin time.Duration) {
	t.Helper()
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(slices.Collect(maps.Keys(reached)), "|"))}
	if cluster != "" {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, "cluster", cluster))
	}
	w.copySeries(t, anew, matchers, func(labels.Labels) time.Duration { return begin })
}

// copyAlerts copies the alerts of a cluster that are not evaluated anew.
func (w *world) copyAlerts(t *testing.T, anew storage.Storage, reached map[string]bool, cluster string) {
	t.Helper()
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, activeAlerts+".*"), labels.MustNewMatcher(labels.MatchEqual, "cluster", cluster)}
	w.copySeries(t, anew, matchers, func(l labels.Labels) time.Duration {
		if reached[l.Get(labels.AlertName)] {
			return 0
		}
		return w.last + 1
	})
}

func (w *world) copySeries(t *testing.T, anew storage.Storage, matchers []*labels.Matcher, end func(labels.Labels) time.Duration) {
	t.Helper()
	querier := must.Get(w.run.storage.Querier(0, w.last.Milliseconds()))(t)
	defer func() { must.Succeed(t, querier.Close()) }()
	appender := anew.Appender(t.Context())
	found := querier.Select(t.Context(), false, nil, matchers...)
	for found.Next() {
		series := found.At()
		samples, end := series.Iterator(nil), end(series.Labels()).Milliseconds()
		for samples.Next() != chunkenc.ValNone {
			if at, v := samples.At(); at < end {
				_, err := appender.Append(0, series.Labels(), at, v)
				must.Succeed(t, err)
			}
		}
	}
	must.Succeed(t, found.Err())
	must.Succeed(t, appender.Commit())
}

// sampled is how many mutants there are for each that is tried, which one more rule does not
// change, and cheap are the groups of rules that cheap worlds are about.
const sampled = 4

var cheap = []string{"webhook-auditor-findings", "webhook-auditor-inputs"}

// TestMutants changes each comparison, threshold and matcher of each rule, one at a time: a
// scenario must notice. MUTANTS=. tries all, or is a regular expression of those that are tried,
// else it is some of those that cheap worlds notice. Those of testdata/unnoticed.txt nothing
// notices, for the reason above them. Worlds are evaluated one after the other, so that the memory is that of one.
func TestMutants(t *testing.T) {
	tried, among := allMutants(t), []*world{findingWorld(), heldWorld(), inputWorld(), repairedWorld()}
	excused := strings.Split(strings.TrimSpace(string(must.Get(os.ReadFile("testdata/unnoticed.txt"))(t))), "\n")
	for _, line := range excused {
		isLine := func(m mutant) bool { return m.String() == line }
		if !strings.HasPrefix(line, "#") && !slices.ContainsFunc(tried, isLine) {
			t.Errorf("testdata/unnoticed.txt: no mutant is %s", line)
		}
	}
	if asked := os.Getenv("MUTANTS"); asked != "" {
		pattern := must.Get(regexp.Compile(asked))(t)
		tried = slices.DeleteFunc(tried, func(m mutant) bool { return !pattern.MatchString(m.String()) })
		among = worlds(t)
	} else {
		among = append(among, slices.DeleteFunc(expectationWorlds(), func(w *world) bool { return w.name != expiring })...)
		tried = slices.DeleteFunc(tried, func(m mutant) bool {
			return crc32.ChecksumIEEE([]byte(m.String()))%sampled > 0 || !slices.Contains(cheap, m.group)
		})
	}
	all, by := len(tried), make([]string, len(tried))
	for _, w := range among {
		t.Run(w.name, func(t *testing.T) { w.try(t, tried, by) })
	}
	for i, m := range tried {
		if by[i] != "" {
			continue
		}
		all--
		if !slices.Contains(excused, m.String()) {
			t.Errorf("nothing notices %s: write a scenario that does, or take the clause out", m)
		}
	}
	t.Logf("%d of %d mutants are noticed", all, len(tried))
}

// try looks for a scenario that notices each mutant which none has noticed so far.
func (w *world) try(t *testing.T, tried []mutant, names []string) {
	w.load(t)
	w.inputs = w.inputsOf()
	var reached []string
	for _, m := range tried {
		if w.has(m.rule) {
			reached = append(reached, w.readers(nameOf(m.rule))...)
		}
	}
	w.scenarios = slices.DeleteFunc(w.scenarios, func(s scenario) bool {
		return !slices.ContainsFunc(s.alerts, func(name string) bool { return slices.Contains(reached, name) })
	})
	if len(w.scenarios) == 0 {
		return
	}
	w.evaluate(t)
	for i, m := range tried {
		if names[i] == "" && w.has(m.rule) {
			t.Run(fmt.Sprintf("%s %d", nameOf(m.rule), i), func(t *testing.T) {
				t.Parallel()
				if names[i] = w.noticedBy(t, m); names[i] != "" {
					t.Logf("%q notices %s", names[i], m)
				}
			})
		}
	}
}

// String is the mutant in a line.
func (m mutant) String() string { return identityOf(m.rule) + ": " + m.change }
