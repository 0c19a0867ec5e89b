package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// caused are the findings of one cause: of a Service that cannot be called, else of a
// check.
type caused struct {
	check    *classify.Check
	severity classify.Severity
	service  inventory.Key
	findings []*classify.Finding
	// profiles are the webhooks of the findings that are shown.
	profiles []*classify.Profile
	// stops are functions of the cluster, everywhere how many of them stop in all
	// namespaces.
	stops      []string
	everywhere int
}

// broken says that the webhooks fail now.
func (c *caused) broken() bool { return c.check.Fails && c.severity > classify.Info }

// urgency is the group that the cause is shown in.
func (c *caused) urgency() int {
	switch {
	case c.broken():
		return 0
	case c.severity > classify.Info:
		return 1
	}
	return 2
}

// cause is one that is written.
type cause struct {
	Title, Summary, Severity string
	Check                    link
	Count                    int
	Findings                 []findingRow
	More                     int
	All                      link
	Stops                    []string
	Since                    since
	Owner                    string
	Alerts                   []string
	// Look shows the cause, Save keeps what a fix may change; "" for nothing.
	Look, Save string
	// Note is for the ticket of an incident; "" but for the first cause.
	Note string
}

// since says when it began, as far as that is known.
type since struct{ What, At string }

// causes groups the findings that are not acknowledged: what fails now and stops most
// comes first.
func (v *view) causes() []*caused {
	type key struct {
		check    *classify.Check
		severity classify.Severity
		service  inventory.Key
	}
	grouped := map[key]*caused{}
	var out []*caused
	for _, f := range v.findings {
		if f.Acknowledged {
			continue
		}
		k, p := key{check: f.Check, severity: f.Severity}, v.byRef[f.Webhook]
		if p != nil && f.Check.Name == string(p.State.Fault) {
			k.service = p.State.Service.Key
		}
		if grouped[k] == nil {
			grouped[k] = &caused{check: f.Check, severity: f.Severity, service: k.service}
			out = append(out, grouped[k])
		}
		grouped[k].findings = append(grouped[k].findings, f)
		if p != nil {
			grouped[k].profiles = append(grouped[k].profiles, p)
		}
	}
	for _, c := range out {
		c.weigh()
	}
	slices.SortStableFunc(out, func(a, b *caused) int {
		return cmp.Or(
			cmp.Compare(a.urgency(), b.urgency()), cmp.Compare(b.severity, a.severity),
			cmp.Compare(b.everywhere, a.everywhere), cmp.Compare(len(b.stops), len(a.stops)), cmp.Compare(len(b.findings), len(a.findings)),
			cmp.Compare(slices.Index(classify.Checks, a.check), slices.Index(classify.Checks, b.check)), a.service.Compare(b.service),
		)
	})
	return out
}

// weigh finds what of the cluster stops, where the webhooks fail now.
func (c *caused) weigh() {
	if !c.broken() || c.severity < classify.Critical {
		return
	}
	for _, p := range c.profiles {
		stops := impact.StopsOf(p)
		for _, stop := range stops {
			if !slices.Contains(c.stops, stop) {
				c.stops = append(c.stops, stop)
				if p.NamespaceSelector.Empty() {
					c.everywhere++
				}
			}
		}
	}
}

// maxPerCause bounds the findings of a cause on the overview.
const maxPerCause = 3

func (v *view) cause(of *caused) cause {
	first := of.findings[0]
	c := cause{
		Title: of.check.Name, Summary: of.check.Summary, Severity: of.severity.String(), Check: v.check(of.check), Count: len(of.findings),
		Stops: of.stops, Look: first.Look(v.byRef[first.Webhook]), All: v.search("all of them", url.Values{"finding": {of.check.Name}, "severity": {of.severity.String()}}),
	}
	c.Findings, c.More = v.rows(of.findings, maxPerCause)
	c.Alerts = v.alertsOn(of.profiles)
	switch {
	case of.service.Name != "":
		c.Title = classify.BackendName(of.profiles[0]) + " " + of.profiles[0].State.Detail
		c.Summary, _, _ = strings.Cut(first.Brief, ": ")
		c.All = v.search("all of them", url.Values{"finding": {of.check.Name}, "namespace": {of.service.Namespace}})
	case len(of.findings) == 1:
		c.Title, c.Summary = first.Webhook.Name, sentence(cmp.Or(first.Brief, first.Message))
	}
	if len(of.profiles) > 0 {
		c.Owner = of.profiles[0].Object.Owner.String()
	}
	if of.broken() && len(of.profiles) > 0 {
		c.Since, c.Save = v.since(of.profiles), of.profiles[0].Commands().Save
	}
	c.once()
	return c
}

// sentence begins with a capital letter.
func sentence(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// once leaves each command, and a fix that several findings share, in one place.
func (c *cause) once() {
	seen := map[report.FixPart]bool{{Text: c.Look, Command: true}: true, {Text: c.Save, Command: true}: true}
	for i := range c.Findings {
		c.Findings[i].Fix = slices.DeleteFunc(c.Findings[i].Fix, func(p report.FixPart) bool {
			again := seen[p]
			seen[p] = true
			return again
		})
	}
}

// since is when the first of the webhooks began to fail: as this process saw it, as
// Prometheus counts failed calls, or as a condition has it of all webhooks of a type.
func (v *view) since(profiles []*classify.Profile) since {
	if v.history != nil {
		var begin time.Time
		for _, p := range profiles {
			if at := v.history.FailingSince(p.Ref); !at.IsZero() && (begin.IsZero() || at.Before(begin)) {
				begin = at
			}
		}
		switch {
		case begin.IsZero():
		case begin.After(v.history.Since()):
			return since{"Failing since", timeText(begin)}
		default:
			return since{"Failing at least since", timeText(begin)}
		}
	}
	p := profiles[0]
	if ago, failing := v.Snapshot.Observed.Of(p.Series()).FailingFor(); failing {
		return since{"Its calls fail since about", timeText(v.Snapshot.Observed.Servers[0].To.Add(-ago))}
	}
	name := classify.FindCheck(string(p.State.Fault))
	if name == nil {
		return since{}
	}
	for _, c := range v.Conditions {
		if c.Type == name.Condition[p.Type] && c.Status == metav1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return since{c.Type + " is True since", timeText(c.LastTransitionTime.Time)}
		}
	}
	return since{}
}

// alertsOn are the alerts that fire on the webhooks.
func (v *view) alertsOn(profiles []*classify.Profile) []string {
	var out []string
	if v.Snapshot.Observed == nil {
		return nil
	}
	for _, a := range v.Snapshot.Observed.Alerts {
		if slices.ContainsFunc(profiles, func(p *classify.Profile) bool { return p.Series() == a.Series }) {
			out = append(out, fmt.Sprintf("%s (%s)", a.Name, a.Severity))
		}
	}
	return text.Distinct(out)
}

// note is the cause for the ticket of an incident.
func (v *view) note(c cause) string {
	var b strings.Builder
	add := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", label, text.Clean(value))
		}
	}
	add("Broken", c.Title)
	add("Stops", strings.Join(c.Stops, "; "))
	for _, f := range c.Findings {
		add("Webhook", f.Webhook.Text+" ("+f.Where+"): "+f.Message)
	}
	if c.More > 0 {
		add("More webhooks", fmt.Sprint(c.More))
	}
	if c.Since.At != "" {
		add(c.Since.What, c.Since.At)
	}
	add("Alerts", strings.Join(c.Alerts, ", "))
	add("Owner", c.Owner)
	add("First command", c.Look)
	add("Runbook", report.RunbookURL(c.Check.Text))
	add("Cluster", fmt.Sprintf("Kubernetes %s, as of %s", v.Snapshot.Server, timeText(v.AsOf())))
	return b.String()
}
