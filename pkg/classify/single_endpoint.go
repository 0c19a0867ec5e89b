package classify

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var singleEndpoint = &Check{
	Name:     "single-endpoint",
	Summary:  "A webhook that critical resources wait for has a single ready endpoint, or all on one node.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if !p.FailsClosed() || len(p.ByClass[ClassCritical]) == 0 || !p.State.Known ||
			p.State.Fault != inventory.Sound || p.Snapshot.Nodes == 1 {
			return nil
		}
		where := aloneAt(p)
		if where == "" {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is called for %s%s with failurePolicy Fail, but its Service %s has %s: when that goes, they are refused",
				listed(p.ByClass[ClassCritical]), scopeOf(p, p.ByClass[ClassCritical]), p.State.Service.Key, where),
			Brief: fmt.Sprintf("requests for %s%s need Service %s, which has %s",
				listed(p.ByClass[ClassCritical]), scopeOf(p, p.ByClass[ClassCritical]), p.State.Service.Key, where),
			Fix: fmt.Sprintf("run two replicas on different nodes, with a PodDisruptionBudget of maxUnavailable 1: kubectl scale %s %s --replicas=2%s", ShellFlag("-n", p.State.Service.Namespace), scaled(p), byOwner(p)),
		}}
	},
}

// scaled is the workload behind the webhook whose replicas a user can set.
func scaled(p *Profile) string {
	for _, w := range BehindWebhook(p) {
		if maker := w.Maker(); maker.Kind == "Deployment" || maker.Kind == "StatefulSet" {
			return quoted(strings.ToLower(maker.Kind) + "/" + maker.Name)
		}
	}
	return "deployment/NAME"
}

// aloneAt says where all ready endpoints are if one fault takes them away.
func aloneAt(p *Profile) string {
	if p.State.Ready == 1 {
		return "a single ready endpoint"
	}
	if node := SharedByEndpoints(p, func(e *inventory.Endpoint) string { return e.Node }); node != "" {
		return fmt.Sprintf("all %d ready endpoints on node %s", p.State.Ready, node)
	}
	return ""
}

// SharedByEndpoints returns what all ready endpoints of the webhook's Service have in
// common, "" where they differ, or that of one is not known.
func SharedByEndpoints(p *Profile, domain func(*inventory.Endpoint) string) string {
	shared := ""
	endpoints := p.Snapshot.Services[p.State.Service.Key].Endpoints
	for i := range endpoints {
		e := &endpoints[i]
		if !e.Ready {
			continue
		}
		if domain(e) == "" || shared != "" && domain(e) != shared {
			return ""
		}
		shared = domain(e)
	}
	return shared
}
