package classify

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var servicePortMissing = &Check{
	Name:            "service-port-missing",
	Summary:         "The Service that a webhook calls does not have the port that it calls.",
	Severity:        Critical,
	Condition:       backendConditions(),
	Reason:          "WebhookServicePortNotFound",
	Alerts:          backendAlerts(),
	ConversionAlert: backendConversionAlert,
	For:             4 * time.Minute,
	Fails:           true,
	Find:            findFault(inventory.PortNotFound),
}
