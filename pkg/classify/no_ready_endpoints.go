package classify

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var noReadyEndpoints = &Check{
	Name:            "no-ready-endpoints",
	Summary:         "The Service that a webhook calls has no ready endpoint behind the port that it calls.",
	Severity:        Critical,
	Condition:       backendConditions(),
	Reason:          "WebhookServiceNoEndpoints",
	Alerts:          backendAlerts(),
	ConversionAlert: backendConversionAlert,
	For:             4 * time.Minute,
	Fails:           true,
	Find:            findFault(inventory.NoReadyEndpoints),
}
