package report

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// ChangedField is a field of a resource that a webhook changed.
type ChangedField struct {
	inventory.Series
	Resource inventory.Resource `json:"resource"`
	Change   string             `json:"change" jsonschema:"Change is the operation of the patch: add, replace, remove, move or copy; \"\" where the log has no patch."`
	Path     string             `json:"path" jsonschema:"Path is a JSON pointer with * for each index of a list; \"\" where the log has no patch."`
	Requests int                `json:"requests"`
}

// ChangeLoop is an object that one user writes again and again, and what a webhook changes
// each time.
type ChangeLoop struct {
	ChangedField
	User      string `json:"user"`
	Operation string `json:"operation"`
	Namespace string `json:"namespace"`
	Object    string `json:"object" jsonschema:"Object is its name, with … for what differs between several."`
	// span is from the first to the last.
	span string
}

// leastLoop is how often a write is repeated to be a loop.
const leastLoop = 3

// changedFields are the fields by webhook and resource, and how many there are.
func changedFields(log *inventory.AuditLog) ([]ChangedField, int) {
	all := tallies(log.Rows, func(r inventory.AuditRow) (ChangedField, bool) {
		return changedField(r), r.Outcome == inventory.AuditChanged
	})
	return first(all, maxAuditLines, func(f *ChangedField, sum inventory.AuditSum) { f.Requests = sum.Requests }),
		len(all)
}

func changedField(r inventory.AuditRow) ChangedField {
	return ChangedField{Series: r.Series, Resource: r.Resource, Change: r.Change, Path: r.Path}
}

// numbered matches what differs between the names of objects that replace each other.
var numbered = regexp.MustCompile(`-[a-z0-9]*[0-9][a-z0-9]*(-[a-z0-9]+)*$|-[a-z0-9]{5}$`)

// loopName is the name of the object of a change, as a loop has it. Who replaces an object
// by one of another name does so because of what was set otherwise; the controllers of the
// control plane do not look at that.
func loopName(c inventory.AuditRow) string {
	overrides := c.Operation == "CREATE" && (c.Change == "replace" || c.Change == "remove")
	if overrides && !strings.HasPrefix(c.User, "system:serviceaccount:kube-system:") && !strings.HasPrefix(c.User, "system:kube-") {
		return numbered.ReplaceAllString(c.Object, "-…")
	}
	return c.Object
}

// changeLoops are those of one object, or of objects that replace each other, and how
// many there are.
func changeLoops(log *inventory.AuditLog) ([]ChangeLoop, int) {
	names := map[ChangeLoop]map[string]bool{}
	all := tallies(log.Rows, func(r inventory.AuditRow) (ChangeLoop, bool) {
		loop := ChangeLoop{
			ChangedField: changedField(r), User: r.User, Operation: r.Operation, Namespace: r.Namespace,
			Object: loopName(r),
		}
		if names[loop] == nil {
			names[loop] = map[string]bool{}
		}
		names[loop][r.Object] = true
		return loop, r.Outcome == inventory.AuditChanged && r.Object != "" && r.User != ""
	})
	all = slices.DeleteFunc(all, func(t tally[ChangeLoop]) bool { return t.Requests < leastLoop })
	return first(all, maxAuditMessages, func(loop *ChangeLoop, sum inventory.AuditSum) {
		if objects := names[*loop]; len(objects) == 1 {
			loop.Object = slices.Collect(maps.Keys(objects))[0]
		}
		loop.Requests, loop.span = sum.Requests, duration.HumanDuration(max(time.Second, sum.Last.Sub(sum.First)))
	}), len(all)
}

// changeVerbs are the operations of patches, as participles.
var changeVerbs = map[string]string{"add": "set", "replace": "replaced", "remove": "removed", "move": "moved", "copy": "set", "": "changed"}

// changeBlocks are the fields as a table, and the loops.
func (l *AuditLog) changeBlocks() Blocks {
	loops, fields := Block{Heading: "Again and again"}, Block{Heading: "Changed fields"}
	for _, c := range l.Loops {
		object := c.Object
		if c.Namespace != "" {
			object += " in " + c.Namespace
		}
		field := cmp.Or(c.Path, "the object (level Request shows the fields)")
		loops.Lines = append(loops.Lines,
			Line{Label: fmt.Sprintf("%d times", c.Requests), Tone: Warning, Name: inventory.UserName(c.User), Text: fmt.Sprintf(
				"%s %s %s in %s: %s %s each time by %s", c.Operation, c.Resource, object, c.span, field, changeVerbs[c.Change], c.Name,
			)})
	}
	loops.Lines = append(loops.Lines, omitted(l.OfLoops, len(l.Loops), "loop")...)
	t := &Table{Headings: []string{"Name", "Resource", "Change", "Path", "Requests"}, Cut: "Path"}
	unpatched := 0
	for _, f := range l.Changes {
		if f.Path == "" && f.Change == "" {
			unpatched += f.Requests
			continue
		}
		t.Rows = append(t.Rows,
			[]string{f.Name, f.Resource.String(), f.Change, cmp.Or(f.Path, "(the whole object)"), fmt.Sprint(f.Requests)})
	}
	fields.Table = t
	fields.Lines = omitted(l.OfChanges, len(l.Changes), "field")
	if unpatched > 0 {
		fields.Lines = append(fields.Lines, Line{Text: fmt.Sprintf("Which fields were changed in %s is not recorded: that needs level Request in the audit policy.", inventory.Counted(unpatched, "request"))})
	}
	return Blocks{loops, fields}.NonEmpty()
}
