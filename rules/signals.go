package rules

import (
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

// Signals is where the series of the signal alerts come from.
type Signals string

// The Signals: what Prometheus scrapes of the API servers, or what an auditor exports of
// them with --web.observed-metrics, where Prometheus has no API server to scrape.
const (
	APIServerSignals Signals = "apiserver"
	AuditorSignals   Signals = "auditor"
)

// available are the groups without what reads series that an auditor does not export:
// those of all requests and of kube-controller-manager.
func (o Options) available(all []Group) []Group {
	if o.Signals != AuditorSignals {
		return all
	}
	var out []Group
	for _, g := range all {
		if g.Name == resourcesGroup {
			continue
		}
		g.RecordingRules = slices.DeleteFunc(slices.Clone(g.RecordingRules), func(r RecordingRule) bool {
			return r.Name == missing && !exports(r.Labels["series"])
		})
		g.Alerts = slices.Clone(g.Alerts)
		for i, a := range g.Alerts {
			if a.Expr == missing {
				g.Alerts[i].Description = strings.Replace(a.Description, missingCauses, "The auditor must run with --observe=apiserver --web.observed-metrics, and reach an API server's /metrics (its page and log name what it cannot read).", 1)
			}
		}
		out = append(out, g)
	}
	return out
}

// exports reports whether the input is of a family that an auditor exports.
func exports(input string) bool {
	return slices.ContainsFunc(observed.Exported(), func(family string) bool { return strings.Contains(input, family) })
}

// named has what was rendered read the series that there are.
func (o Options) named(rendered []byte) []byte {
	if o.Signals != AuditorSignals {
		return rendered
	}
	var pairs []string
	for _, family := range observed.Exported() {
		pairs = append(pairs, family, observed.ExportedName(family))
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(rendered)))
}
