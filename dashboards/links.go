package dashboards

// runbook leads from a row with the column check to its runbook.
var runbook = Link{"Runbook of this check", "https://github.com/webhook-auditor/webhook-auditor/blob/main/pkg/classify/${__data.fields.check}.md"}
