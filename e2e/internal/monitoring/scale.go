package monitoring

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// ScaleRules multiplies all windows and waiting times of a rule file: no one watches a
// demonstration for a quarter of an hour.
func ScaleRules(file string, factor float64) ([]byte, error) {
	var read object
	if err := yaml.Unmarshal([]byte(file), &read); err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	groups, _ := read["groups"].([]any)
	for _, g := range groups {
		group, _ := g.(object)
		rules, _ := group["rules"].([]any)
		failure := scaleTimes(group, factor)
		for _, r := range rules {
			if rule, ok := r.(object); ok && failure == nil {
				failure = scaleRule(rule, factor)
			}
		}
		if failure != nil {
			return nil, failure
		}
	}
	out, err := yaml.Marshal(read)
	if err != nil {
		return nil, fmt.Errorf("writing rules: %w", err)
	}
	return out, nil
}

func scaleRule(rule object, factor float64) error {
	text, _ := rule["expr"].(string)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return fmt.Errorf("reading a rule: %w", err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.MatrixSelector:
			n.Range = times(n.Range, factor)
		case *parser.VectorSelector:
			n.OriginalOffset = times(n.OriginalOffset, factor)
		case *parser.SubqueryExpr:
			n.Range, n.Step, n.OriginalOffset = times(n.Range, factor), times(n.Step, factor), times(n.OriginalOffset, factor)
		}
		return nil
	})
	rule["expr"] = expr.String()
	return scaleTimes(rule, factor)
}

// scaleTimes multiplies the waiting times of a part of a configuration.
func scaleTimes(settings object, factor float64) error {
	for _, key := range []string{"interval", "for", "keep_firing_for", "group_wait", "group_interval"} {
		text, ok := settings[key].(string)
		if !ok {
			continue
		}
		wait, err := model.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("reading %s: %w", key, err)
		}
		settings[key] = scaled(time.Duration(wait), factor)
	}
	return nil
}

func times(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor).Round(time.Millisecond)
}

func scaled(wait time.Duration, factor float64) string {
	return model.Duration(times(wait, factor)).String()
}
