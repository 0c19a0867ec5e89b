package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

var serviceMissing = backendCheck("service-missing", "The Service that a webhook calls does not exist.",
	"WebhookServiceNotFound", inventory.ServiceNotFound)
