package report

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TextOptions are what a text is to hold, and the terminal that it is for.
type TextOptions struct {
	Color bool
	// Width is where lines wrap; 0 leaves them long.
	Width int
	// Fixes adds what to do about each finding, Verbose everything; Quiet
	// leaves the findings out, Served how to get the status page.
	Fixes, Verbose, Quiet, Served bool
	// Piped is a text that no terminal shows: its tables have all columns.
	Piped bool
	// WithoutFlags is a text of a page or for an agent, which pass no flags.
	WithoutFlags bool
}

// hint is what names a flag, where one can be passed.
func (o TextOptions) hint(flag string) string {
	if o.WithoutFlags {
		return ""
	}
	return flag
}

// MaxErrors bounds the errors printed: a folder of a million unreadable files
// would hide everything else. The JSON has them all.
const MaxErrors = 50

// maxEntries bounds the entries of a section; -v, --fixes and the JSON have them all.
const maxEntries = 20

// WriteErrors writes what cannot be read, one line for each cause, and nothing where there
// are no errors: errors are not findings.
func WriteErrors(w io.Writer, errs []Error, o TextOptions) error {
	lines := lists.Map(ByCause(errs), func(e Error) Line {
		out := Line{Label: "ERROR", Tone: Critical, Text: e.String()}
		if !e.Uncompared {
			out.Text = "cannot read " + out.Text
		}
		return out
	})
	return Blocks{{Lines: lines}}.Bounded(MaxErrors).WriteText(w, o)
}

// Text is what a person needs first: what was looked at, what stops now, and the findings
// by urgency. Errors are counted here and listed by WriteErrors.
func (d Document) Text(o TextOptions) Blocks {
	if d.recorded() {
		d.Findings = each(d.Findings, func(f *Finding) { f.Source = inventory.Source{} })
	}
	out := Blocks{{Lines: Sentences(d.summary())}}
	if stops := d.stopsNow(); stops != "" {
		out = append(out, Block{Lines: Sentences(stops)})
	}
	if o.Quiet {
		return out
	}
	now, risk, review := byUrgency(d.Findings)
	out = append(out,
		Block{Heading: "BROKEN NOW", Lines: o.entries(now)},
		Block{Heading: "AT RISK", Lines: o.entries(risk)},
		Block{Heading: "TO REVIEW", Lines: d.toReview(review, o)})
	if o.Verbose {
		_, acknowledged := separateAcknowledged(d.Findings)
		out = append(out, Block{Heading: "ACKNOWLEDGED", Lines: o.entries(acknowledged)})
	}
	if d.Observed != nil {
		out = append(out, Block{Lines: Sentences(SourceLine(d.Observed))})
	}
	out = append(out, Block{Heading: "Before you upgrade", Lines: d.upgradeNotes(o)}, Block{Lines: d.foot(o)})
	return out.NonEmpty()
}

// recorded reports whether the inputs are what was gathered of a cluster: there a
// configuration is found by its name, and changed by commands, not in a file.
func (d Document) recorded() bool {
	return len(d.Inputs) > 0 && !ofManifests(d.Inputs)
}

func ofManifests(inputs []inventory.Input) bool {
	return slices.ContainsFunc(inputs, func(i inventory.Input) bool { return i.Kind == "manifests" })
}

// byUrgency separates the findings: what fails now, what can fail, and what to look at
// once, each the most urgent first.
func byUrgency(findings []Finding) (now, risk, review []Finding) {
	open, _ := separateAcknowledged(findings)
	slices.SortStableFunc(open, func(a, b Finding) int { return a.urgency().Compare(b.urgency()) })
	group := func(when When) []Finding {
		return lists.Filter(open, func(f Finding) bool { return f.urgency().When == when })
	}
	return group(BrokenNow), group(AtRisk), group(ToReview)
}

// mostUrgentFirst are all findings in the order of a text, the acknowledged ones last.
func mostUrgentFirst(findings []Finding) []Finding {
	_, acknowledged := separateAcknowledged(findings)
	return append(slices.Concat(byUrgency(findings)), acknowledged...)
}

func separateAcknowledged(findings []Finding) (open, acknowledged []Finding) {
	return lists.Filter(findings, func(f Finding) bool { return !f.Acknowledged }),
		lists.Filter(findings, func(f Finding) bool { return f.Acknowledged })
}

// causeOf groups the webhooks that one sentence says all of.
func causeOf(f Finding) string {
	said := cmp.Or(f.Brief, f.Message) + strings.Join(f.Details, "; ")
	return f.Severity.String() + f.Check + f.AlertNote() + strings.ReplaceAll(said, f.Name, "")
}

func (o TextOptions) entries(findings []Finding) []Line {
	keyOf := causeOf
	switch {
	case o.Verbose: // which prints the sentence of each
		keyOf = func(f Finding) string { return f.Severity.String() + f.Check + f.Fix }
	case o.Fixes:
		keyOf = func(f Finding) string { return causeOf(f) + f.Fix }
	}
	groups := lists.Group(findings, keyOf)
	var out []Line
	for i, group := range groups {
		if i == maxEntries && !o.Verbose && !o.Fixes { // no command is cut
			return append(out, Line{Text: fmt.Sprintf("… and %d more", len(groups)-i) + o.hint("; -v shows them"), Tone: Dim})
		}
		out = append(out, o.entry(group))
	}
	return out
}

var marks = map[classify.Severity]Line{
	classify.Critical: {Label: "X", Tone: Critical},
	classify.Warning:  {Label: "!", Tone: Warning},
	classify.Info:     {Label: "i", Tone: Note},
}

// ToneOf is how findings of the severity look; plain for none.
func ToneOf(s classify.Severity) Tone { return marks[s].Tone }

// entry is a finding in three lines, with the others of its group counted.
func (o TextOptions) entry(group []Finding) Line {
	first := group[0]
	out := marks[first.Severity]
	out.Name, out.Aside = first.Name, first.Check+first.AlertNote()
	others := ""
	if more := len(refsOf(group)) - 1; more > 0 {
		others = fmt.Sprintf(" · and %s", inventory.Counted(more, "other"))
	}
	if o.Verbose {
		out.Text = particulars(first) + others
		out.Under = Sentences(lists.Map(group, func(f Finding) string { return f.Message })...)
	} else {
		out.Text = o.fitting(out, first, others)
		out.Under = o.brief(first)
	}
	if o.Fixes {
		fix := fixLines(first)
		out.Under = append(slices.DeleteFunc(out.Under, func(l Line) bool {
			return l.Command != "" && slices.ContainsFunc(fix, func(f Line) bool { return f.Command == l.Command })
		}), fix...)
	}
	return out
}

func length(l Line) int {
	return utf8.RuneCountInString(strings.Join([]string{l.Label, l.Name, l.Text, l.Aside}, " "))
}

// fitting are the particulars that fit into the first line; none where no place is left.
func (o TextOptions) fitting(l Line, first Finding, others string) string {
	f := first
	where, short := cmp.Or(f.Source.String(), f.Configuration), f.Configuration
	if f.Source.File != "" {
		f.Source.File = path.Base(f.Source.File)
		short = f.Source.String()
	}
	for _, content := range []string{
		particulars(first), strings.TrimPrefix(particulars(first), f.Type.Title()+" · "), where, short,
	} {
		if l.Text = content + others; o.Width == 0 || length(l) <= o.Width {
			return l.Text
		}
	}
	return strings.TrimPrefix(others, " · ")
}

// brief is what breaks and why, and one command to look. Two lines are enough for what is for
// information; of the others nothing is cut but clauses that follow, and lists.
func (o TextOptions) brief(f Finding) []Line {
	width := o.Width - underIndent
	if o.Width == 0 {
		width = longest
	}
	most, message := 2*width-longestWord, text.Capital(cmp.Or(f.Brief, f.Message))
	if f.Severity == classify.Info {
		most = max(most, leastInfo)
		return Sentences(text.Shorten(shortened(message, most), most))
	}
	// A Brief says what breaks, and after a colon why.
	if breaks, why, ok := strings.Cut(message, ": "); ok && f.Brief != "" {
		message = shortened(breaks, most-utf8.RuneCountInString(why)) + ": " + shortened(why, len(why))
	} else {
		message = shortened(message, most)
	}
	out, check := Sentences(append([]string{message}, f.Details...)...), classify.FindCheck(f.Check)
	if f.Look != "" && (check != nil && check.Fails() || utf8.RuneCountInString(message) <= width) {
		out = append(out, Line{Label: "look", Command: f.Look})
	}
	return out
}

const (
	// longest is how long a brief message may be where no terminal bounds it.
	longest = 200
	// leastInfo is how long it may be in a narrow terminal: two lines of 80 columns.
	leastInfo = 2*(80-underIndent) - longestWord
	// longestWord is what is left free of a line at most, as no word is broken.
	longestWord = 20
)

// shortened is a message without what a reader can look up: remarks in brackets, and as many
// clauses at its end as it takes to fit.
func shortened(message string, most int) string {
	message = remark.ReplaceAllString(shortenLists(message), "")
	for _, separator := range []string{"; ", ", so that "} {
		for utf8.RuneCountInString(message) > most {
			i := strings.LastIndex(message, separator)
			if i < 0 {
				break
			}
			message = message[:i]
		}
	}
	for n := maxListed - 1; n >= leastListed && utf8.RuneCountInString(message) > most; n-- {
		message = bounded(message, n)
	}
	return message
}

// particulars are where a webhook is registered: its type, its configuration, its file.
func particulars(f Finding) string {
	parts := []string{f.Type.Title()}
	// A conversion is registered by the CRD that it is named after.
	if f.Configuration != f.Name {
		parts = append(parts, f.Configuration)
	}
	for _, part := range []string{f.Resource, f.Source.String()} {
		if part != "" && !strings.Contains(f.Message, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " · ")
}

// stopsNow says in a sentence or two what fails, and what of the cluster that stops.
func (d Document) stopsNow() string {
	now, _, _ := byUrgency(d.Findings)
	isPolicy := func(f Finding) bool { return f.Type.IsPolicy() }
	refs, policies := refsOf(now), refsOf(lists.Filter(now, isPolicy))
	subjects := amounts(len(refs)-len(policies), "webhook", len(policies), "policy")
	fail := subjects + " cannot be called"
	if len(policies) > 0 {
		fail = subjects + " cannot do their work"
	}
	switch {
	case len(now) == 0:
		return ""
	case len(d.Stops) > 0:
		stops := strings.Join(lists.Bounded(d.Stops, maxListed, "and %d more"), "; ")
		return fmt.Sprintf("%s. This stops: %s.", fail, stops)
	case slices.ContainsFunc(now, func(f Finding) bool { return f.Severity == classify.Critical }):
		return fail + ": requests are refused."
	case slices.ContainsFunc(d.Webhooks, func(w Webhook) bool { return refs[w.Ref].Name != "" && w.FailurePolicy == "Fail" }):
		return subjects + " may refuse requests: it depends on what is not known."
	}
	return fail + "; requests pass without."
}

func refsOf(findings []Finding) map[inventory.Ref]Finding {
	return lists.By(findings, func(f Finding) inventory.Ref { return f.Ref })
}

// amounts counts things of two kinds, without a kind of which there is none.
func amounts(n int, noun string, m int, other string) string {
	switch {
	case m == 0:
		return inventory.Counted(n, noun)
	case n == 0:
		return inventory.Counted(m, other)
	}
	return inventory.Counted(n, noun) + " and " + inventory.Counted(m, other)
}

// approvals are the checks that a recorded approval ends.
var approvals = []string{"critical-resource", "core-resource", "sensitive-resource"}

// toReview has the entries, and sums the webhooks up that a record would end;
// with -v it lists them all.
func (d Document) toReview(findings []Finding, o TextOptions) []Line {
	if o.Verbose {
		return o.entries(findings)
	}
	approvable := func(f Finding) bool { return slices.Contains(approvals, f.Check) }
	out := o.entries(lists.Filter(findings, func(f Finding) bool { return !approvable(f) }))
	unapproved := lists.Filter(findings, approvable)
	checks := lists.Distinct(lists.Map(unapproved, func(f Finding) string { return f.Check }))
	if n := len(refsOf(unapproved)); n > 0 {
		record := "webhook-auditor.io/acknowledge"
		if d.Platform == inventory.PlatformOpenShift {
			record = classify.ApprovalAnnotation
		}
		sees := " sees"
		if n > 1 {
			sees = " see"
		}
		content := fmt.Sprintf("%s%s Pods, Secrets or the like (%s); no annotation %s records that this is wanted%s",
			inventory.Counted(n, "webhook"), sees, strings.Join(checks, ", "), record, o.hint("; -v lists them"))
		out = append(out, Line{Label: "i", Tone: Note, Text: content})
	}
	return out
}

// upgradeNotes are what releases above the server's change. The version beside files may
// be the one to upgrade to.
func (d Document) upgradeNotes(o TextOptions) []Line {
	server, err := inventory.ParseVersion(d.Server)
	var out []Line
	for _, n := range d.ReleaseNotes {
		release, _ := inventory.ParseVersion(n.Release)
		ahead := release.AtLeast(server.Major, server.Minor+1) || n.StopsServer && len(d.Inputs) > 0 && !d.recorded()
		if err != nil || !o.Verbose && !ahead {
			continue
		}
		out = append(out, Line{
			Text: fmt.Sprintf("From %s on: %s (%s).", n.Release, n.Text, inventory.Counted(n.Webhooks, "webhook")), Aside: n.Source,
		})
	}
	return out
}

// foot says what the input lacked, and what to ask next.
func (d Document) foot(o TextOptions) []Line {
	out := inputLines(d.Inputs, d.Taken, o)
	if open := slices.Concat(byUrgency(d.Findings)); len(open) > 0 && !o.WithoutFlags {
		next := "About a check: explain " + open[0].Check
		if !o.Served {
			next += " · In a browser: -o html"
		}
		if !o.Fixes {
			next = "What to do: --fixes · " + next
		}
		out = append(out, Line{Text: next, Tone: Dim})
	}
	return out
}

func (d Document) summary() string {
	parts := []string{d.subject()}
	if d.Totals.Webhooks > 0 {
		parts = append(parts, inventory.Counted(d.Totals.Webhooks, "webhook"))
	}
	if d.Totals.Policies > 0 {
		parts = append(parts, inventory.Counted(d.Totals.Policies, "admission policy"))
	}
	if len(parts) == 1 {
		parts = append(parts, "no webhooks")
	}
	if found := d.found(); found != "" {
		parts = append(parts, found)
	}
	if n := len(d.Errors); n > 0 {
		consequence := "some of the input cannot be read"
		if !slices.ContainsFunc(d.Errors, func(e Error) bool { return !e.Uncompared }) {
			consequence = "not all is compared"
		}
		parts = append(parts, inventory.Counted(n, "error")+": "+consequence)
	}
	return strings.Join(parts, " · ")
}

func (d Document) found() string {
	found := "no problems found"
	switch {
	case d.Totals.Findings != FindingTotals{}:
		found = d.Totals.Findings.String()
	case d.Totals.Webhooks+d.Totals.Policies == 0:
		return ""
	case len(d.Errors) > 0:
		found = "no problems found in what could be read"
	}
	if _, acknowledged := separateAcknowledged(d.Findings); len(acknowledged) > 0 {
		found += fmt.Sprintf(", %d acknowledged", len(acknowledged))
	}
	return found
}

// subject is the cluster by its version, or the files.
func (d Document) subject() string {
	paths := text.Clean(shortenLists(strings.Join(lists.Map(d.Inputs, inventory.Input.Name), ", ")))
	server := "Kubernetes " + text.Clean(d.Server)
	isKnown := d.Server != (inventory.Version{}).String() && d.Server != ""
	switch {
	case paths == "" && isKnown:
		return server
	case paths == "":
		return "Kubernetes of unknown version"
	case isKnown:
		return paths + " (" + server + ")"
	}
	return paths
}
