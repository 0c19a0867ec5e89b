package dashboards

import "fmt"

// writes selects the requests that meet admission.
const writes = `verb=~"POST|PUT|PATCH|APPLY|DELETE|DELETECOLLECTION|CONNECT"`

// resourceLabels identify a resource in the API server's series.
const resourceLabels = "cluster, group, resource, subresource"

// admissionLatency returns the mean seconds that all admission webhooks
// together add to a write, by resource: the API server counts the whole
// request, and the request without its webhooks. An average is all that two
// histograms can be subtracted to.
func admissionLatency(window string) string {
	return fmt.Sprintf("(\n  %s\n  - %s\n)\n/ (%s > 0)",
		total("apiserver_request_duration_seconds", "sum", `cluster=~"$cluster",dry_run="",`+writes+"}"+window),
		total("apiserver_request_sli_duration_seconds", "sum", `cluster=~"$cluster",`+writes+"}"+window),
		total("apiserver_request_sli_duration_seconds", "count", `cluster=~"$cluster",`+writes+"}"+window))
}

func total(metric, what, rest string) string {
	return fmt.Sprintf("(sum by (%[1]s) (rate(%[2]s_%[3]s{%[4]s)) or histogram_%[3]s(sum by (%[1]s) (rate(%[2]s{%[4]s))))",
		resourceLabels, metric, what, rest)
}

// resourceFailures returns the share of failed calls among the calls of all
// webhooks that reach a resource, conversions included. It is an upper bound:
// the API server does not export on which resource a call failed.
func resourceFailures(s scope) string {
	reach := either(
		`max by (cluster, type, name, group, resource) (webhook_auditor_webhook_reach{cluster=~"$cluster"})`,
		convertedResources(`max by (cluster, type, name) (webhook_auditor_webhook_info{cluster=~"$cluster",type="conversion"})`),
	)
	byResource := func(calls string) string {
		return fmt.Sprintf("sum by (cluster, group, resource) (\n  (%s)\n  * on (%s) group_left () (%s)\n)", reach, webhookLabels, calls)
	}
	return fmt.Sprintf("clamp_max(%s\n/ (%s > 0), 1)", byResource(s.failures()), byResource(s.calls()))
}

// convertedResources gives conversions the resource that the name of their CRD
// spells.
func convertedResources(expr string) string {
	expr = fmt.Sprintf(`label_replace(%s, "resource", "$1", "name", "([^.]+)[.].+")`, expr)
	return fmt.Sprintf(`label_replace(%s, "group", "$1", "name", "[^.]+[.](.+)")`, expr)
}

// withResourceName adds the label "what": the resource as kubectl writes it.
func withResourceName(expr string) string {
	expr = fmt.Sprintf(`label_join(%s, "what", ".", "resource", "group")`, expr)
	expr = fmt.Sprintf(`label_replace(%s, "what", "$1", "what", "(.*)[.]")`, expr)
	expr = fmt.Sprintf(`label_join(%s, "what", "/", "what", "subresource")`, expr)
	return fmt.Sprintf(`label_replace(%s, "what", "$1", "what", "(.*)/")`, expr)
}

// withReachedName is withResourceName for series of the auditor, which write a subresource
// into the label resource.
func withReachedName(expr string) string {
	expr = fmt.Sprintf(`label_replace(%s, "subresource", "$1", "resource", ".+/(.+)")`, expr)
	return withResourceName(fmt.Sprintf(`label_replace(%s, "resource", "$1", "resource", "(.+)/.+")`, expr))
}
