package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// Severities says who decides how severe the signal alerts are.
type Severities string

// The Severities. Ours call latency and failures critical only where they stop
// a cluster; OpenShift's enhancement always does.
const (
	DefaultSeverities     Severities = "default"
	EnhancementSeverities Severities = "enhancement"
)

// Options say how the alerts of one installation differ from the committed
// ones; the zero value changes nothing.
type Options struct {
	// ClusterLabel is the label that tells clusters apart where several share
	// a store; every aggregation and every join keeps it.
	ClusterLabel string
	// Selector is added to every selector: label matchers, as in
	// cluster="one", env!="test".
	Selector string
	// RunbookBaseURL is what the paths of the runbooks are appended to.
	RunbookBaseURL string
	Severities     Severities
	// TimeScale multiplies all windows and waiting times. It is for tests that
	// cannot wait as long as an alert does.
	TimeScale float64
	// ObjectLabels are put on the rendered object, for rule selectors that ask
	// for some.
	ObjectLabels map[string]string
}

func (o Options) severity(a Alert) classify.Severity {
	if o.Severities == EnhancementSeverities && a.Enhancement != 0 {
		return a.Enhancement
	}
	return a.Severity
}

// scale returns how long a waiting time or a window is.
func (o Options) scale(d time.Duration) time.Duration {
	if o.TimeScale == 0 {
		return d
	}
	return time.Duration(float64(d) * o.TimeScale).Round(time.Millisecond)
}

// expr returns the expression as the installation needs it. It changes what
// was parsed and never the text, so that no window and no label is missed.
func (o Options) expr(text string) (string, error) {
	matchers, err := o.matchers()
	if err != nil {
		return "", err
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return "", fmt.Errorf("parsing %q: %w", text, err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		o.changeTimes(node)
		o.changeLabels(node)
		if n, ok := node.(*parser.VectorSelector); ok {
			n.LabelMatchers = append(n.LabelMatchers, matchers...)
		}
		return nil
	})
	return parser.Prettify(expr), nil
}

// placeholder is a label of the alert in a selector of its template.
var placeholder = regexp.MustCompile(`"\$(\w+)"`)

// backendNamespace returns a template that sets $namespace to the namespace of
// the backend, "" if nobody tells. It is looked up once an alert is active: a
// join would pay for all webhooks at each evaluation. Where several series claim
// the webhook (two replicas disagree for a minute, the backend moved) the
// namespace that was seen most often wins, so that the alert keeps its identity.
func (o Options) backendNamespace(backend string) (string, error) {
	query, err := o.query(`topk(1, sum by (service_namespace) (count_over_time(%s[5m])))`, backend)
	return "{{ $namespace := \"\" }}{{ with " + query + " }}" +
		"{{ $namespace = . | first | label \"service_namespace\" }}{{ end }}", err
}

// registrations returns a template that sets $registered to the names of the
// configurations that register the webhook, each after a space.
func (o Options) registrations() (string, error) {
	query, err := o.query(`group by (configuration) (last_over_time(%s[5m]))`, `webhook_auditor_webhook_info{name="$name", type="$type"}`)
	return "{{ $registered := \"\" }}{{ range " + query + " | sortByLabel \"configuration\" }}" +
		"{{ $registered = printf \"%s %s\" $registered (label \"configuration\" .) }}{{ end }}", err
}

// query returns what asks in a template for an expression over the selected
// series. A value "$name" in the selector stands for the alert's label name.
func (o Options) query(expr, selector string) (string, error) {
	if o.ClusterLabel != "" {
		selector = strings.TrimSuffix(selector, "}") + fmt.Sprintf(`, %s="$%s"}`, o.ClusterLabel, o.ClusterLabel)
	}
	query, err := o.expr(fmt.Sprintf(expr, selector))
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
		return nil, fmt.Errorf("reading the selector %q: want label matchers, as in cluster=\"one\": %w", o.Selector, err)
	}
	return matchers, nil
}

func (o Options) changeTimes(node parser.Node) {
	switch n := node.(type) {
	case *parser.MatrixSelector:
		n.Range = o.scale(n.Range)
	case *parser.VectorSelector:
		n.OriginalOffset = o.scale(n.OriginalOffset)
	case *parser.SubqueryExpr:
		n.Range, n.Step, n.OriginalOffset = o.scale(n.Range), o.scale(n.Step), o.scale(n.OriginalOffset)
	}
}

func (o Options) changeLabels(node parser.Node) {
	if o.ClusterLabel == "" {
		return
	}
	switch n := node.(type) {
	case *parser.AggregateExpr:
		if !n.Without {
			n.Grouping = slices.Concat([]string{o.ClusterLabel}, n.Grouping)
		}
	case *parser.BinaryExpr:
		if n.VectorMatching != nil && n.VectorMatching.On {
			n.VectorMatching.MatchingLabels = slices.Concat([]string{o.ClusterLabel}, n.VectorMatching.MatchingLabels)
		}
	}
}

// check refuses options that would render alerts nobody wants.
func (o Options) check() error {
	switch {
	case o.ClusterLabel != "" && !model.LegacyValidation.IsValidLabelName(o.ClusterLabel):
		return fmt.Errorf("%q is no label name, as cluster is", o.ClusterLabel)
	case !slices.Contains([]Severities{"", DefaultSeverities, EnhancementSeverities}, o.Severities):
		return fmt.Errorf("unknown severities %q: want %s or %s", o.Severities, DefaultSeverities, EnhancementSeverities)
	case o.TimeScale < 0:
		return fmt.Errorf("time scale %v: want a number above 0", o.TimeScale)
	}
	return nil
}
