package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// AuditLog is what audit logs of API servers record of webhooks and policies.
type AuditLog struct {
	*inventory.AuditLog
	Requests   []AuditLine          `json:"requests" jsonschema:"Requests are those at each webhook and policy, grouped and sorted."`
	Messages   []inventory.AuditRow `json:"messages" jsonschema:"Messages are those of denials and failures, the most frequent first; OfMessages counts them, as they are bounded."`
	OfMessages int                  `json:"ofMessages"`
	Changes    []inventory.AuditRow `json:"changes" jsonschema:"Changes are the fields that mutating webhooks changed, the most frequent first; OfChanges counts them, as they are bounded."`
	OfChanges  int                  `json:"ofChanges"`
	Loops      []inventory.AuditRow `json:"loops" jsonschema:"Loops are objects that one user writes again and again, and a webhook changes each time, the most frequent first; OfLoops counts them."`
	OfLoops    int                  `json:"ofLoops"`
	Notes      []string             `json:"notes" jsonschema:"Notes say what the log shows of all webhooks together, and what it cannot show."`
}

// AuditLine are the requests at one webhook or policy, or those of one resource, user
// or namespace among them.
type AuditLine struct {
	inventory.Series
	Configurations []string `json:"configurations" jsonschema:"Configurations are those that register the name."`
	Registered     string   `json:"registered" jsonschema:"Registered is \"no\" where the input shows that nothing registers the name; \"unknown\" where it does not show that, as of policies and of static manifests."`
	By             string   `json:"by,omitempty" jsonschema:"By is the resource, the user or the namespace, where they are grouped."`
	inventory.AuditSum
	Mutated    int `json:"mutated"`
	Unchanged  int `json:"unchanged"`
	Denied     int `json:"denied"`
	Failed     int `json:"failed"`
	FailedOpen int `json:"failedOpen"`
	Audited    int `json:"audited"`
}

// AuditTop is what "top --audit-log" prints.
type AuditTop struct {
	Version  string    `json:"version"`
	Taken    time.Time `json:"taken"`
	AuditLog *AuditLog `json:"auditLog"`
	Errors   []Error   `json:"errors"`
}

var auditDimensions = map[string]func(inventory.AuditKey) string{
	"webhook":   func(inventory.AuditKey) string { return "" },
	"resource":  func(k inventory.AuditKey) string { return k.Operation + " " + k.Resource.String() },
	"user":      func(k inventory.AuditKey) string { return inventory.UserName(k.User) },
	"namespace": func(k inventory.AuditKey) string { return cmp.Or(k.Namespace, "-") },
}

// AuditDimensions are the values of --by: the first is the default.
var AuditDimensions = []string{"webhook", "resource", "user", "namespace"}

// The bounds of lists in a report.
const (
	maxAuditLines    = 50
	maxAuditMessages = 20
)

// NewAuditTop returns what the audit log of a Report records, grouped by the dimension.
func NewAuditTop(r *classify.Report, column string) AuditTop {
	log := r.Snapshot.AuditLog
	out := &AuditLog{AuditLog: log, Requests: auditLines(r.Snapshot, column)}
	messages := summed(log.Rows, func(r inventory.AuditRow) (inventory.AuditKey, bool) {
		return inventory.AuditKey{Series: r.Series, Outcome: r.Outcome, Message: r.Message}, r.Message != ""
	})
	changes, loops := changedFields(log), changeLoops(log)
	out.Messages, out.OfMessages = messages[:min(len(messages), maxAuditMessages)], len(messages)
	out.Changes, out.OfChanges = changes[:min(len(changes), maxAuditLines)], len(changes)
	out.Loops, out.OfLoops = loops[:min(len(loops), maxAuditMessages)], len(loops)
	out.Notes = auditNotes(out)
	return AuditTop{
		Version: documentVersion, Taken: r.Snapshot.Taken.UTC(), AuditLog: out, Errors: NewErrors(r.Snapshot.Errors),
	}
}

// At is the Report with the requests of the audit log at the webhooks of the Document alone.
func (d Document) At(r *classify.Report) *classify.Report {
	selected, log, snapshot, out := d.series(), *r.Snapshot.AuditLog, *r.Snapshot, *r
	log.Rows = lists.Filter(log.Rows, func(l inventory.AuditRow) bool {
		return selected[l.Series] || l.Outcome == inventory.AuditDeleted
	})
	snapshot.AuditLog, out.Snapshot = &log, &snapshot
	return &out
}

// auditLines groups the rows: what refuses or fails most comes first.
func auditLines(s *inventory.Snapshot, column string) []AuditLine {
	type auditLineKey struct {
		inventory.Series
		group string
	}
	out, registered, groups := []AuditLine{}, configurations(s), map[auditLineKey]*AuditLine{}
	for _, row := range s.AuditLog.Rows {
		key := auditLineKey{row.Series, auditDimensions[column](row.AuditKey)}
		if !slices.Contains(inventory.AuditOutcomes, row.Outcome) {
			continue
		}
		if groups[key] == nil {
			groups[key] = &AuditLine{
				Series: row.Series, By: key.group, Configurations: append([]string{}, registered[row.Series]...),
				Registered: isRegistered(s, row.Series, registered[row.Series]),
			}
		}
		groups[key].add(row)
	}
	for _, line := range groups {
		out = append(out, *line)
	}
	slices.SortFunc(out, func(a, b AuditLine) int {
		return cmp.Or(
			cmp.Compare(b.Denied+b.Failed+b.FailedOpen, a.Denied+a.Failed+a.FailedOpen),
			cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.By, b.By),
		)
	})
	return out
}

func isRegistered(s *inventory.Snapshot, series inventory.Series, configurations []string) string {
	switch {
	case len(configurations) > 0:
		return "yes"
	case series.Type == inventory.MutatingPolicy, series.Type == inventory.ValidatingPolicy, !s.NamespacesKnown,
		s.Unread(inventory.Ref{Type: series.Type}), strings.HasSuffix(series.Name, inventory.StaticSuffix):
		return "unknown"
	}
	return "no"
}

func (l *AuditLine) add(row inventory.AuditRow) {
	l.Add(row.AuditSum)
	*map[inventory.AuditOutcome]*int{
		inventory.AuditMutated: &l.Mutated, inventory.AuditUnchanged: &l.Unchanged, inventory.AuditDenied: &l.Denied,
		inventory.AuditFailed: &l.Failed, inventory.AuditFailedOpen: &l.FailedOpen, inventory.AuditViolated: &l.Audited,
	}[row.Outcome] += row.Requests
}

// summed adds up the rows by what they have in common, the most frequent first.
func summed(rows []inventory.AuditRow,
	common func(inventory.AuditRow) (inventory.AuditKey, bool),
) []inventory.AuditRow {
	sums := map[inventory.AuditKey]inventory.AuditSum{}
	for _, r := range rows {
		if key, counts := common(r); counts {
			sum := sums[key]
			sum.Add(r.AuditSum)
			sums[key] = sum
		}
	}
	out := []inventory.AuditRow{}
	for key, sum := range sums {
		out = append(out, inventory.AuditRow{AuditKey: key, AuditSum: sum})
	}
	slices.SortFunc(out, func(a, b inventory.AuditRow) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(fmt.Sprint(a.AuditKey), fmt.Sprint(b.AuditKey)))
	})
	return out
}

func (l *AuditLog) sourceLine() string {
	text := fmt.Sprintf("Read %s of audit logs in %s", inventory.Counted(int(l.Lines), "line"), inventory.Counted(len(l.Files), "file"))
	if !l.From.IsZero() {
		text += fmt.Sprintf(", from %s to %s", formatTime(l.From), formatTime(l.To))
	}
	if l.Broken > 0 {
		text += fmt.Sprintf("; no audit event, or not all of it can be read: %s: %s", inventory.Counted(int(l.Broken), "line"), strings.Join(l.Breaks, "; "))
		if more := int(l.Broken) - len(l.Breaks); more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
	}
	return text + "."
}

const registrationsUnknown = "What registers these names is not known: name a cluster, or files with --from."

func auditNotes(l *AuditLog) []string {
	out := []string{l.sourceLine()}
	if len(l.Requests) > 0 && !slices.ContainsFunc(l.Requests,
		func(line AuditLine) bool { return line.Registered != "unknown" }) {
		out = append(out, registrationsUnknown)
	}
	if l.Merged > 0 {
		out = append(out, fmt.Sprintf("The namespace, user and message of %s are left out: there are too many different ones.", inventory.Counted(l.Merged, "request")))
	}
	return append(out, "An audit log does not record that a validating webhook let a request pass, nor that a mutating policy ran.")
}

func (t AuditTop) Text(TextOptions) Blocks {
	l := t.AuditLog
	table := &Table{
		Headings: []string{"Name", "Type", "By", "Requests", "Mutated", "Denied", "Failed", "Failed open", "Audited", "Last", "Configuration"},
		Spare:    []string{"Configuration", "Last", "Type", "Audited"},
	}
	for _, line := range l.Requests {
		table.Rows = append(table.Rows, auditCells(line))
	}
	table.dropEmpty("By")
	table.dropEmpty("Configuration")
	out := Block{Heading: "Audit log", Table: table.bounded(maxAuditLines)}
	for _, m := range l.Messages {
		out.Lines = append(out.Lines,
			Line{Label: fmt.Sprintf("%d %s", m.Requests, m.Outcome), Tone: Warning, Text: m.Name + ": " + m.Message})
	}
	out.Lines = append(out.Lines, omitted(l.OfMessages, len(l.Messages), "message")...)
	out.Lines = append(out.Lines, Sentences(l.Notes...)...)
	return append(Blocks{out}, l.changeBlocks()...)
}

func auditCells(l AuditLine) []string {
	unregistered := map[string]string{"no": "(not registered)", "unknown": "-"}[l.Registered]
	configurations := cmp.Or(unregistered, shortenLists(strings.Join(l.Configurations, ", ")))
	out := []string{l.Name, l.Type.Title(), l.By}
	for _, n := range []int{l.Requests, l.Mutated, l.Denied, l.Failed, l.FailedOpen, l.Audited} {
		out = append(out, fmt.Sprint(n))
	}
	return append(out, formatTime(l.Last), configurations)
}
