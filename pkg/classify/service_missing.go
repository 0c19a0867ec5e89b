package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

var serviceMissing = backendCheck(inventory.ServiceNotFound, Check{
	Name:    "service-missing",
	Summary: "The Service that a webhook calls does not exist.",
	Cause:   "Service does not exist",
	Reason:  "WebhookServiceNotFound",
})
