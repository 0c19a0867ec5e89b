package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

var noReadyEndpoints = backendCheck(inventory.NoReadyEndpoints, Check{
	Name:    "no-ready-endpoints",
	Summary: "The Service that a webhook calls has no ready endpoint behind the port that it calls.",
	Cause:   "Service has no ready endpoint",
	Reason:  "WebhookServiceNoEndpoints",
})
