package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

func conversionAlerts() []Alert {
	return []Alert{
		{
			Name:        "WebhookConversionFailing",
			Severity:    classify.Warning,
			Enhancement: Enhancement{classify.Critical, 0.01},
			For:         30 * time.Second,
			KeepFiring:  15 * time.Minute,
			Threshold:   0.05,
			Expr: withBackend("WebhookConversionFailing", conversion.failing()+
				` or on (type, name) `+asWebhook(`(`+withoutAnswers("crd_name", []string{unconverted}, " < 20", strings.ReplaceAll(`last_over_time(COUNT[5m]) unless last_over_time(COUNT[5m]) == last_over_time(COUNT[5m] offset 1h)`, "COUNT", promql.ConversionSeconds+`_count{succeeded="true"}`))+`) ^ 0`)),
			Summary:     `Objects of {{ $labels.name }} cannot be converted.`,
			Description: `{{ $value | humanizePercentage }} of the calls to ` + conversionOf + ` fail: reading its objects in another version than they are stored in fails, and so may writing and listing them.` + ofSome + itsBackend + ` Never "repair" it with the unsafe delete of unreadable objects: they are sound, and come back with the webhook.` + variables("NAME NAMESPACE INSTANCE", "$labels.name $labels.namespace $instance"),
		},
		{
			Name:        "WebhookConversionSlow",
			Severity:    classify.Warning,
			Enhancement: Enhancement{Severity: classify.Critical},
			For:         10 * time.Minute,
			KeepFiring:  10 * time.Minute,
			Expr:        withBackend("WebhookConversionSlow", slowConversion),
			Summary:     `Objects of {{ $labels.name }} are slow to convert.`,
			Description: `One in a hundred calls to ` + conversionOf + ` takes {{ $value | humanizeDuration }} or longer, more than its threshold. It is called once for each object: a list waits for as many calls as it has objects in another version.` + itsBackend + conversionVariables,
		},
		{
			Name:        "WebhookConversionBlocksControllers",
			Severity:    classify.Critical,
			For:         5 * time.Minute,
			KeepFiring:  5 * time.Minute,
			Expr:        withBackend("WebhookConversionBlocksControllers", blocking),
			Summary:     `Garbage collection, namespace deletion or quota hangs on {{ $labels.name }}.`,
			Description: `No object of {{ $labels.name }} can be converted, and at the same time the garbage collector cannot sync, the deletion of a namespace hangs, or no resource quota is computed: these controllers read all resources of the cluster, so one that cannot be read stops them for all.` + itsBackend + ` If the webhook cannot be brought back, back up the CRD and set its conversion strategy to None: the runbook has the commands and says what that costs. Never use the unsafe delete of unreadable objects: they are sound.` + conversionVariables,
		},
	}
}

// allFail are the CRDs of which each conversion fails, minute after minute, and
// oftener than a client or two would ask.
var allFail = `(
		` + conversion.sum("increase5m") + ` >= 5
		and on (type, name) ` + conversion.most("minutes30m") + ` >= 4
		unless on (type, name) ` + asWebhook(`sum by (crd_name) (increase(`+promql.ConversionSeconds+`_count{succeeded="true"}[5m])) > 0`) + `
	) ^ 0`

// controllersStuck records whether the controllers that read everything are stuck.
// The garbage collector counts an error once, when it gives up waiting, and not
// again while it lasts. A namespace takes seconds to delete; one that cannot be
// listed holds its worker for minutes. The resource quota controller counts no
// error: once started anew it has no worker until all can be listed, while quotas
// wait in its queues.
var controllersStuck = RecordingRule{
	Name: `cluster:webhook_auditor_controllers_stuck:group`,
	Expr: `group(
		increase(garbagecollector_controller_resources_sync_error_total[15m]) > 0
		or max_over_time(workqueue_longest_running_processor_seconds{name="namespace"}[5m]) > 60
		or (
			min_over_time(workqueue_depth{name=~"resourcequota_.+"}[5m]) > 0
			and on (instance, name) max_over_time(workqueue_longest_running_processor_seconds{name=~"resourcequota_.+"}[5m]) == 0
		)
	)`,
}

// blocking selects these CRDs while the controllers are stuck: the conversion must
// fail when they get stuck, and the alert then goes on for as long as it does.
var blocking = allFail + ` and on () ` + controllersStuck.Name + `
	or on (type, name) (` + allFail + ` and on (type, name) ALERTS{alertname="WebhookConversionBlocksControllers"})`
