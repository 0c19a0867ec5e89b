package diagnose

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Answer is what a Report has to say to a APIServerError.
type Answer struct {
	APIServerError
	// Meaning is the Cause in words.
	Meaning string
	// Fix is the way out.
	Fix string
	// Look is a command that shows the cause; "" where the error names no Service, its cause
	// is none of the backend, or the Fix is that of a finding.
	Look string
	// Profiles are the webhooks that it is about: all that register the name.
	Profiles []*classify.Profile
	// AdmissionPolicy is the policy that it is about; nil where the input has none of
	// that name, or the error is about a webhook.
	AdmissionPolicy *inventory.AdmissionPolicy
	// Findings are those about them; the first Related have to do with the Cause: the
	// first Explaining explain it, and where there are any, these alone count.
	Findings            []*classify.Finding
	Explaining, Related int
	// Notes say what else is worth knowing, in whole sentences.
	Notes []string
}

// FromMessage explains the error where nothing else is read.
func FromMessage(c APIServerError) Answer {
	return Explain(&classify.Report{Snapshot: &inventory.Snapshot{}}, c)
}

// hasInput reports whether the Report is of anything.
func hasInput(r *classify.Report) bool { return !r.Snapshot.Taken.IsZero() }

// Explain looks the error up in the Report.
func Explain(r *classify.Report, c APIServerError) Answer {
	if c.Cause == causeDenied && onlyEvictions(about(r, c)) {
		c.Cause = causeEvictionDenied
	}
	advice := advices[c.Cause]
	a := Answer{APIServerError: c, Meaning: advice.Meaning, Fix: advice.Fix}
	if c.Kind != "" {
		a.Fix = cmp.Or(advice.Conversion, advice.Fix)
	}
	if c.Policy.Name != "" {
		a.addPolicy(r)
		return a
	}
	if c.Object != "" {
		return a.refused(r)
	}
	if c.Plugin != "" {
		return a.outlasted(r)
	}
	if s := c.setting; s != nil {
		a.Notes = append(a.Notes, s.Note)
	}
	a.Profiles = about(r, c)
	callers := c.callers(a.Profiles)
	a.find(r, amongst(callers))
	if len(a.Profiles) == 0 && len(advice.Checks) > 0 && c.Webhook+c.Kind+c.Expression+c.URL == "" {
		a.find(r, func(f *classify.Finding) bool { return f.Check.Name == advice.Checks[0] })
	}
	a.Look = a.look()
	if fix := c.settingFix(); fix != "" && a.Explaining == 0 {
		a.Fix = fix
	}
	switch {
	case len(a.Profiles) == 0:
		a.Notes = append(a.Notes, unregistered(r, c)...)
		if google.MatchString(c.Webhook) && slices.Contains(callFailures, c.Cause) {
			a.Fix = "try again. If it lasts, report it to Google: the backend is a part of GKE's control plane"
		}
	case a.Explaining == 0:
		if c.setting == nil && !c.WentOn {
			a.Fix += meanwhile(c.Cause, callers)
		}
		a.Notes = append(a.Notes, sound(c.Cause, callers)...)
	}
	if slices.Contains([]Cause{causeDenied, causeMirrorPod, causeEvictionDenied}, c.Cause) &&
		ownFailure.MatchString(c.Detail) && !ofMissing.MatchString(c.Detail) {
		a.Notes = append(a.Notes, "Its words are of a failure of the backend itself, not of the object: look at its log.")
		if c.Cause != causeMirrorPod && a.Explaining == 0 {
			a.Fix = advices[causeServerError].Fix
		}
	}
	if c.WentOn {
		a.Notes = append(a.Notes, "The API server failed open: the request went on without the webhook. What was created then stays as it is: create it anew once the webhook answers.")
	}
	a.Notes = append(a.Notes, readyElsewhere(c.Cause, callers)...)
	a.Notes = append(a.Notes, failsOpen(c.Cause, callers)...)
	a.Notes = append(a.Notes, shared(a.Profiles, callers)...)
	return a
}

// settingFix is the way out that the setting of the error makes another one; "" for none.
func (c APIServerError) settingFix() string {
	s := c.setting
	switch {
	case s == nil || len(s.Causes) > 0 && !slices.Contains(s.Causes, c.Cause):
		return ""
	case c.Kind != "":
		return s.Conversion
	}
	return s.Fix
}

// look is a command that shows the backend of the error.
func (a *Answer) look() string {
	namespace, _, _ := a.service()
	command := advices[a.Cause].Look
	if command == "" && slices.Contains(callFailures, a.Cause) {
		command = classify.LookAtBackend
	}
	if namespace == "" || command == "" || a.Explaining > 0 {
		return ""
	}
	return command + " " + classify.ShellFlag("-n", namespace)
}

// onlyEvictions reports whether the webhooks are called for evictions alone.
func onlyEvictions(profiles []*classify.Profile) bool {
	other := func(p *classify.Profile) bool {
		return len(p.Matched) != 1 || p.Matched[0].Resource != inventory.Resource{Name: "pods", Subresource: "eviction"}
	}
	return len(profiles) > 0 && !slices.ContainsFunc(profiles, other)
}

// readyElsewhere says of a backend that does not listen how its Pods can be ready.
func readyElsewhere(cause Cause, profiles []*classify.Profile) []string {
	if cause != causeRefused && cause != causeNoEndpoints {
		return nil
	}
	for _, p := range profiles {
		if s := classify.ReadyElsewhere(p); s != "" {
			return []string{strings.ToUpper(s[:1]) + s[1:] + "."}
		}
	}
	return nil
}

// about returns the webhooks that the APIServerError is about.
func about(r *classify.Report, c APIServerError) []*classify.Profile {
	return slices.DeleteFunc(slices.Clone(r.Profiles), func(p *classify.Profile) bool { return !c.concerns(p) })
}

func (c APIServerError) concerns(p *classify.Profile) bool {
	switch {
	case c.Kind != "":
		return p.Type == inventory.Conversion && shows(c.Group, p.CRD.Resource.Group) &&
			(shows(c.Kind, p.CRD.CustomKind) || shows(c.Kind, p.CRD.CustomKind+"List"))
	case c.Cause == causeUnserved:
		return p.ServesNothing()
	case p.Type == inventory.Conversion: // as OpenShift's operator names it
		return c.Webhook == p.Name
	case c.Expression != "":
		return slices.ContainsFunc(p.MatchConditions,
			func(m admissionv1.MatchCondition) bool { return unwrapped(m.Expression) == c.Expression })
	}
	isNamed := func(inText string) bool { return shows(inText, p.Name) }
	return c.Webhook != "" && slices.ContainsFunc(c.names(), isNamed) || c.Webhook == "" && c.calls(p.Webhook)
}

// find adds the findings that are meant, in the order of the checks of the advice. The
// fix of one that explains the Cause is the way out.
func (a *Answer) find(r *classify.Report, isMeant func(*classify.Finding) bool) {
	advice := advices[a.Cause]
	order := slices.Concat(advice.Checks, advice.Related)
	rank := func(f *classify.Finding) int {
		i := slices.Index(order, f.Check.Name)
		if i < 0 || f.NoAnswer && a.Cause != causeRefused { // of other causes with such checks, a server answered
			return len(order)
		}
		return i
	}
	for _, f := range r.Findings {
		if isMeant(f) {
			a.Findings = append(a.Findings, f)
		}
	}
	slices.SortStableFunc(a.Findings, func(f, g *classify.Finding) int { return rank(f) - rank(g) })
	for _, f := range a.Findings {
		if rank(f) < len(advice.Checks) {
			a.Explaining++
		}
		if rank(f) < len(order) {
			a.Related++
		}
	}
	if a.Explaining > 0 {
		a.Related, a.Fix = a.Explaining, a.Findings[0].Fix
	}
}

// amongst reports of a finding whether it is one on the profiles.
func amongst(profiles []*classify.Profile) func(*classify.Finding) bool {
	return func(f *classify.Finding) bool {
		return slices.ContainsFunc(profiles, func(p *classify.Profile) bool { return p.Ref == f.Webhook })
	}
}

// refused adds the findings about the registration that the API server refused.
func (a Answer) refused(r *classify.Report) Answer {
	for _, p := range r.Profiles {
		if strings.EqualFold(classify.ObjectName(p), a.Object) {
			a.Profiles = append(a.Profiles, p)
		}
	}
	a.find(r, amongst(a.Profiles))
	if releases := admission.PolicyReleases(a.Object); a.Cause == causeNotServed && releases != "" {
		a.Notes = append(a.Notes, releases)
	}
	return a
}

// outlasted says which webhooks can be meant by an error that names their plugin alone.
func (a Answer) outlasted(r *classify.Report) Answer {
	t, ok := map[string]inventory.Type{"MutatingAdmissionWebhook": inventory.Mutating, "ValidatingAdmissionWebhook": inventory.Validating}[a.Plugin]
	if !ok {
		a.Fix = "see the API server's log for what the plugin waited for"
		a.Notes = append(a.Notes, "The plugin "+a.Plugin+" calls no webhook.")
		return a
	}
	candidates := slices.DeleteFunc(slices.Clone(r.Profiles), func(p *classify.Profile) bool { return p.Type != t })
	slices.SortStableFunc(candidates, func(p, q *classify.Profile) int { return cmp.Compare(q.Timeout, p.Timeout) })
	names := lists.Map(candidates,
		func(p *classify.Profile) string { return fmt.Sprintf("%s (%s)", p.Name, text.Seconds(p.Timeout)) })
	note := fmt.Sprintf("It can be any of %s: %s.", inventory.Counted(len(names), "webhook"), classify.JoinBounded(names))
	if len(names) == 0 {
		note = "The input has no webhook that the plugin calls."
	}
	if hasInput(r) {
		a.Notes = append(a.Notes, note)
	}
	a.find(r, amongst(candidates))
	a.Findings, a.Related = a.Findings[:a.Explaining], a.Explaining
	return a
}

// onDisk ends the sentence about a webhook or policy of the API server's own files.
const onDisk = " is none of the API's: it is in a manifest on the API server's own disk (staticManifestsDir of its admission configuration), and can be changed only there."

// google are the names of the webhooks that GKE calls itself. Software that Google has for
// clusters registers others of the domain gke.io.
var google = regexp.MustCompile(`\.common-webhooks\.networking\.gke\.io$|^warden-(?:validating|mutating)`)

// unregistered says how an API server comes to speak of a webhook that nothing
// registers.
func unregistered(r *classify.Report, c APIServerError) []string {
	var out []string
	switch {
	case c.Webhook == "" && c.Kind == "":
		return nil
	case google.MatchString(c.Webhook):
		return []string{"Webhook " + c.Webhook + " is Google's own: GKE calls it, and no configuration registers it."}
	case strings.HasSuffix(c.Webhook, inventory.StaticSuffix):
		return []string{"Webhook " + c.Webhook + onDisk}
	case !hasInput(r):
		return nil
	case c.Kind != "":
		out = append(out, fmt.Sprintf("No CRD of kind %s in group %s is converted by a webhook in the input.", c.Kind, c.Group))
	default:
		out = append(out, fmt.Sprintf("No configuration in the input registers webhook %s.", c.Webhook))
	}
	var others []string
	for _, p := range r.Profiles {
		if c.calls(p.Webhook) {
			others = append(others, fmt.Sprintf("webhook %s of %s", p.Name, classify.ObjectName(p)))
		}
	}
	if len(others) > 0 {
		out = append(out, fmt.Sprintf("The Service of the error is called by %s.", classify.JoinBounded(others)))
	}
	if len(r.Errors) > 0 {
		out = append(out, "Some of the input could not be read: the webhook may be in it.")
	}
	return out
}

// callers are those of the webhooks that call the Service of the error; all of
// them where it names none.
func (c APIServerError) callers(profiles []*classify.Profile) []*classify.Profile {
	out := slices.DeleteFunc(slices.Clone(profiles), func(p *classify.Profile) bool { return !c.calls(p.Webhook) })
	if len(out) == 0 {
		return profiles
	}
	return out
}

// calls reports whether the URL of the error is what the webhook calls.
func (c APIServerError) calls(w *inventory.Webhook) bool {
	namespace, name, port := c.service()
	s := w.Backend.Service
	return name != "" && w.Backend.Kind != inventory.BackendURL && s.Namespace == namespace && s.Name == name &&
		s.Port == port
}

// meanwhile is how to let requests through until the backend is well again;
// "" where it is not the call that fails, or not certain whose.
func meanwhile(cause Cause, profiles []*classify.Profile) string {
	if slices.Contains(answered, cause) && cause != "api-server" ||
		slices.Contains([]Cause{"match-condition", "client-gone", "tunnel"}, cause) {
		return ""
	}
	if len(profiles) != 1 {
		return ""
	}
	p := profiles[0]
	switch {
	case p.Type == inventory.Conversion:
		return "; never force-delete the objects: they are healthy, only unreadable"
	case !p.FailsClosed():
		return ""
	}
	return "; to let requests through meanwhile: " + classify.DisableCommand(p)
}

// sound says that the objects show nothing of the cause.
func sound(cause Cause, profiles []*classify.Profile) []string {
	var out []string
	for _, p := range profiles {
		if s := p.State; s.Known && s.Fault == inventory.Sound && slices.Contains(callFailures, cause) {
			out = append(out, fmt.Sprintf("As of the facts, %s has %s: the cause of the error is over, comes and goes, or is between the API server and them.",
				classify.BackendName(p), inventory.Counted(s.Ready, "ready endpoint")))
		}
	}
	return slices.Compact(out)
}

// failsOpen says that the call may have failed, but not the request: API servers log
// both alike.
func failsOpen(cause Cause, callers []*classify.Profile) []string {
	if len(callers) == 0 || slices.Contains(answered, cause) ||
		slices.ContainsFunc(callers,
			func(p *classify.Profile) bool { return p.Type == inventory.Conversion || p.FailsClosed() }) {
		return nil
	}
	return []string{"Its failurePolicy is Ignore: the request went on without the webhook, or the policy was Fail at the time."}
}

// answered are the causes that refuse a request whatever failurePolicy says.
var answered = []Cause{causeDenied, causeMirrorPod, causeEvictionDenied, "gke-rules", "gke-autopilot", "slow-call", "apply-conflict", "ca-bundle-conflict", "aks-enforcer", "dry-run", "patch", "patch-failed", "request-timeout", "api-server"}

// callFailures are the causes that a backend without ready endpoints has, or
// seems to have.
var callFailures = []Cause{
	"service-missing", "service-port-missing", causeNoEndpoints, causeRefused, "no-route",
	"overlay-network", "proxy", "html-page", "connect-timeout", "timeout", "cut-off", "bad-request", causeServerError, causeOther,
}

// shared says which of several webhooks of one name the error is about.
func shared(profiles, callers []*classify.Profile) []string {
	switch {
	case len(profiles) < 2:
		return nil
	case len(callers) == len(profiles):
		return []string{fmt.Sprintf("%d webhooks are registered that it may be about, and the error does not distinguish them.", len(profiles))}
	}
	names := lists.Map(callers, classify.ObjectName)
	return []string{fmt.Sprintf("%d webhooks are registered under that name; the URL of the error is that of %s.", len(profiles), classify.JoinBounded(names))}
}
