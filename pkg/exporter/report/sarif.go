package report

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var sarifLevels = map[classify.Severity]string{
	classify.Critical: sarif.LevelError,
	classify.Warning:  sarif.LevelWarning,
	classify.Info:     sarif.LevelNote,
}

// fingerprintName is the fingerprint by which GitHub identifies alerts. Without
// it, GitHub takes the text of the line, which many webhooks share.
const fingerprintName = "primaryLocationLineHash"

// WriteSARIF writes the findings as SARIF 2.1.0, for code review. The version is
// that of this program, empty if unknown.
func WriteSARIF(w io.Writer, d Document, version string) error {
	if err := writeEscaped(w, newSARIF(d, classify.Checks, version).PrettyWrite); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

func newSARIF(d Document, checks []*classify.Check, version string) *sarif.Report {
	run := sarif.NewRunWithInformationURI("webhook-auditor", Project)
	if version != "" {
		run.Tool.Driver.WithVersion(version)
	}
	for _, c := range checks {
		run.Tool.Driver.AddRule(sarifRule(c))
	}
	counts, webhooks := map[string]int{}, lists.By(d.Webhooks, func(w Webhook) inventory.Ref { return w.Ref })
	for _, f := range d.Findings {
		id := fingerprint(f)
		// The same object may stand in several files; each is a result.
		counts[id]++
		run.AddResult(sarifResult(f, webhooks[f.Ref].Observed).
			WithRuleIndex(run.GetRuleIndex(f.Check)).
			WithPartialFingerprints(map[string]string{fingerprintName: fmt.Sprintf("%s:%d", id, counts[id])}))
	}
	run.AddInvocation(sarifInvocation(d))
	return sarif.NewReport().AddRun(run)
}

func sarifRule(c *classify.Check) *sarif.ReportingDescriptor {
	tags := sarif.NewPropertyBag().WithTags([]string{"kubernetes", "admission-webhook"})
	help := cmp.Or(c.Runbook(), c.Summary)
	return sarif.NewRule(c.Name).
		WithShortDescription(sarif.NewMultiformatMessageString().WithText(c.Summary)).
		WithFullDescription(sarif.NewMultiformatMessageString().WithText(c.Summary)).
		WithHelp(sarif.NewMultiformatMessageString().WithText(help).WithMarkdown(help)).
		WithHelpURI(RunbookURL(c.Name)).
		WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(sarifLevels[c.Severity])).
		WithProperties(tags)
}

// sarifResult has what was measured of the webhook as a property, if anything was.
func sarifResult(f Finding, o *Observed) *sarif.Result {
	result := sarif.NewRuleResult(f.Check).
		WithLevel(sarifLevels[f.Severity]).
		WithMessage(sarif.NewTextMessage(text.Clean(f.Type.Noun()+" "+f.Name+" "+f.Message) + ".\n" + f.Fix)).
		AddLocation(sarifLocation(f))
	if f.Acknowledged {
		result.AddSuppression(sarif.NewSuppression().WithKind("external"))
	}
	if o != nil {
		result.WithProperties(sarif.NewPropertyBag().Add("observed", o))
	}
	return result
}

// sarifLocation names the webhook, and its position where it came from a file.
func sarifLocation(f Finding) *sarif.Location {
	logical := sarif.NewLogicalLocation().
		WithName(f.Name).
		WithFullyQualifiedName(strings.Join([]string{f.Type.Title(), f.Configuration, f.Name}, "/")).
		WithKind("resource")
	out := sarif.NewLocation().AddLogicalLocation(logical)
	if f.Source.File == "" {
		return out
	}
	physical := sarif.NewPhysicalLocation().WithArtifactLocation(artifact(f.Source.File))
	if f.Source.Line > 0 {
		physical.WithRegion(sarif.NewRegion().WithStartLine(f.Source.Line))
	}
	return out.WithPhysicalLocation(physical)
}

// artifact names a file as a URI: relative to the root of the repository, which
// is where pipelines run, unless it is absolute.
func artifact(file string) *sarif.ArtifactLocation {
	slashed := path.Clean(filepath.ToSlash(file))
	if path.IsAbs(slashed) {
		return sarif.NewSimpleArtifactLocation((&url.URL{Scheme: "file", Path: slashed}).String())
	}
	return sarif.NewSimpleArtifactLocation((&url.URL{Path: slashed}).String()).WithURIBaseID("%SRCROOT%")
}

// fingerprint identifies a finding wherever its webhook moves within a file or
// between files.
func fingerprint(f Finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.Check, string(f.Type), f.Configuration, f.Name, f.Resource},
		"\x00")))
	return fmt.Sprintf("%x", sum[:16])
}

// sarifInvocation has the errors, the detected type of each input, and where
// observed values come from.
func sarifInvocation(d Document) *sarif.Invocation {
	invocation := sarif.NewInvocation().WithExecutionSuccessful(len(d.Errors) == 0)
	for _, e := range d.Errors {
		invocation.AddToolExecutionNotification(notification(sarif.LevelError, e.String()))
	}
	for _, line := range readLines(d.Inputs, d.Taken) {
		invocation.AddToolExecutionNotification(notification(sarif.LevelNote, line))
	}
	if d.Observed != nil {
		invocation.AddToolExecutionNotification(notification(sarif.LevelNote, text.Clean(SourceLine(d.Observed))))
	}
	return invocation
}

func notification(level, content string) *sarif.Notification {
	return sarif.NewNotification().WithLevel(level).WithMessage(sarif.NewTextMessage(content))
}
