package rules

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
)

// all returns every alert.
func all() []Alert {
	var out []Alert
	for _, g := range Groups() {
		out = append(out, g.Alerts...)
	}
	return out
}

// TestRecordNames holds that what is recorded is read, and what is read recorded:
// in the same group before it, or in another.
func TestRecordNames(t *testing.T) {
	name := regexp.MustCompile(`^cluster(_[a-z]+)*:webhook_auditor_[a-z_]+:[a-z0-9_]+$`)
	var names, exprs []string
	for _, g := range Groups() {
		for i, r := range g.RecordingRules {
			names, exprs = append(names, r.Name), append(exprs, strings.ReplaceAll(r.Expr, r.Name, ""))
			for _, before := range g.RecordingRules[:i] {
				if strings.Contains(before.Expr, r.Name) && !strings.Contains(r.Expr, before.Name) { // of a loop, one reads what was recorded last
					t.Errorf("%s reads %s, which is recorded after it", before.Name, r.Name)
				}
			}
		}
		for _, a := range g.Alerts {
			exprs = append(exprs, a.Expr)
			if strings.Contains(a.Description, "$facts") {
				exprs = append(exprs, facts)
			}
		}
	}
	for _, record := range names {
		if !name.MatchString(record) {
			t.Errorf("%s: want a name as level:metric:operations", record)
		}
		if !slices.ContainsFunc(exprs, func(expr string) bool { return strings.Contains(expr, record) }) {
			t.Errorf("nothing reads %s", record)
		}
	}
	walk(t, func(reader string, node parser.Node, _ []parser.Node) {
		if s, ok := node.(*parser.VectorSelector); ok && strings.Contains(s.Name, ":") && !slices.Contains(names, s.Name) {
			t.Errorf("%s reads %s, which nothing records", reader, s.Name)
		}
	})
}

// TestConventions holds the alerts to the conventions of OpenShift and to our
// promises.
func TestConventions(t *testing.T) {
	name := regexp.MustCompile(`^Webhook([A-Z][a-z]+)+$`)
	names := map[string]bool{}
	for _, a := range all() {
		if !name.MatchString(a.Name) || names[a.Name] {
			t.Errorf("%s: want a name in CamelCase that starts with Webhook, of one alert", a.Name)
		}
		names[a.Name] = true
		if !strings.HasSuffix(a.Asks, "?") && len(a.Checks) == 0 {
			t.Errorf("%s: want the question that it asks", a.Name)
		}
		if a.Summary == "" || a.Description == "" || strings.Contains(a.Summary+a.Description, "\n") {
			t.Errorf("%s: want a summary and a description on one line each", a.Name)
		}
		if a.For == 0 {
			t.Errorf("%s fires at once: want it to wait", a.Name)
		}
	}
}

// TestRunbooks holds that every alert has one, and that those of critical
// alerts say how to break the glass.
func TestRunbooks(t *testing.T) {
	breakGlass := regexp.MustCompile(`(?s)kubectl get .* -o yaml .*> "\S+\.yaml".*kubectl (patch|delete) .*kubectl (create -f "\S+\.yaml"|replace --force -f "\S+\.yaml"|patch .*conversion.json)`)
	for _, a := range all() {
		for _, runbook := range a.runbooks() {
			text, err := os.ReadFile("../" + runbook)
			if err != nil {
				t.Errorf("%s has no runbook: %v", a.Name, err)
				continue
			}
			at := 0
			for _, section := range []string{"Meaning", "Impact", "Diagnosis", "Mitigation"} {
				i := strings.Index(string(text), "\n## "+section+"\n")
				if i < at {
					t.Errorf("%s: want the sections Meaning, Impact, Diagnosis and Mitigation, in this order", runbook)
				}
				at = i
			}
			if a.Severity == classify.Critical && !breakGlass.Match(text[at:]) {
				t.Errorf("%s: want under Mitigation how to back up, narrow or delete, and restore", runbook)
			}
		}
	}
}

// TestRunbookBlocks holds that each block of a runbook can be pasted: it does not
// undo itself, and what it reads was set before, by what the alert's description
// ends with, by the runbook, or by a command.
func TestRunbookBlocks(t *testing.T) {
	blocks, reads := regexp.MustCompile("(?s)```sh[^\n]*\n(.*?)```"), regexp.MustCompile(`"[^"]*\$\{?([A-Z]+)`)
	removes, restores := regexp.MustCompile(`(?m)^kubectl (delete|patch) `), regexp.MustCompile(`(?m)^kubectl (create|replace|patch) .*("\S+\.yaml"|conversion.json)`)
	for _, a := range all() {
		for _, runbook := range a.runbooks() {
			text := must.Get(os.ReadFile("../" + runbook))(t)
			for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
				if rest := restores.ReplaceAllString(block[1], ""); rest != block[1] && removes.MatchString(rest) {
					t.Errorf("%s: a block undoes itself:\n%s", runbook, block[1])
				}
				if strings.Count(block[1], "kubectl annotate ") > 1 {
					t.Errorf("%s: a block has two annotations, one or the other of which is meant:\n%s", runbook, block[1])
				}
				if strings.Contains(block[1], ".caBundle}") && !strings.Contains(block[1], `"${KIND:-crd}" "$CONFIGURATION"`) {
					t.Errorf("%s: a block reads no CA bundle of a conversion, of which KIND is empty:\n%s", runbook, block[1])
				}
				for _, variable := range reads.FindAllStringSubmatch(block[1], -1) {
					isSet := regexp.MustCompile(`[ "]` + variable[1] + `=%s|(?m:^` + variable[1] + "=)|Set [^.]*`" + variable[1] + "`")
					if !isSet.MatchString(a.Variables + "\n" + string(text)) {
						t.Errorf("%s: nothing sets %s for %s", runbook, variable[1], a.Name)
					}
				}
			}
		}
	}
}

// numberNamed is a number of the table where a person reads it: with its name.
var numberNamed = regexp.MustCompile("([0-9.]+)( %)? \\(`(\\w+)`\\)")

// TestNumbersInTexts: what runbooks and the README say of the numbers is what the table says, and
// each has its sentence.
func TestNumbersInTexts(t *testing.T) {
	files := append(must.Get(filepath.Glob("runbooks/*.md"))(t), "README.md")
	named := map[string]bool{}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		for _, found := range numberNamed.FindAllStringSubmatch(string(text), -1) {
			n, exists := findNumber(found[3])
			value := n.Value
			if found[2] != "" {
				value = math.Round(value*1e4) / 100
			}
			if named[n.Name] = true; !exists || decimal(value) != found[1] {
				t.Errorf("%s says %s, want %s", file, found[0], decimal(value))
			}
		}
	}
	for _, n := range Numbers {
		if !named[n.Name] && n.Name != "expiresSoonDays" {
			t.Errorf("neither a runbook nor the README says what %s is", n.Name)
		}
	}
}

// ownCommand is a command of the auditor, in a block or in a sentence.
var ownCommand = regexp.MustCompile("(?m)(^|[`\"])webhook-auditor [a-z]")

// kubectlFirst reports whether a text that has commands begins with one that needs kubectl alone.
func kubectlFirst(text string) bool {
	own := ownCommand.FindStringIndex(text)
	return own == nil || regexp.MustCompile("(?m)(^|[`\"])kubectl ").MatchString(text[:own[0]])
}

// TestKubectlFirst: who is paged has kubectl, and perhaps not the auditor: each description, and the
// diagnosis of each runbook of an alert, has a command of kubectl before any of the auditor.
func TestKubectlFirst(t *testing.T) {
	for _, a := range all() {
		if !kubectlFirst(a.Description) {
			t.Errorf("%s: the description has a command of the auditor first", a.Name)
		}
		for _, runbook := range a.runbooks() {
			_, diagnosis, _ := strings.Cut(string(must.Get(os.ReadFile("../"+runbook))(t)), "\n## Diagnosis\n")
			if !kubectlFirst(diagnosis) {
				t.Errorf("%s has a command of the auditor first", runbook)
			}
		}
	}
}

// A count is how many slots of a span must count, and how long each is.
type count struct {
	least      float64
	span, slot time.Duration
}

// timesOf are the counts of a rule, and the windows that it reads, waits and goes on for.
func timesOf(t *testing.T, r monitoringv1.Rule) (counts []count, windows []time.Duration) {
	t.Helper()
	parser.Inspect(must.Get(parser.NewParser(parser.Options{}).ParseExpr(r.Expr.String()))(t), func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.MatrixSelector:
			windows = append(windows, n.Range)
		case *parser.SubqueryExpr:
			windows = append(windows, n.Range, n.Step)
		case *parser.VectorSelector:
			windows = append(windows, n.OriginalOffset)
		case *parser.NumberLiteral:
			windows = append(windows, time.Duration(n.Val*float64(time.Second)))
		case *parser.BinaryExpr:
			call, isCall := n.LHS.(*parser.Call)
			least, isNumber := n.RHS.(*parser.NumberLiteral)
			if !isCall || !isNumber || n.Op != parser.GTE || call.Func.Name != "count_over_time" {
				return nil
			}
			if slots, isSubquery := call.Args[0].(*parser.SubqueryExpr); isSubquery {
				counts = append(counts, count{least.Val, slots.Range, slots.Step})
			}
		}
		return nil
	})
	for _, lasting := range []string{written(r.For), written(r.KeepFiringFor)} {
		if lasting != "" {
			windows = append(windows, time.Duration(must.Get(model.ParseDuration(lasting))(t)))
		}
	}
	return counts, windows
}

var (
	countNamed  = regexp.MustCompile("(\\w+)(?: \\(`\\w+`\\))?( slots)? of (?:the last )?(\\w+) (minutes|hours)")
	windowNamed = regexp.MustCompile(`(\w+) (minutes|hours|days)`)
	inWords     = []string{"", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
	asNumbers   = strings.NewReplacer("a quarter of an hour", "15 minutes", "half an hour", "30 minutes", "an hour", "1 hours", "the last hour", "1 hours", "a minute", "1 minutes", "a day", "1 days", "a week", "7 days")
	units       = map[string]time.Duration{"minutes": time.Minute, "hours": time.Hour, "days": 24 * time.Hour}
)

// numberOf is the number that a word is, or 0.
func numberOf(word string) float64 {
	if i := slices.Index(inWords, word); i > 0 {
		return float64(i)
	}
	n, _ := strconv.ParseFloat(word, 64)
	return n
}

// miscounted are the phrases of a text such as "10 of 30 minutes" or "3 slots of 4 minutes" which none of the counts is.
func miscounted(text string, counts []count) (wrong []string) {
	for _, found := range countNamed.FindAllStringSubmatch(asNumbers.Replace(text), -1) {
		least, span := numberOf(found[1]), numberOf(found[3])*units[found[4]].Minutes()
		if found[1] == "each" {
			least = span
		}
		isSo := func(c count) bool {
			return c.least == least && (found[2] != "" && c.slot.Minutes() == span || found[2] == "" && c.span.Minutes() == span)
		}
		if least > 0 && span > 0 && !slices.ContainsFunc(counts, isSo) {
			wrong = append(wrong, found[0])
		}
	}
	return wrong
}

// TestTimesInTexts: of how many minutes or slots the README, the table of numbers and runbooks speak, a rule counts so
// many. The minutes, hours and days in what an alert means are windows of its rules.
func TestTimesInTexts(t *testing.T) {
	var all []count
	for _, g := range usual(t) {
		for _, r := range g.Rules {
			counts, _ := timesOf(t, r)
			all = append(all, counts...)
		}
	}
	texts := map[string]string{"README.md": string(must.Get(os.ReadFile("README.md"))(t))}
	for _, n := range Numbers {
		texts[n.Name] = n.Means
	}
	for where, text := range texts {
		for _, wrong := range miscounted(strings.Join(strings.Fields(text), " "), all) {
			t.Errorf("%s says %q: no rule counts so", where, wrong)
		}
	}
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			if len(a.Checks) > 0 {
				continue
			}
			meaning := firstSection(t, a.runbook())
			var counts []count
			var windows []time.Duration
			for _, read := range silentGroupsOf(t, a.Name) {
				for _, r := range read.Rules {
					c, w := timesOf(t, r)
					counts, windows = append(counts, c...), append(windows, w...)
				}
			}
			for _, wrong := range miscounted(meaning, counts) {
				t.Errorf("the runbook of %s says %q: its rules do not count so", a.Name, wrong)
			}
			for _, found := range windowNamed.FindAllStringSubmatch(asNumbers.Replace(meaning), -1) {
				window := time.Duration(numberOf(found[1]) * float64(units[found[2]]))
				if window > 0 && !slices.Contains(windows, window) {
					t.Errorf("the runbook of %s says %q: it is no window of its rules", a.Name, found[0])
				}
			}
		}
	}
}

// firstSection is what a runbook says that an alert means, on one line.
func firstSection(t *testing.T, runbook string) string {
	t.Helper()
	_, text, _ := strings.Cut(string(must.Get(os.ReadFile("../"+runbook))(t)), "\n## Meaning\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.Join(strings.Fields(text), " ")
}

// TestOrphanedRunbooks holds that no runbook is left behind by an alert.
func TestOrphanedRunbooks(t *testing.T) {
	files := must.Get(os.ReadDir("runbooks"))(t)
	for _, f := range files {
		if !slices.ContainsFunc(all(), func(a Alert) bool { return slices.Contains(a.runbooks(), "rules/runbooks/"+f.Name()) }) {
			t.Errorf("runbooks/%s belongs to no alert", f.Name())
		}
	}
}

// TestOwnSeries holds that the expressions read only series and labels that
// the exporter has.
func TestOwnSeries(t *testing.T) {
	families := map[string][]string{exporter.Prefix + "build_info": nil, exporter.Prefix + "policy_last_reload_successful": nil, exporter.Prefix + "series_dropped": {"family"}}
	for _, f := range exporter.Families {
		families[f.Series()] = f.Labels
	}
	walk(t, func(reader string, node parser.Node, _ []parser.Node) {
		s, ok := node.(*parser.VectorSelector)
		if !ok || !strings.HasPrefix(s.Name, exporter.Prefix) {
			return
		}
		names, exists := families[s.Name]
		if !exists {
			t.Errorf("%s reads %s, which the exporter does not have", reader, s.Name)
		}
		for _, m := range s.LabelMatchers {
			if m.Name != model.MetricNameLabel && m.Name != DefaultClusterLabel && !slices.Contains(names, m.Name) {
				t.Errorf("%s selects %s by %s, which is none of its labels %q", reader, s.Name, m.Name, names)
			}
		}
	})
}

// TestJoins holds that none of the auditor's series stands bare in a join: two
// replicas export it, and Prometheus stops the whole rule at a duplicate.
// Set operations take duplicates.
func TestJoins(t *testing.T) {
	walk(t, func(reader string, node parser.Node, path []parser.Node) {
		s, ok := node.(*parser.VectorSelector)
		if !ok || !strings.HasPrefix(s.Name, exporter.Prefix) {
			return
		}
		for _, parent := range slices.Backward(path) {
			if _, aggregated := parent.(*parser.AggregateExpr); aggregated {
				return
			}
			if join, ok := parent.(*parser.BinaryExpr); ok && join.VectorMatching != nil && !join.Op.IsSetOperator() &&
				join.LHS.Type() == parser.ValueTypeVector && join.RHS.Type() == parser.ValueTypeVector {
				t.Errorf("%s joins %s without aggregating it", reader, s.Name)
			}
		}
	})
}

// walk visits all nodes of all expressions.
func walk(t *testing.T, visit func(string, parser.Node, []parser.Node)) {
	t.Helper()
	visitAll := func(reader, text string) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(placedNumber.ReplaceAllString(text, "1"))
		if err != nil {
			t.Fatalf("%s: %v", reader, err)
		}
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			visit(reader, node, path)
			return nil
		})
	}
	for _, g := range Groups() {
		for _, r := range g.RecordingRules {
			visitAll(r.Name, r.Expr)
		}
		for _, a := range g.Alerts {
			visitAll(a.Name, a.Expr)
		}
	}
}

// largest is half of what the annotation holds in which "kubectl apply" keeps an
// object.
const largest = 128 << 10

// longest are Options that make of the rules as much as those of installations do.
var longest = Options{
	ClusterLabel:   "kubernetes_cluster_name",
	RunbookBaseURL: "https://git.example.com/platform/monitoring/runbooks/webhook-auditor",
	PageURL:        "https://webhook-auditor.apps.cluster.example.com",
	Severities:     EnhancementSeverities,
	Labels:         map[string]string{"team": "platform-engineering", "tier": "control-plane"},
	ObjectLabels:   map[string]string{"release": "monitoring"},
}

// TestForms reads the forms as their APIs do, also where they are largest, and the
// same rules in each.
func TestForms(t *testing.T) {
	selecting := longest
	selecting.Selector = `job="apiserver",environment="production"`
	for _, options := range []Options{longest, selecting} {
		groups := must.Get(options.groups())(t)
		var want []monitoringv1.RuleGroup
		for _, g := range groups {
			want = append(want, g.RuleGroup)
		}
		var file struct {
			Namespace string
			Groups    []monitoringv1.RuleGroup
		}
		plain := options
		plain.Namespace, plain.ObjectLabels = "", nil
		for _, form := range []Form{RuleFile, Mimir} {
			out := must.Get(Render(form, plain))(t)
			if err := yaml.UnmarshalStrict(out, &file); err != nil || (file.Namespace != "") != (form == Mimir) {
				t.Errorf("%s: namespace %q, %v", form, file.Namespace, err)
			}
			if diff := cmp.Diff(want, file.Groups); diff != "" {
				t.Errorf("%s (-rules +read):\n%s", form, diff)
			}
		}
		out := must.Get(Render(PrometheusRule, options))(t)
		var read []monitoringv1.RuleGroup
		for _, document := range documents(out) {
			var object monitoringv1.PrometheusRule
			must.Succeed(t, yaml.UnmarshalStrict(document, &object))
			if encoded, err := yaml.YAMLToJSON(document); err != nil || len(encoded) > largest || object.Labels["release"] != "monitoring" {
				t.Errorf("%s: an object of %d bytes (%v), want %d at most, and its label", object.Name, len(encoded), err, largest)
			}
			read = append(read, object.Spec.Groups...)
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Errorf("objects (-rules +read):\n%s", diff)
		}
	}
}

func documents(out []byte) [][]byte { return bytes.Split(out, []byte("\n---\n")) }

// TestExpressionsAreShort holds that each expression can be read in Prometheus' page, and each
// description: parts of what is longer are recorded.
func TestExpressionsAreShort(t *testing.T) {
	groups := must.Get(Options{}.groups())(t)
	for _, g := range groups {
		for _, r := range g.Rules {
			if got := len(r.Expr.String()); got > 4000 {
				t.Errorf("the expression of %s%s has %d characters", r.Record, r.Alert, got)
			}
			if got := len(r.Annotations["description"]); got > 1000 {
				t.Errorf("the description of %s has %d characters", r.Alert, got)
			}
		}
	}
}
