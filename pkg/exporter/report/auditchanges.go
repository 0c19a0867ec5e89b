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

// numbered matches what differs between the names of objects that replace each other: numbers,
// and what Kubernetes generates, which has no vowels.
var numbered = regexp.MustCompile(`-(?:[a-z0-9]*[0-9][a-z0-9]*|[bcdfghjklmnpqrstvwxz]{5,10})\b`)

// renewed are resources that are written again and again for their own sake, as subresources are.
var renewed = []string{"leases.coordination.k8s.io", "events", "events.events.k8s.io"}

// controlPlane matches the users of the controllers of the control plane.
var controlPlane = regexp.MustCompile(`^system:(serviceaccount:kube-system:|kube-)`)

// loopName is the name of the object of a change, as a loop has it; "" where it may be in none.
// Who replaces an object by another one does so because of what was set otherwise; the
// controllers of the control plane do not look at that.
func loopName(c inventory.AuditRow) string {
	creates := c.Operation == "CREATE"
	switch {
	case c.Resource.Subresource != "", slices.Contains(renewed, c.Resource.String()):
		return ""
	case creates && controlPlane.MatchString(c.User):
		return ""
	case creates && (c.Change == "replace" || c.Change == "remove"):
		return numbered.ReplaceAllString(c.Object, "-…")
	case strings.HasSuffix(c.Object, "…"): // generated
		return ""
	}
	return c.Object
}

// changeLoops are those of one object, or of objects that replace each other.
func changeLoops(log *inventory.AuditLog) []inventory.AuditRow {
	names := map[inventory.AuditKey]map[string]bool{}
	all := summed(log.Rows, func(r inventory.AuditRow) (inventory.AuditKey, bool) {
		loop := changedField(r)
		loop.User, loop.Operation, loop.Namespace, loop.Object = r.User, r.Operation, r.Namespace, loopName(r)
		if names[loop] == nil {
			names[loop] = map[string]bool{}
		}
		names[loop][r.Object] = true
		return loop, r.Outcome == inventory.AuditChanged && loop.Object != "" && r.User != ""
	})
	all = slices.DeleteFunc(all, func(r inventory.AuditRow) bool {
		return r.Requests < leastLoop || r.Last.Sub(r.First) > time.Duration(r.Requests-1)*longestPause
	})
	for i := range all {
		objects := slices.Collect(maps.Keys(names[all[i].AuditKey]))
		if all[i].Object = objects[0]; len(objects) > 1 {
			all[i].Object = fmt.Sprintf("%s (%d names)", loopName(all[i]), len(objects))
		}
	}
	return all
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
