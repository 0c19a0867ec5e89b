// Package promql has the names of the API server's series that rules and boards query
// and that an auditor reads, each once. Source:
// k8s.io/apiserver/pkg/admission/metrics, k8s.io/apiserver/pkg/admission/plugin,
// k8s.io/apiextensions-apiserver/pkg/apiserver/conversion.
package promql

// The calls of admission webhooks, by name and type.
const (
	Requests             = "apiserver_admission_webhook_request_total"
	Rejections           = "apiserver_admission_webhook_rejection_count"
	FailedOpen           = "apiserver_admission_webhook_fail_open_count"
	WebhookSeconds       = "apiserver_admission_webhook_admission_duration_seconds"
	MatchConditionErrors = "apiserver_admission_match_condition_evaluation_errors_total"
	Exclusions           = "apiserver_admission_match_condition_exclusions_total"
)

// Conversions, by crd_name. ConversionRequests counts those that are none, too;
// OldConversionSeconds is the name up to Kubernetes 1.27.
const (
	ConversionSeconds    = "apiserver_crd_conversion_webhook_duration_seconds"
	OldConversionSeconds = "apiserver_crd_webhook_conversion_duration_seconds"
	ConversionRequests   = "apiserver_conversion_webhook_request_total"
)

// The checks of admission policies, by policy.
const (
	Validations       = "apiserver_validating_admission_policy_check_total"
	ValidationSeconds = "apiserver_validating_admission_policy_check_duration_seconds"
	Mutations         = "apiserver_mutating_admission_policy_check_total"
	MutationSeconds   = "apiserver_mutating_admission_policy_check_duration_seconds"
)

// Admission as a whole: by step, and by admission plugin.
const (
	StepSeconds   = "apiserver_admission_step_admission_duration_seconds"
	PluginSeconds = "apiserver_admission_controller_admission_duration_seconds"
)

// Webhooks and policies that the API server reads from files.
const (
	ManifestReloads = "apiserver_manifest_admission_config_controller_automatic_reloads_total"
	ManifestHashes  = "apiserver_manifest_admission_config_controller_last_config_info"
)

// ProcessStart is when the API server started.
const ProcessStart = "process_start_time_seconds"

// The records of the summary.
const (
	SummaryWebhooks       = `cluster:webhook_auditor_webhooks:count`
	SummaryFailing        = `cluster:webhook_auditor_webhooks_failing:count`
	SummarySlow           = `cluster:webhook_auditor_webhooks_slow:count`
	SummaryWithoutBackend = `cluster:webhook_auditor_webhooks_without_backend:count`
	SummaryFindings       = `cluster_severity:webhook_auditor_findings:max`
	SummaryTimestamp      = `cluster:webhook_auditor_snapshot_timestamp_seconds:max`
	SummaryVersions       = `cluster_version:webhook_auditor_build_info:top2`
	SummaryWorstFailing   = `cluster_type_name:webhook_auditor_calls_failed:top5`
	SummaryWorstLatency   = `cluster_type_name:webhook_auditor_call_seconds:p99_top3`
)

// The records of a store of all clusters: in how many of them each webhook is registered
// how, with which timeout, and in how many each configuration is.
const (
	FleetRegistrations  = `clusters:webhook_auditor_webhook_info:count`
	FleetTimeouts       = `clusters:webhook_auditor_webhook_timeout_seconds:count_values`
	FleetConfigurations = `clusters:webhook_auditor_configurations:count`
)

// RegisteredAs are the labels of a webhook that is registered in several clusters,
// Variant those and what of it may differ.
const (
	RegisteredAs = "type, configuration, name"
	Variant      = RegisteredAs + ", failure_policy, match_policy, service_namespace, service_name"
)
