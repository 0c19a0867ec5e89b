package rules

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

var conversionAlerts = []Alert{
	{
		Name:        "WebhookConversionFailing",
		Severity:    classify.Warning,
		Enhancement: classify.Critical,
		For:         5 * time.Minute,
		Expr:        asWebhook(conversion.failing(unconverted) + ` or on (crd_name) (` + conversion.silent() + `) ^ 0`),
		Backend:     backendByName,
		Summary:     `Objects of {{ $labels.name }} cannot be converted.`,
		Description: `{{ $value | humanizePercentage }} of the calls to ` + conversionOf + ` fail: reading its objects in another version than they are stored in fails, and so may writing and listing them.` + itsBackend + ` Never "repair" it with the unsafe delete of unreadable objects: they are sound, and come back with the webhook.`,
	},
	{
		Name:        "WebhookConversionSlow",
		Severity:    classify.Warning,
		Enhancement: classify.Critical,
		For:         10 * time.Minute,
		Expr:        slowConversion,
		Backend:     backendByName,
		Summary:     `Objects of {{ $labels.name }} are slow to convert.`,
		Description: `One in a hundred calls to ` + conversionOf + ` takes {{ $value | humanizeDuration }} or longer, more than its threshold. It is called once for each object: a list waits for as many calls as it has objects in another version.` + itsBackend,
	},
	{
		Name:        "WebhookConversionBlocksControllers",
		Severity:    classify.Critical,
		For:         5 * time.Minute,
		Expr:        asWebhook(blocking),
		Backend:     backendByName,
		Summary:     `Garbage collection or namespace deletion hangs on {{ $labels.name }}.`,
		Description: `No object of {{ $labels.name }} can be converted, and at the same time the garbage collector cannot sync or the deletion of a namespace hangs: these controllers read all resources of the cluster, so one that cannot be read stops them for all.` + itsBackend + ` If the webhook cannot be brought back, back up the CRD and set its conversion strategy to None: the runbook has the commands and says what that costs. Never use the unsafe delete of unreadable objects: they are sound.`,
	},
}

// blocking selects the CRDs of which each conversion fails while the
// controllers that read everything are stuck. The garbage collector counts an
// error once, when it gives up waiting, and not again while it lasts, hence
// the hour. A namespace takes seconds to delete; one that cannot be listed
// holds its worker for minutes.
const blocking = `
	(
		sum by (crd_name) (increase(` + unconverted + `[5m])) > 0
		unless on (crd_name) sum by (crd_name) (increase(` + converted + `_count{succeeded="true"}[5m])) > 0
	)
	and on () (
		increase(garbagecollector_controller_resources_sync_error_total[1h]) > 0
		or max_over_time(workqueue_longest_running_processor_seconds{name="namespace"}[5m]) > 60
	)`
