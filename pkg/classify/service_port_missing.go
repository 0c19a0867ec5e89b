package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

var servicePortMissing = backendCheck(inventory.PortNotFound, Check{
	Name:    "service-port-missing",
	Summary: "The Service that a webhook calls does not have the port that it calls.",
	Cause:   "Service has no such port",
	Reason:  "WebhookServicePortNotFound",
})
