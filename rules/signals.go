package rules

import (
	"regexp"
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
		for i := range g.RecordingRules {
			g.RecordingRules[i].Expr = ofAuditors(g.RecordingRules[i].Expr)
		}
		for i, a := range g.Alerts {
			if g.Name == selfGroup { // an auditor is named by its instance
				g.Alerts[i].Expr = exported(a.Expr)
				continue
			}
			g.Alerts[i] = a.ofAuditors()
		}
		out = append(out, g)
	}
	return out
}

func (a Alert) ofAuditors() Alert {
	a.Expr = ofAuditors(a.Expr)
	a.Summary = strings.ReplaceAll(a.Summary, "$labels.instance", "$labels.server")
	a.Description, a.Variables = ofServer.Replace(a.Description), ofServer.Replace(a.Variables)
	a.Description = strings.Replace(a.Description, missingCauses, "The auditor must run with --observe=apiserver --web.observed-metrics, and reach an API server's /metrics (its page and log name what it cannot read).", 1)
	a.Description = exported(a.Description)
	return a
}

// exports reports whether the input is of a family that an auditor exports.
func exports(input string) bool {
	return slices.ContainsFunc(observed.Exported(), func(family string) bool { return strings.Contains(input, family) })
}

// exported names the series as auditors export them.
func exported(text string) string {
	for _, family := range observed.Exported() {
		text = strings.ReplaceAll(text, family, observed.ExportedName(family))
	}
	return text
}

// ofAuditors has an expression read what auditors export: of each API server by the
// label server, and of several auditors what the one says that has seen most.
func ofAuditors(expr string) string {
	return overTime.ReplaceAllString(instanceLabel.ReplaceAllString(exported(expr), "server"), "max without (instance, pod, node) ($0)")
}

// ofServer has templates write the API server of what auditors export.
var ofServer = strings.NewReplacer("$labels.instance", "$labels.server", ".Labels.instance", ".Labels.server")

var (
	overTime      = regexp.MustCompile(`\b(increase|rate|last_over_time)\(\s*webhook_auditor_observed_\w+(\{[^}]*\})?\[\w+\]( offset \w+)?\s*\)`)
	instanceLabel = regexp.MustCompile(`\binstance\b`)
)
