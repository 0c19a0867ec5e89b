package dashboards

import "github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"

// runbook leads from a row with the column check to its runbook.
var runbook = Link{Title: "Runbook of this check", URL: report.RunbookURL("${__data.fields.check}"), Outside: true}
