package impact

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Written says what the last of several writes of registrations does, in a sentence for
// each webhook. There is none where the log does not hold what was registered before
// it, or by it.
func Written(writes []inventory.AuditWrite) []string {
	last := writes[len(writes)-1]
	before, after := &inventory.Objects{}, last.Registered
	if last.Verb == "delete" {
		after = &inventory.Objects{}
	}
	if last.Verb != "create" {
		before = registeredBefore(writes[:len(writes)-1], last)
	}
	if before == nil || after == nil {
		return nil
	}
	changes := Registrations(admission.New(before.Snapshot(last.Time)), admission.New(after.Snapshot(last.Time)))
	if len(changes) == 0 {
		return []string{"it registers the same as before"}
	}
	return changes[0].ofWebhooks()
}

// registeredBefore is what the newest write of the same configuration registered; nil
// where that is not known.
func registeredBefore(writes []inventory.AuditWrite, last inventory.AuditWrite) *inventory.Objects {
	for _, w := range slices.Backward(writes) {
		if w.Resource == last.Resource && (w.Name == last.Name || w.Name == "") { // a deletion of all has no name
			return w.Registered
		}
	}
	return nil
}
