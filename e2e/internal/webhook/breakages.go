package webhook

import "context"

// Breakage is a way to lose a backend and to get it back.
type Breakage struct {
	Name, Check string
	Reason      string // of the condition
	Error       string // what the API server says
	Break, Heal func(Backend, context.Context) error
}

// Breakages are those that the objects show.
var Breakages = []Breakage{
	{"service missing", "service-missing", "WebhookServiceNotFound", `service "hook" not found`, Backend.DeleteService, Backend.CreateService},
	{
		"port missing", "service-port-missing", "WebhookServicePortNotFound", `no service port 443 found for service "hook"`,
		func(b Backend, ctx context.Context) error { return b.SetPort(ctx, 444) },
		func(b Backend, ctx context.Context) error { return b.SetPort(ctx, Port) },
	},
	{"endpoints missing", "no-ready-endpoints", "WebhookServiceNoEndpoints", `no endpoints available for service "hook"`, Backend.DeleteEndpoints, Backend.CreateEndpoints},
	{"endpoints unready", "no-ready-endpoints", "WebhookServiceNoEndpoints", `no endpoints available for service "hook"`, Backend.Unready, Backend.Ready},
}
