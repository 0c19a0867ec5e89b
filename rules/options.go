package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// Severities is a set of severities for the signal alerts.
type Severities string

// The Severities. Ours call latency and failures critical only where they stop
// a cluster; OpenShift's enhancement always does.
const (
	DefaultSeverities     Severities = "default"
	EnhancementSeverities Severities = "enhancement"
)

// DefaultClusterLabel is the label that distinguishes clusters where none is
// given, as in kubernetes-mixin. Where no series carries it there is one cluster.
const DefaultClusterLabel = "cluster"

// Options say how the rules of one installation differ from the committed
// ones; the zero value changes nothing.
type Options struct {
	// ClusterLabel is the label that distinguishes clusters where several share
	// a store; every aggregation and every join keeps it. "" stands for
	// DefaultClusterLabel.
	ClusterLabel string
	// Selector is added to every selector: label matchers, as in
	// cluster="one", env!="test".
	Selector string
	// RunbookBaseURL is what the paths of the runbooks are appended to.
	RunbookBaseURL string
	// PageURL is the address of the auditor's status page, that alerts then lead
	// to; "" where it has none.
	PageURL    string
	Severities Severities
	// Signals is where the series of the signal alerts come from; "" stands for
	// APIServerSignals.
	Signals Signals
	// Labels are added to every alert.
	Labels map[string]string
	// Disabled are the names of alerts that are left out, Critical those of alerts that page.
	Disabled, Critical []string
	// Thresholds replace the values of Numbers, by name.
	Thresholds map[string]float64
	// Namespace is that of the rendered objects; "" stands for webhook-auditor.
	Namespace string
	// ObjectLabels are put on the rendered object, for rule selectors that ask
	// for some.
	ObjectLabels map[string]string
}

func (o Options) severity(a Alert) classify.Severity {
	switch {
	case slices.Contains(o.Critical, a.Name):
		return classify.Critical
	case o.Severities == EnhancementSeverities && a.Enhancement != 0:
		return a.Enhancement
	}
	return a.Severity
}

// clusterLabel returns the label that distinguishes clusters.
func (o Options) clusterLabel() string { return cmp.Or(o.ClusterLabel, DefaultClusterLabel) }

// expr returns the expression as the installation needs it. It changes what
// was parsed and never the text, so that no window and no label is missed.
func (o Options) expr(written string) (string, error) {
	matchers, err := o.matchers()
	if err != nil {
		return "", err
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(o.numbered(written))
	if err != nil {
		return "", fmt.Errorf("parsing %q: %w", written, err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		o.changeLabels(node)
		if n, ok := node.(*parser.VectorSelector); ok && !isOurs(n.Name) {
			n.LabelMatchers = append(n.LabelMatchers, matchers...)
		}
		return nil
	})
	return parser.Prettify(expr), nil
}

// isOurs reports whether Prometheus writes the series for the rules: they are of
// what is selected already.
func isOurs(series string) bool {
	return strings.HasPrefix(series, activeAlerts) || strings.Contains(series, ":")
}

// activeAlerts is the series of alerts that Prometheus writes itself. It carries
// the labels of the alerts, which need not be those of what is selected.
const activeAlerts = "ALERTS"

// placeholder is a label of the alert in a selector of its template.
var placeholder = regexp.MustCompile(`"\$(\w+)"`)

// templateQueries are the variables of templates that queries set: the facts about the webhook, the failurePolicy of the
// admission policy, and whether all API servers of the cluster reach no webhook.
var templateQueries = []struct {
	variable, template string
	exprs              []string
}{
	{"$facts", "{{ $facts := %s }}", []string{facts + `{name="$name", CLUSTER, type="$type"}`}},
	{
		"$policy", "{{ $policy := \"\" }}{{ range %s }}{{ $policy = .Labels.failure_policy }}{{ end }}",
		[]string{`group by (failure_policy) (webhook_auditor_policy_info{name="$policy", type="mutatingpolicy"})`},
	},
	{"$everywhere", "{{ $everywhere := ge (len (%s)) (len (%s)) }}", []string{
		`group by (instance) (ALERTS{alertname="WebhookNoneReachable", CLUSTER})`,
		`group by (instance) (last_over_time(` + scraped + `{CLUSTER}[5m]))`,
	}},
}

// asking returns a template after the queries whose results it writes.
func (o Options) asking(template string) (string, error) {
	for _, a := range templateQueries {
		if !strings.Contains(template, a.variable+" ") {
			continue
		}
		var queries []any
		for _, expr := range a.exprs {
			query, err := o.query(expr)
			if err != nil {
				return "", err
			}
			queries = append(queries, query)
		}
		return fmt.Sprintf(a.template, queries...) + template, nil // none writes two
	}
	return template, nil
}

// query returns what asks in a template for an expression. A value "$name" in
// its selectors stands for the alert's label name.
func (o Options) query(expr string) (string, error) {
	if o.Signals == AuditorSignals {
		expr = ofAuditors(expr)
	}
	query, err := o.expr(strings.ReplaceAll(expr, "CLUSTER", fmt.Sprintf(`%[1]s="$%[1]s"`, o.clusterLabel())))
	if err != nil {
		return "", err
	}
	var args strings.Builder
	for _, label := range placeholder.FindAllStringSubmatch(query, -1) {
		args.WriteString(" $labels." + label[1])
	}
	query = strings.Join(strings.Fields(placeholder.ReplaceAllLiteralString(query, "%q")), " ")
	return "query (printf `" + query + "`" + args.String() + ")", nil
}

func (o Options) matchers() ([]*labels.Matcher, error) {
	if o.Selector == "" {
		return nil, nil
	}
	matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector("{" + o.Selector + "}")
	if err != nil {
		return nil, fmt.Errorf("--selector: must be label matchers, as cluster=\"one\", not %q: %w", o.Selector, err)
	}
	return matchers, nil
}

// changeLabels adds the cluster to what is aggregated and joined by, and has
// matchers of it name the label as it is called.
func (o Options) changeLabels(node parser.Node) {
	switch n := node.(type) {
	case *parser.AggregateExpr:
		if !n.Without {
			n.Grouping = slices.Concat([]string{o.clusterLabel()}, n.Grouping)
		}
	case *parser.BinaryExpr:
		if n.VectorMatching != nil && n.VectorMatching.On {
			n.VectorMatching.MatchingLabels = slices.Concat([]string{o.clusterLabel()}, n.VectorMatching.MatchingLabels)
		}
	case *parser.VectorSelector:
		for _, m := range n.LabelMatchers {
			if m.Name == DefaultClusterLabel {
				m.Name = o.clusterLabel()
			}
		}
	}
}

// check refuses options that would render wrong alerts, and those that change nothing of these.
func (o Options) check(printed []Group) error {
	switch {
	case o.ClusterLabel != "" && !model.LegacyValidation.IsValidLabelName(o.ClusterLabel):
		return fmt.Errorf("--cluster-label: must be a label name, as cluster is, not %q", o.ClusterLabel)
	case !slices.Contains([]Severities{"", DefaultSeverities, EnhancementSeverities}, o.Severities):
		return fmt.Errorf("--severities: must be one of %s, %s, not %q", DefaultSeverities, EnhancementSeverities, o.Severities)
	case !slices.Contains([]Signals{"", APIServerSignals, AuditorSignals}, o.Signals):
		return fmt.Errorf("--signals: must be one of %s, %s, not %q", APIServerSignals, AuditorSignals, o.Signals)
	}
	return errors.Join(
		checkURL("--runbook-base-url", "https://example.com/runbooks", o.RunbookBaseURL), checkURL("--page-url", "https://auditor.example.com", o.PageURL),
		o.checkLabels(), o.checkObjectLabels(), o.checkAlerts(printed),
	)
}

// checkURL refuses what no browser opens; "" stands for none.
func checkURL(flag, example, address string) error {
	if address == "" {
		return nil
	}
	if parsed, err := url.Parse(address); err != nil || !slices.Contains([]string{"http", "https"}, parsed.Scheme) ||
		parsed.Host == "" {
		return fmt.Errorf("%s: must be a URL with scheme and host, as %s, not %q", flag, example, address)
	}
	return nil
}

// checkObjectLabels refuses labels that the API server would.
func (o Options) checkObjectLabels() error {
	for _, name := range slices.Sorted(maps.Keys(o.ObjectLabels)) {
		if wrong := append(validation.IsQualifiedName(name),
			validation.IsValidLabelValue(o.ObjectLabels[name])...); len(wrong) > 0 {
			return fmt.Errorf("--labels: %s=%s: must be a label, as release=prometheus: %s", name, o.ObjectLabels[name], strings.Join(wrong, "; "))
		}
	}
	return nil
}

// checkLabels refuses labels of alerts that are none, or that the rules set.
func (o Options) checkLabels() error {
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			return fmt.Errorf("--alert-labels: %q: must be a label name, as team is", name)
		case slices.Contains([]string{"alertname", "severity", "component", "check", "type", "name", "namespace", "instance", o.clusterLabel()}, name):
			return fmt.Errorf("--alert-labels: %q: must be a name that the alerts do not have already", name)
		}
	}
	return nil
}

// checkAlerts refuses decisions about alerts that do not exist, or are not printed.
func (o Options) checkAlerts(printed []Group) error {
	names := alertNames(Groups())
	for flag, decision := range map[string]struct{ alerts, among []string }{
		"--disable": {o.Disabled, alertNames(printed)}, "--critical": {o.Critical, alertNames(o.enabled(printed))},
	} {
		for _, name := range decision.alerts {
			switch {
			case !slices.Contains(names, name):
				return fmt.Errorf("%s: %q: must be the name of an alert%s", flag, name, cmp.Or(nearest(name, names), `; "webhook-auditor print rules" lists all`))
			case !slices.Contains(decision.among, name):
				return fmt.Errorf("%s: %s is not printed", flag, name)
			}
		}
	}
	return o.checkNumbers(o.enabled(printed))
}

// enabled are the groups without the alerts that are left out.
func (o Options) enabled(groups []Group) []Group {
	isDisabled := func(a Alert) bool { return slices.Contains(o.Disabled, a.Name) }
	return lists.Map(groups, func(g Group) Group {
		g.Alerts = slices.DeleteFunc(slices.Clone(g.Alerts), isDisabled)
		return g
	})
}

// checkUse refuses options that change nothing of what is printed in the form.
func (o Options) checkUse(form Form, printed []Group) error {
	hasAlerts, isObject := len(alertNames(printed)) > 0 && form != Markdown, form == PrometheusRule
	for _, option := range []struct {
		flag            string
		isGiven, isUsed bool
	}{
		{"--namespace", o.Namespace != "", isObject},
		{"--labels", len(o.ObjectLabels) > 0, isObject},
		{"--alert-labels", len(o.Labels) > 0, hasAlerts},
		{"--runbook-base-url", o.RunbookBaseURL != "", hasAlerts},
		{"--page-url", o.PageURL != "", hasAlerts},
		{"--selector", o.Selector != "", form != Markdown},
		{"--cluster-label", o.clusterLabel() != DefaultClusterLabel, form != Markdown},
		{"--severities", o.Severities == EnhancementSeverities, len(alertNames(printed)) > 0},
		{"--signals", o.Signals == AuditorSignals, len(printed) > 0},
	} {
		if option.isGiven && !option.isUsed {
			return fmt.Errorf("%s: changes nothing of what is printed", option.flag)
		}
	}
	return nil
}
