package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

var serviceUnroutable = backendCheck(inventory.ServiceUnroutable, Check{
	Name:    "service-unroutable",
	Summary: "The API server cannot call the type of Service that a webhook names.",
	Cause:   "API servers cannot call such a Service",
	Reason:  "WebhookServiceNotReady",
})
