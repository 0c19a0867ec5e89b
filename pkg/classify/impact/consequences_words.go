package impact

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Verdict is the answer in one line.
func (c *Consequences) Verdict() string {
	var parts []string
	for _, part := range []struct {
		text    string
		selects func(Effect) bool
	}{
		{"requests to %s are refused already", func(e Effect) bool { return e.Already != "" && e.Outcome == Refused }},
		{"requests to %s are refused", func(e Effect) bool { return e.Already == "" && !e.PreStop && e.Outcome == Refused }},
		{"requests to %s are refused once preStop hooks end, unless new Pods are ready by then", func(e Effect) bool { return e.PreStop && e.Outcome == Refused }},
		{"conversions by %s fail", func(e Effect) bool { return e.Outcome == Unconverted }},
		{"requests pass without %s", func(e Effect) bool { return e.Outcome == Unchecked }},
	} {
		n := 0
		for _, e := range c.Effects {
			if part.selects(e) {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf(part.text, inventory.Counted(n, "webhook")))
		}
	}
	switch {
	case len(parts) > 0:
		return "With " + c.Change.String() + ": " + strings.Join(parts, ", ") + "."
	case len(c.Unknown) > 0:
		return "With " + c.Change.String() + ": no webhook is known to lose its last ready endpoint; of " + inventory.Counted(len(c.Unknown), "webhook") + " it is not known."
	}
	return "With " + c.Change.String() + ": no webhook that is called loses its last ready endpoint; requests are answered as before."
}

// String says what goes away.
func (g Gone) String() string {
	parts := text.Map(g.Down, func(name string) string { return "Service " + name + " down" })
	parts = append(parts, text.Map(g.Nodes, func(name string) string { return "node " + name + " drained" })...)
	parts = append(parts, text.Map(g.Delete, func(name string) string { return "configuration " + name + " deleted" })...)
	return strings.Join(parts, ", ")
}

// String names the webhook and its requests.
func (e Effect) String() string {
	requests := resourcesText(e.Requests)
	switch {
	case len(e.Requests) > 0:
	case len(e.Unserved) > 0:
		requests = some(e.Unserved) + ", which the API server or the input does not have"
	default:
		requests = "no request, as it has no rules"
	}
	out := fmt.Sprintf("%s webhook %s: %s", e.Type.Title(), e.Name, requests)
	if e.NamespaceSelector != "" {
		out += "; namespaced ones in namespaces that match " + e.NamespaceSelector
	}
	if len(e.Namespaces) > 0 {
		out += " (" + some(e.Namespaces) + ")"
	}
	if len(e.Unless) > 0 {
		out += "; unless " + strings.Join(e.Unless, " or ")
	}
	if e.Already != "" {
		out += "; that is so already: " + e.Already
	}
	return out
}

// String says how many ready endpoints are left.
func (w Weakened) String() string {
	return fmt.Sprintf("%s webhook %s: %d of %d", w.Type.Title(), w.Name, w.After, w.Before)
}

// String counts the Pods that leave, and says what is risky about it.
func (e Evicted) String() string {
	counted := fmt.Sprintf("%s: %d of %s", e.Workload, e.Pods, inventory.Counted(e.OfPods, "Pod"))
	return strings.Join(append([]string{counted}, e.Risks...), "; ")
}

// String says what waits for which webhooks.
func (b Blocked) String() string {
	by := text.Map(b.By, func(r inventory.Ref) string { return Named(r) })
	if b.More {
		by = append(by, "and more")
	}
	out := fmt.Sprintf("%s needs Pods that are refused by %s", b.Service, strings.Join(by, ", "))
	if len(b.Steps) > 0 {
		out += ": " + strings.Join(b.Steps, "; ")
	}
	return out
}

// Named is a webhook with what registers it.
func Named(r inventory.Ref) string {
	out := fmt.Sprintf("%s webhook %s", r.Type.Title(), r.Name)
	if r.Type != inventory.Conversion { // the CRD that registers it has its name
		out += " of configuration " + r.Configuration
	}
	return out
}

// Order says what comes back when.
func (c *Consequences) Order() []string {
	var out []string
	for i, wave := range c.Recovery {
		when := "once those before are ready, which refuse what they need until then"
		if i == 0 {
			when = "no webhook that is down refuses what they need"
		}
		out = append(out, fmt.Sprintf("%d. %s: %s", i+1, strings.Join(wave.Services, ", "), when))
	}
	if c.NotCompared > 0 {
		out = append(out, fmt.Sprintf("That order may be too short: %d pairs of webhooks and Pods are too many to be compared", c.NotCompared))
	}
	return out
}

// Stops are the functions of the cluster that all effects stop, each once.
func (c *Consequences) Stops() []string {
	var out []string
	for _, e := range c.Effects {
		out = append(out, e.Stops...)
	}
	return text.Once(out)
}
