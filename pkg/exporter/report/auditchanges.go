package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// leastLoop is how often a write is repeated to be a loop, longestPause how long it may take to
// the next one on average: GitOps writes each hour, and releases are further apart.
const (
	leastLoop    = 3
	longestPause = time.Hour
)

func changedFields(log *inventory.AuditLog) []inventory.AuditRow {
	return summed(log.Rows, func(r inventory.AuditRow) (inventory.AuditKey, bool) {
		return changedField(r), r.Outcome == inventory.AuditChanged
	})
}

func changedField(r inventory.AuditRow) inventory.AuditKey {
	return inventory.AuditKey{Series: r.Series, Resource: r.Resource, Change: r.Change, Path: r.Path}
}

// renewed are resources that are written again and again for their own sake, as subresources are.
var renewed = []string{"leases.coordination.k8s.io", "events", "events.events.k8s.io"}

// controlPlane matches the users of the controllers of the control plane.
var controlPlane = regexp.MustCompile(`^system:(serviceaccount:kube-system:|kube-)`)

// mayLoop reports whether a change may be one of a loop. Who replaces an object by another one
// does so because of what was set otherwise; the controllers of the control plane do not look at
// that.
func mayLoop(c inventory.AuditRow) bool {
	switch creates := c.Operation == "CREATE"; {
	case c.Object == "", c.User == "", c.Resource.Subresource != "", slices.Contains(renewed, c.Resource.String()):
		return false
	case creates && controlPlane.MatchString(c.User):
		return false
	case isGenerated(c):
		return creates && c.Owner != "" && (c.Change == "replace" || c.Change == "remove")
	}
	return true
}

func isGenerated(c inventory.AuditRow) bool { return strings.HasSuffix(c.Object, "…") }

// changeLoops are those of one object, or of objects of an owner that replace each other.
func changeLoops(log *inventory.AuditLog) []inventory.AuditRow {
	place := func(r inventory.AuditRow) inventory.AuditKey {
		return inventory.AuditKey{User: r.User, Resource: r.Resource, Namespace: r.Namespace, Object: r.Object}
	}
	deleted := map[inventory.AuditKey]inventory.AuditSum{}
	for _, r := range log.Rows {
		if r.Outcome == inventory.AuditDeleted {
			deleted[place(r)] = r.AuditSum
		}
	}
	all := summed(log.Rows, func(r inventory.AuditRow) (inventory.AuditKey, bool) {
		loop := changedField(r)
		loop.User, loop.Operation, loop.Namespace = r.User, r.Operation, r.Namespace
		loop.Object, loop.Owner = r.Object, r.Owner
		return loop, r.Outcome == inventory.AuditChanged && mayLoop(r)
	})
	return slices.DeleteFunc(all, func(r inventory.AuditRow) bool {
		d := deleted[place(r)]
		isReplaced := d.Requests >= r.Requests-1 && d.First.Before(r.Last) && d.Last.After(r.First)
		isRare := r.Requests < leastLoop || r.Last.Sub(r.First) > time.Duration(r.Requests-1)*longestPause
		return isRare || isGenerated(r) && !isReplaced
	})
}

// changeVerbs are the operations of patches, as participles.
var changeVerbs = map[string]string{"add": "set", "replace": "replaced", "remove": "removed", "move": "moved", "copy": "set", "": "changed"}

func (l *AuditLog) changeBlocks() Blocks {
	loops, fields := Block{Heading: "Again and again"}, Block{Heading: "Changed fields"}
	for _, c := range l.Loops {
		object := c.Object
		if c.Namespace != "" {
			object += " in " + c.Namespace
		}
		field := cmp.Or(c.Path, "the object (level Request shows the fields)")
		span := duration.HumanDuration(max(time.Second, c.Last.Sub(c.First)))
		loops.Lines = append(loops.Lines,
			Line{Label: fmt.Sprintf("%d times", c.Requests), Tone: Warning, Name: inventory.UserName(c.User), Text: fmt.Sprintf(
				"%s %s %s in %s: %s %s each time by %s", c.Operation, c.Resource, object, span, field, changeVerbs[c.Change], c.Name,
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
