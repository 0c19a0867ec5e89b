package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

var servicePortMissing = backendCheck("service-port-missing", "The Service that a webhook calls does not have the port that it calls.",
	"WebhookServicePortNotFound", inventory.PortNotFound)
