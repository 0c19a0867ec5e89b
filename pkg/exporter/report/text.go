package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TextOptions are what the text needs to know of the terminal it is for.
type TextOptions struct {
	// Color uses the terminal's colors.
	Color bool
	// Width is where lines wrap; 0 leaves them long, as pipes want them.
	Width int
}

// MaxErrors bounds the errors printed: a folder of a million unreadable files
// would hide everything else. The JSON has them all.
const MaxErrors = 50

// margin is the width of the column of severities.
const margin = 10

// severityStyles make the worst the most visible.
var severityStyles = map[classify.Severity]style{
	classify.Critical: red,
	classify.Warning:  yellow,
	classify.Info:     cyan,
}

// WriteText writes the findings for a terminal: the worst first, one line each,
// with their fixes, and the totals. Errors are counted here and listed by
// WriteErrors.
func WriteText(w io.Writer, d Document, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	open, acknowledged := separateAcknowledged(d.Findings)
	for _, group := range groupByFix(open) {
		p.group(group)
	}
	for _, f := range acknowledged {
		p.finding(f)
	}
	if len(acknowledged) > 0 {
		p.newline()
	}
	p.observedTable(d)
	if d.AuditLog != nil {
		p.auditLog(d.AuditLog)
		p.newline()
	}
	for _, line := range readLines(d.Inputs, d.Taken) {
		p.paragraph(word{}, words(line, plain))
	}
	for _, n := range d.ReleaseNotes {
		p.paragraph(word{}, words(fmt.Sprintf("From %s on: %s (%s; %s).", n.Release, n.Text, inventory.Counted(n.Webhooks, "webhook"), n.Source), plain))
	}
	p.paragraph(word{}, words(d.summary(), plain))
	return flush(b)
}

// WriteErrors writes what cannot be read, one line each, and nothing where there
// are no errors: errors are not findings.
func WriteErrors(w io.Writer, errs []Error, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	for i, e := range errs {
		if i == MaxErrors {
			p.paragraph(word{}, words(fmt.Sprintf("… and %s more; -o json lists them all.", inventory.Counted(len(errs)-i, "error")), plain))
			break
		}
		p.paragraph(word{fmt.Sprintf("%-*s", margin, "ERROR"), red}, words("cannot read "+e.String(), plain))
	}
	return flush(b)
}

func flush(b *bufio.Writer) error {
	if err := b.Flush(); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// separateAcknowledged separates the acknowledged findings.
func separateAcknowledged(findings []Finding) (open, acknowledged []Finding) {
	for _, f := range findings {
		if f.Acknowledged {
			acknowledged = append(acknowledged, f)
		} else {
			open = append(open, f)
		}
	}
	return open, acknowledged
}

// groupByFix groups neighbors that have the same fix, so that it is printed
// once.
func groupByFix(findings []Finding) [][]Finding {
	var out [][]Finding
	for i, f := range findings {
		if i > 0 && sameFix(findings[i-1], f) {
			out[len(out)-1] = append(out[len(out)-1], f)
			continue
		}
		out = append(out, []Finding{f})
	}
	return out
}

func sameFix(a, b Finding) bool {
	return a.Check == b.Check && a.Severity == b.Severity && a.Fix == b.Fix
}

func (p printer) group(group []Finding) {
	for _, f := range group {
		p.finding(f)
	}
	label := "fix: "
	if len(group) > 1 {
		label = fmt.Sprintf("fix for these %d: ", len(group))
	}
	p.fix(label, group[0].Fix)
	p.newline()
}

func (p printer) finding(f Finding) {
	severity, name, text := severityStyles[f.Severity], bold, plain
	if f.Acknowledged {
		severity, name, text = dim, dim, dim
	}
	line := slices.Concat(
		words(f.Type.Noun(), text), words(f.Name, name),
		words(shortenLists(f.Message), text), words(particulars(f), dim),
	)
	p.paragraph(word{fmt.Sprintf("%-*s", margin, strings.ToUpper(f.Severity.String())), severity}, line)
}

// particulars are the check and the configuration that registers the webhook.
func particulars(f Finding) string {
	parts := []string{string(f.Type)}
	// A conversion is registered by the CRD that it is named after.
	if f.Configuration != f.Name {
		parts = append(parts, "configuration "+f.Configuration)
	}
	if f.Resource != "" && !strings.Contains(f.Message, f.Resource) {
		parts = append(parts, "resource "+f.Resource)
	}
	if f.Source.File != "" {
		parts = append(parts, f.Source.String())
	}
	if f.Context != "" {
		parts = append(parts, "context "+f.Context)
	}
	if f.Acknowledged {
		parts = append(parts, "acknowledged")
	}
	return "[" + f.Check + ": " + strings.Join(parts, ", ") + "]"
}

// fix writes what to do. Its indented lines are commands or manifests and stay
// as they are.
func (p printer) fix(label, fix string) {
	prefix := word{strings.Repeat(" ", margin) + label, green}
	for _, line := range fixLines(fix) {
		if indented(line) {
			p.verbatim(line)
		} else {
			p.paragraph(prefix, words(line, plain))
		}
		prefix = word{text: strings.Repeat(" ", hanging)}
	}
}

// fixLines returns the lines of a fix that are not empty.
func fixLines(fix string) []string {
	var out []string
	for line := range strings.Lines(fix) {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func indented(line string) bool { return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") }

// summary is what was found and what was read, in a line.
func (d Document) summary() string {
	switch {
	case len(d.Findings) > 0:
		return foundIn(d)
	case d.Totals.Webhooks+d.Totals.Policies == 0:
		return "No webhooks found." + unreadableNote(d)
	case len(d.Errors) > 0:
		return "No problems found in what could be read." + audited(d) + unreadableNote(d)
	}
	return "No problems found." + audited(d)
}

// foundIn is the totals in one line.
func foundIn(d Document) string {
	n := d.Totals.Findings
	s := fmt.Sprintf("%d critical, %d warning, %d info", n.Critical, n.Warning, n.Info)
	if _, a := separateAcknowledged(d.Findings); len(a) > 0 {
		s += fmt.Sprintf(", %d acknowledged", len(a))
	}
	return s + "." + audited(d) + unreadableNote(d)
}

func audited(d Document) string {
	policies := ""
	if d.Totals.Policies > 0 {
		policies = fmt.Sprintf(" Audited %d admission policies.", d.Totals.Policies)
		if d.Totals.Policies == 1 {
			policies = " Audited 1 admission policy."
		}
	}
	for _, p := range d.Presumptions {
		policies += " Taken for granted (platform " + string(d.Platform) + "): " + p + "."
	}
	if d.Totals.Webhooks == 0 {
		return " No webhooks found." + policies
	}
	configurations := map[[3]string]bool{}
	byType := map[inventory.Type]int{}
	for _, w := range d.Webhooks {
		configurations[[3]string{w.Context, string(w.Type), w.Configuration}] = true
		byType[w.Type]++
	}
	var types []string
	for _, t := range []inventory.Type{inventory.Mutating, inventory.Validating, inventory.Conversion} {
		if byType[t] > 0 {
			types = append(types, fmt.Sprintf("%d %s", byType[t], t))
		}
	}
	return fmt.Sprintf(" Audited %s (%s) in %s of %s.%s", inventory.Counted(d.Totals.Webhooks, "webhook"),
		strings.Join(types, ", "), inventory.Counted(len(configurations), "configuration"), d.server(), policies)
}

// server is the version of the API server; files without one are evaluated for
// the newest one.
func (d Document) server() string {
	if d.Server == (inventory.Version{}).String() {
		return "a server of unknown version"
	}
	return "server " + text.Clean(d.Server)
}

func unreadableNote(d Document) string {
	if len(d.Errors) == 0 {
		return ""
	}
	return fmt.Sprintf(" Some of the input cannot be read: %s.", inventory.Counted(len(d.Errors), "error"))
}
