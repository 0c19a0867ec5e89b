package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

var serviceUnroutable = backendCheck("service-unroutable", "The API server cannot call the type of Service that a webhook names.",
	"WebhookServiceNotReady", inventory.ServiceUnroutable)
