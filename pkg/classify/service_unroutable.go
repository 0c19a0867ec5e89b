package classify

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var serviceUnroutable = &Check{
	Name:            "service-unroutable",
	Summary:         "The API server cannot call the type of Service that a webhook names.",
	Severity:        Critical,
	Condition:       backendConditions(),
	Reason:          "WebhookServiceNotReady",
	Alerts:          backendAlerts(),
	ConversionAlert: backendConversionAlert,
	For:             4 * time.Minute,
	Fails:           true,
	Find:            findFault(inventory.ServiceUnroutable),
}
