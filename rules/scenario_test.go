package rules

import (
	"fmt"
	"strings"
)

// called are the series of calls of "w" that are quick and allowed.
func called(values string) []string {
	return []string{
		`apiserver_admission_webhook_request_total{instance="a",name="w",type="validating",operation="CREATE",code="200",rejected="false"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="0.1"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="2.5"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="10"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_count{instance="a",name="w",type="validating",operation="CREATE",rejected="false"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="0.5"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="1"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="+Inf"} ` + values,
	}
}

// failed are the calls of "w" that fail and are refused for it.
func failed(values string) []string {
	return []string{
		`apiserver_admission_webhook_request_total{instance="a",name="w",type="validating",operation="CREATE",code="503",rejected="true"} ` + values,
		`apiserver_admission_webhook_rejection_count{instance="a",name="w",type="validating",operation="CREATE",error_type="calling_webhook_error",rejection_code="503"} ` + values,
	}
}

// audited are the series of two auditors that know "w".
func audited(ticks int) []string {
	var out []string
	for _, pod := range []string{"one", "two"} {
		out = append(out, auditor(pod, "policy", fmt.Sprintf("x%d", ticks))...)
	}
	return out
}

// auditor are the series of an auditor that knows "w" with its backend in the
// namespace.
func auditor(pod, namespace, times string) []string {
	target := fmt.Sprintf(`instance=%q,pod=%q,namespace="webhook-auditor",job="webhook-auditor"`, pod, pod)
	webhook := `type="validating",name="w"`
	return []string{
		`webhook_auditor_build_info{` + target + `,version="1"} 1` + times,
		`webhook_auditor_snapshot_timestamp_seconds{` + target + `} 0+30` + times,
		`webhook_auditor_webhook_info{` + target + `,` + webhook + `,configuration="c",failure_policy="Fail",service_namespace="` + namespace + `"} 1` + times,
		`webhook_auditor_webhook_reach{` + target + `,` + webhook + `,configuration="c",class="critical",group="",resource="pods"} 1` + times,
		`webhook_auditor_webhook_latency_threshold_seconds{` + target + `,` + webhook + `,service_namespace="` + namespace + `"} 0.5` + times,
		`webhook_auditor_webhook_failure_impact{` + target + `,` + webhook + `,service_namespace="` + namespace + `",impact="closed"} 1` + times,
	}
}

// others are the other series that are always there.
func others(ticks int) []string {
	return []string{
		fmt.Sprintf(`apiserver_admission_step_admission_duration_seconds_count{instance="a"} 0+1x%d`, ticks),
		fmt.Sprintf(`garbagecollector_controller_resources_sync_error_total{instance="k"} 0x%d`, ticks),
		fmt.Sprintf(`workqueue_longest_running_processor_seconds{instance="k",name="namespace"} 0x%d`, ticks),
		fmt.Sprintf(`workqueue_depth{instance="k",name="namespace"} 0x%d`, ticks),
		fmt.Sprintf(`apiserver_request_sli_duration_seconds_sum{instance="a",verb="GET",group="",resource="pods"} 0+1x%d`, ticks),
		fmt.Sprintf(`apiserver_request_duration_seconds_sum{instance="a",verb="GET",group="",resource="pods",dry_run=""} 0+1x%d`, ticks),
	}
}

// counter writes a counter as promtool does, one value each scrape. Like the
// API server's it is born when it first counts.
func counter(scrape, end int, value func(second int) int) string {
	var b strings.Builder
	for s := 0; s <= end; s += scrape {
		if v := value(s); v > 0 {
			fmt.Fprintf(&b, "%d ", v)
		} else {
			b.WriteString("_ ")
		}
	}
	return b.String()
}
