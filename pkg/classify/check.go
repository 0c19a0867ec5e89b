// Package classify evaluates the webhooks of an inventory.Snapshot against the
// resource classes, the Policy and the Checks, and returns a Report. It is pure: no
// clock, no network, no log.
package classify

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Severity is how bad a finding is. The zero Severity of a Problem is that of its
// Check.
type Severity int

const (
	Info Severity = iota + 1
	Warning
	Critical
)

var Severities = []Severity{Critical, Warning, Info}

func (s Severity) String() string {
	return map[Severity]string{Info: "info", Warning: "warning", Critical: "critical"}[s]
}

func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s *Severity) UnmarshalText(b []byte) error {
	for _, v := range Severities {
		if v.String() == string(b) {
			*s = v
			return nil
		}
	}
	return fmt.Errorf("severity %q: must be one of info, warning, critical", b)
}

// Check is one thing that can be wrong with a webhook. All documentation of it
// is derived from this literal and from the runbook with its name.
type Check struct {
	// Name is in kebab-case; it is the stem of the runbook and of the fixture.
	Name string
	// Summary says in one sentence what the check reports.
	Summary  string
	Severity Severity
	// Condition is the operator condition that a critical finding turns True,
	// by type of webhook.
	Condition map[inventory.Type]string
	Reason    string
	// Alerts are the names of the alerts on its findings, by severity: one
	// name never has two severities. AlertOn says which of them a finding raises.
	Alerts map[Severity]string
	// ConversionAlert is the alert on warnings about conversions, in place of
	// that on failurePolicy Ignore, which conversions do not have.
	ConversionAlert string
	// For is how long a finding lasts before its alert fires.
	For time.Duration
	// OptIn says that it runs only where the Policy names it: it asks for more than most
	// clusters want.
	OptIn bool
	// Cause says in few words why calls fail now, where the finding is a warning or worse;
	// "" where they fail only once something else goes wrong.
	Cause string
	// Find returns what is wrong with the webhook of the Profile: at most one
	// Problem, or one per resource where Problem.Resource is set. Nil where the check
	// is about admission policies alone.
	Find func(*Profile) []Problem
	// FindPolicy is Find for an admission policy; nil where the check is about webhooks
	// alone.
	FindPolicy func(*PolicyProfile) []Problem
}

// Conditions are the names of the conditions that it turns True, each once, in the order
// of the types.
func (c *Check) Conditions() []string {
	var out []string
	for _, t := range []inventory.Type{inventory.Mutating, inventory.Validating, inventory.Conversion} {
		if name := c.Condition[t]; name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Alert is an alert; the zero Alert is none.
type Alert struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
}

// AlertOn is the alert on a finding of the severity, on what the type registers: conversions, and
// webhooks that may reach what the cluster depends on. Where critical findings page and others
// warn, those on webhooks that reach nothing of it warn, as the alerts on failing calls do.
func (c *Check) AlertOn(s Severity, t inventory.Type, reachesVital bool) Alert {
	if s == Warning && t == inventory.Conversion && c.ConversionAlert != "" {
		return Alert{c.ConversionAlert, s}
	}
	if s == Critical && c.Alerts[s] != "" && c.Alerts[Warning] != "" && t != inventory.Conversion && !reachesVital {
		s = Warning
	}
	if c.Alerts[s] == "" {
		return Alert{}
	}
	return Alert{c.Alerts[s], s}
}

// Fails reports whether calls fail now where its finding is a warning or worse.
func (c *Check) Fails() bool { return c.Cause != "" }

// Problem is what a Check finds wrong with a webhook. Message completes the
// sentence "webhook NAME …", or "policy NAME …"; Fix says what to do about it.
type Problem struct {
	Severity Severity
	Resource inventory.Resource
	Message  string
	// Brief says what breaks and why in a sentence without the webhook; where it is "",
	// the Message does.
	Brief string
	// Details stand below the Brief, a line each: the Message has them too.
	Details []string
	Fix     string
	// NoAnswer says that calls meet no server, which explains no error of an answer.
	NoAnswer bool
}

// Finding is a Problem with the check that found it and the webhook that has it.
// It is never written to once a Report has it.
type Finding struct {
	Check        *Check
	Webhook      inventory.Ref
	Source       inventory.Source
	Acknowledged bool
	// Stops are functions of the cluster that stop, as the webhook fails now, with what narrows
	// their requests.
	Stops []string
	Problem
	// Look is the command that shows the cause, Alert what it raises where the auditor runs.
	Look  string
	Alert Alert
	// Refuses says that requests are refused now. Writes and Deletions are those of resources that
	// no function needs.
	Refuses           bool
	Writes, Deletions []Scoped
}

// Checks are all checks, in the order of the documents.
var Checks = []*Check{
	virtualResource,
	refusedByAPI,
	bundleConflict,
	serviceMissing,
	servicePortMissing,
	serviceUnroutable,
	sameNodeService,
	noReadyEndpoints,
	backendSelector,
	serviceElsewhere,
	hostPort,
	clusterURL,
	platformLimits,
	mirrorPods,
	labelOptOut,
	anyPodMayCall,
	caBundleInvalid,
	caBundleMissing,
	issuedCertificate,
	caBundleExpiring,
	failingMatchCondition,
	paramKindMissing,
	applyWithoutType,
	policyExpression,
	backendUnreachable,
	servingCertificate,
	networkPolicy,
	meshStrict,
	orphanedConfiguration,
	bootstrapDeadlock,
	installOrder,
	uninstallOrder,
	controlPlanePath,
	blocksAuditor,
	criticalResource,
	coreResource,
	sensitiveResource,
	runLevelZero,
	connectIntercepted,
	deletePath,
	plaintextToURL,
	overBroad,
	budgetExceeded,
	chainOutlastsRequest,
	longTimeout,
	singleEndpoint,
	evictionBlocked,
	deadRule,
	policyWithoutEffect,
	resourceNamesGap,
	neverCalled,
	equivalentGap,
	subresourceGap,
	duplicateName,
	twoOwners,
	reviewVersion,
	conversionUnneeded,
	configurationChurn,
	approvalInvalid,
	staleAcknowledgement,
}

//go:embed *.md
var runbooks embed.FS

// PolicyDocument returns the documentation of the Policy file, without the defaults.
func PolicyDocument() string {
	b, _ := runbooks.ReadFile("POLICY.md")
	described, _, _ := strings.Cut(string(b), "## Defaults\n")
	return described
}

func CheckNames(checks []*Check) []string {
	return lists.Map(checks, func(c *Check) string { return c.Name })
}

func FindCheck(name string) *Check {
	if i := slices.IndexFunc(Checks, func(c *Check) bool { return c.Name == name }); i >= 0 {
		return Checks[i]
	}
	return nil
}

// Runbook returns the check's runbook in Markdown, with the sections Meaning,
// Impact, Diagnosis and Mitigation.
func (c *Check) Runbook() string {
	b, _ := runbooks.ReadFile(c.Name + ".md")
	return string(b)
}
