package impact

import (
	"strconv"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// selector chooses the series of the webhook; those of conversions call its name
// crd_name.
func selector(p *classify.Profile, nameLabel string) string {
	name := nameLabel + "=" + strconv.Quote(p.Name)
	if nameLabel == "crd_name" {
		return name
	}
	return `type="` + string(p.Type) + `",` + name
}

// queries are the indicators of a webhook's health, ready to paste.
func queries(p *classify.Profile) []Query {
	own := []Query{
		{"backend ready (1) or not (0)", "min(webhook_auditor_webhook_backend_ready{" + selector(p, "name") + "})"},
		{"open findings", "max by (check, severity) (webhook_auditor_finding{" + selector(p, "name") + "})"},
	}
	if p.Type == inventory.Conversion {
		return append(fill(p, "crd_name", []Query{
			{"calls a second", `sum(rate(` + promql.ConversionSeconds + `_count{OF}[5m]))`},
			{"99th percentile of seconds", conversionQuantile},
			{"share of calls that fail", `sum(rate(` + promql.ConversionSeconds + `_count{OF,succeeded="false"}[5m])) / sum(rate(` + promql.ConversionSeconds + `_count{OF}[5m]))`},
		}), own...)
	}
	list := []Query{
		{"calls a second", `sum(rate(` + promql.Requests + `{OF}[5m]))`},
		{"99th percentile of seconds", admissionQuantile},
		{"share of calls that fail", `(` + failures(p) + `) / sum(rate(` + promql.Requests + `{OF}[5m]))`},
		{"share of calls that it refuses on purpose", `sum(rate(` + promql.Rejections + `{OF,error_type="no_error"}[5m])) / sum(rate(` + promql.Requests + `{OF}[5m]))`},
	}
	if len(p.MatchConditions) > 0 {
		list = append(list, Query{"matchConditions that cannot be evaluated, a second", `sum(rate(` + promql.MatchConditionErrors + `{kind="webhook",OF}[5m]))`})
	}
	return append(fill(p, "name", list), own...)
}

// failures counts what fails closed and open: what is kept apart.
func failures(p *classify.Profile) string {
	closed := `sum(rate(` + promql.Rejections + `{OF,error_type!="no_error"}[5m]))`
	if p.FailsClosed() {
		return closed
	}
	return `(` + closed + ` or vector(0)) + (sum(rate(` + promql.FailedOpen + `{OF}[5m])) or vector(0))`
}

const (
	admissionQuantile  = `histogram_quantile(0.99, sum by (le) (rate(` + promql.WebhookSeconds + `_bucket{OF}[5m])))`
	conversionQuantile = `histogram_quantile(0.99, sum by (le) (rate(` + promql.ConversionSeconds + `_bucket{OF}[5m])))`
)

// latencyQuery is the quantile that the threshold is about.
func latencyQuery(p *classify.Profile) []Query {
	if p.Type == inventory.Conversion {
		return fill(p, "crd_name", []Query{{"99th percentile of seconds", conversionQuantile}})
	}
	return fill(p, "name", []Query{{"99th percentile of seconds", admissionQuantile}})
}

// fill puts the webhook's matchers in place of OF.
func fill(p *classify.Profile, label string, list []Query) []Query {
	out := make([]Query, len(list))
	for i, q := range list {
		out[i] = Query{q.Name, strings.ReplaceAll(q.Expression, "OF", selector(p, label))}
	}
	return out
}
