package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

var noReadyEndpoints = backendCheck("no-ready-endpoints", "The Service that a webhook calls has no ready endpoint behind the port that it calls.",
	"WebhookServiceNoEndpoints", inventory.NoReadyEndpoints)
