package classify

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var serviceMissing = &Check{
	Name:            "service-missing",
	Summary:         "The Service that a webhook calls does not exist.",
	Severity:        Critical,
	Condition:       backendConditions(),
	Reason:          "WebhookServiceNotFound",
	Alerts:          backendAlerts(),
	ConversionAlert: backendConversionAlert,
	For:             4 * time.Minute,
	Fails:           true,
	Find:            findFault(inventory.ServiceNotFound),
}
