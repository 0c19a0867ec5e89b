package rules

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

var conversionAlerts = []Alert{
	{
		Name: "WebhookConversionFailing", Asks: "Of which CRDs do conversions fail, or was none answered in an hour?",
		Severity: classify.Warning, Enhancement: classify.Critical, For: 30 * time.Second,
		Expr:        withBackend(`max by (type, name) (` + worrying + `{` + isConversion + `}) or on (type, name) max by (type, name) (` + unanswered + `{` + isConversion + `}) ^ 0`),
		Summary:     `Objects of {{ $labels.name }} cannot be converted.`,
		Description: `{{ $value | humanizePercentage }} of the calls to ` + conversionOf + ` fail. That is in 5 minutes, in 30 between outages, or in one or six hours if few. Its objects cannot be read in another version than they are stored in; perhaps they cannot be written or listed either.` + ofSome + itsBackend + ` Never delete unreadable objects: they are sound, and come back with the webhook.`,
		Variables:   fact("instance") + variables("NAME NAMESPACE INSTANCE", "$labels.name $labels.namespace $instance"),
	},
	{
		Name: "WebhookConversionSlow", Asks: "Of which CRDs are conversions slow?",
		Severity: classify.Warning, Enhancement: classify.Critical, For: 30 * time.Second,
		KeepFiring:  10 * time.Minute,
		Expr:        withBackend(slowHeld + `{type="conversion"}`),
		Summary:     `Objects of {{ $labels.name }} are slow to convert.`,
		Description: slowCallsTo(conversionOf) + ` A list waits for as many calls as it has objects in another version.` + itsBackend,
		Variables:   conversionVariables,
	},
	{
		Name: "WebhookConversionBlocksControllers", Asks: "Of which CRDs do all conversions fail while controllers that read everything hang?",
		Severity: classify.Critical, For: 5 * time.Minute, KeepFiring: 10 * time.Minute,
		Expr:        withBackend(blocking),
		Summary:     `Garbage collection, namespace deletion or quota hangs on {{ $labels.name }}.`,
		Description: `No object of {{ $labels.name }} can be converted, and garbage collection, namespace deletion or quota hangs. These controllers read all resources: one that cannot be read stops them everywhere.` + itsBackend + ` If it cannot be repaired, set the CRD's conversion to None: see the runbook for its price. Never delete unreadable objects: they are sound.`,
		Variables:   conversionVariables,
	},
}

// allFail are the CRDs of which each conversion fails, and oftener than a client or two would ask.
var allFail = `max by (type, name) (` + ratio("5m") + `{` + isConversion + `} > 0.999 and on ` + perFailure + ` ` + failedIn("30m") + ` >= 5) ^ 0`

// controllersStuck records whether the controllers that read everything are stuck. The garbage collector
// counts an error once, when it gives up waiting, and not again while it lasts. A namespace takes seconds
// to delete; one that cannot be listed holds its worker for minutes. The resource quota controller counts
// no error: once started anew it has no worker until all can be listed, while quotas wait in its queues.
var controllersStuck = RecordingRule{
	Name: `cluster:webhook_auditor_controllers_stuck:group`, Asks: "Does garbage collection, the deletion of a namespace or quota hang?",
	Expr: `group(
		increase(garbagecollector_controller_resources_sync_error_total[15m]) > 0
		or max_over_time(workqueue_longest_running_processor_seconds{name="namespace"}[5m]) > 60
		or (
			min_over_time(workqueue_depth{name=~"resourcequota_.+"}[5m]) > 0
			and on (instance, name) max_over_time(workqueue_longest_running_processor_seconds{name=~"resourcequota_.+"}[5m]) == 0
		)
	)`,
}

// blocking selects these CRDs while the controllers are stuck, or the alert says that they are:
// the conversion must fail when they get stuck, and the alert then goes on for as long as it does.
var blocking = `(` + allFail + `) and on () (` + controllersStuck.Name + ` or ALERTS{alertname="WebhookConversionBlocksControllers"})`
