package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// cause is what findings of one severity have in common: the Service that cannot be
// called, else the check.
type cause struct {
	Title, Summary string
	Check          link
	Count          int
	Findings       []findingRow
	More           int
	All            link
	// Commands look at the cause and lift it, each on a line of its own.
	Commands []command
}

// caused are the findings of a cause, which is written for those that are shown alone.
type caused struct {
	check    *classify.Check
	service  inventory.Key
	findings []*classify.Finding
}

// command is one to copy, and what it is for.
type command struct{ What, Text string }

// causes groups the findings of a severity that are not acknowledged. Services come
// first, those that most hangs on before the others; then checks as documents list
// them.
func (v *view) causes(s classify.Severity) []caused {
	type key struct {
		check   *classify.Check
		service inventory.Key
	}
	grouped := map[key][]*classify.Finding{}
	for _, f := range v.findings {
		if f.Severity == s && !f.Acknowledged {
			k := key{check: f.Check}
			if p := v.byRef[f.Webhook]; p != nil && f.Check.Name == string(p.State.Fault) {
				k.service = p.State.Service.Key
			}
			grouped[k] = append(grouped[k], f)
		}
	}
	out := make([]caused, 0, len(grouped))
	for k, findings := range grouped {
		out = append(out, caused{k.check, k.service, findings})
	}
	slices.SortFunc(out, func(a, b caused) int {
		of := func(c caused) int { return min(len(c.service.Name), 1) * len(c.findings) }
		return cmp.Or(cmp.Compare(of(b), of(a)), cmp.Compare(slices.Index(classify.Checks, a.check), slices.Index(classify.Checks, b.check)), a.service.Compare(b.service))
	})
	return out
}

// first is the webhook of the first finding; nil where it is not shown.
func (v *view) first(of caused) *classify.Profile { return v.byRef[of.findings[0].Webhook] }

func (v *view) cause(of caused, s classify.Severity) cause {
	check, service, p := of.check, of.service, v.first(of)
	c := cause{Title: check.Name, Summary: check.Summary, Check: v.check(check), Count: len(of.findings)}
	c.Findings, c.More = v.rows(of.findings, maxPerCause)
	for i := len(c.Findings) - 1; i > 0; i-- { // a fix that all share is shown once
		if slices.Equal(c.Findings[i].Fix, c.Findings[i-1].Fix) {
			c.Findings[i].Fix = nil
		}
	}
	c.All = v.search("all of them", url.Values{"finding": {check.Name}, "severity": {s.String()}})
	if p == nil {
		return c
	}
	if service.Name != "" {
		c.Title = classify.BackendName(p) + " " + p.State.Detail
		c.All = v.search("all of them", url.Values{"finding": {check.Name}, "namespace": {service.Namespace}})
	}
	if s == classify.Critical {
		c.Commands = commandsOf(p)
	}
	return c
}

// commandsOf look at the backend of a webhook, and take the webhook out of the way.
func commandsOf(p *classify.Profile) []command {
	commands := p.Commands()
	var out []command
	if len(commands.Inspect) > 0 {
		out = append(out, command{"look at the backend", commands.Inspect[0]})
	}
	disable := "let requests through, once it is saved"
	if p.Type == inventory.Conversion {
		disable = "if the versions differ in name only, once it is saved"
	}
	return append(out, command{"save the registration", commands.Save}, command{disable, commands.Disable})
}

// headline says in a sentence what fails now.
type headline struct {
	Text    string
	Failing []failingRow
	More    int
	Stops   []string
	Command *command
	// Condition says so since Since; "" without conditions.
	Condition, Since string
}

// failingRow is a webhook whose calls fail, as observed.
type failingRow struct {
	Webhook link
	Share   string
}

// The bounds of the headline.
const (
	maxFailing = 5
	maxStops   = 3
)

// failingShare is the share of failed calls from which a webhook fails: that of the
// alerts.
const failingShare = 0.01

// headline is nil where nothing is known to fail.
func (v *view) headline() *headline {
	down, failing := v.down(), v.failing()
	if len(down)+len(failing) == 0 {
		return nil
	}
	h := &headline{More: max(len(failing)-maxFailing, 0)}
	var parts []string
	if len(failing) > 0 {
		verb := "fail"
		if len(failing) == 1 {
			verb = "fails"
		}
		parts = append(parts, fmt.Sprintf("%s %s now, as observed", inventory.Counted(len(failing), "webhook"), verb))
	}
	if len(down) > 0 {
		text := inventory.Counted(len(down), "webhook") + " cannot be called"
		dead := slices.DeleteFunc(v.causes(classify.Critical), func(c caused) bool { p := v.first(c); return p == nil || p.State.Fault == inventory.Sound })
		if len(dead) > 0 {
			first := v.cause(dead[0], classify.Critical)
			text += fmt.Sprintf(": %s (%s)", first.Title, inventory.Counted(first.Count, "webhook"))
			h.Command = &first.Commands[0]
			h.Condition, h.Since = v.since(v.first(dead[0]))
		}
		if more := len(dead) - 1; more > 0 {
			text += fmt.Sprintf(", and %s", inventory.Counted(more, "other cause"))
		}
		parts = append(parts, text)
	}
	h.Text = strings.Join(parts, "; ") + "."
	for _, p := range failing[:min(len(failing), maxFailing)] {
		h.Failing = append(h.Failing, failingRow{v.webhook(p.Ref), percent(v.Snapshot.Observed.Of(p.Ref.Series()).FailedShare())})
	}
	h.Stops = stopsOf(slices.Concat(down, failing))
	return h
}

// since is the condition that the backend of the webhook turned True, and when.
func (v *view) since(p *classify.Profile) (condition, since string) {
	name := findCheck(string(p.State.Fault)).Condition[p.Type]
	for _, c := range v.Conditions {
		if c.Type == name && c.Status == metav1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.Type, timeText(c.LastTransitionTime.Time)
		}
	}
	return "", ""
}

// down are the webhooks with a critical finding on their backend.
func (v *view) down() []*classify.Profile {
	var out []*classify.Profile
	for _, p := range v.profiles {
		if p.State.Fault != inventory.Sound && v.worst(p.Ref) == classify.Critical {
			out = append(out, p)
		}
	}
	return out
}

// failing are the webhooks whose calls fail, the worst first.
func (v *view) failing() []*classify.Profile {
	share := func(p *classify.Profile) float64 { return v.Snapshot.Observed.Of(p.Ref.Series()).FailedShare() }
	var out []*classify.Profile
	for _, p := range v.profiles {
		if share(p) >= failingShare {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *classify.Profile) int { return cmp.Compare(share(b), share(a)) })
	return out
}

// stopsOf says what of the cluster stops, and where.
func stopsOf(profiles []*classify.Profile) []string {
	var out []string
	for _, p := range profiles {
		for _, stop := range impact.StopsOf(p) {
			if !slices.Contains(out, stop) && len(out) < maxStops {
				out = append(out, stop)
			}
		}
	}
	return out
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
