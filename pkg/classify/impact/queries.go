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

// queries are the indicators of a webhook's health, ready to paste; OF stands for the
// matchers of the webhook.
func queries(p *classify.Profile) []Query {
	seconds, total, failed, label := promql.WebhookSeconds, promql.Requests, promql.Rejections+`{OF,error_type!="no_error"}`, "name"
	if p.Type == inventory.Conversion {
		seconds, total, failed, label = promql.ConversionSeconds, promql.ConversionSeconds+"_count", promql.ConversionSeconds+`_count{OF,succeeded="false"}`, "crd_name"
	}
	failing := `sum(rate(` + failed + `[5m]))`
	if p.Type != inventory.Conversion && !p.FailsClosed() { // what fails open is kept apart
		failing = `((` + failing + ` or vector(0)) + (sum(rate(` + promql.FailedOpen + `{OF}[5m])) or vector(0)))`
	}
	calls := `sum(rate(` + total + `{OF}[5m]))`
	out := []Query{
		{"calls a second", calls},
		{"99th percentile of seconds", `histogram_quantile(0.99, sum by (le) (rate(` + seconds + `_bucket{OF}[5m])))`},
		{"share of calls that fail", failing + ` / ` + calls},
	}
	if p.Type != inventory.Conversion {
		out = append(out, Query{"share of calls that it refuses on purpose", `sum(rate(` + promql.Rejections + `{OF,error_type="no_error"}[5m])) / ` + calls})
	}
	for i := range out {
		out[i].Expression = strings.ReplaceAll(out[i].Expression, "OF", selector(p, label))
	}
	return append(out,
		Query{"backend ready (1) or not (0)", "min(webhook_auditor_webhook_backend_ready{" + selector(p, "name") + "})"},
		Query{"open findings", "max by (check, severity) (webhook_auditor_finding{" + selector(p, "name") + "})"})
}
