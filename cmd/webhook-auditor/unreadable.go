package main

import (
	"slices"
	"sync"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

// unreadable remembers what cannot be read, so that each change of it is logged
// once. It is safe for concurrent use.
type unreadable struct {
	mu      sync.Mutex
	objects map[string][]inventory.Error
}

// change returns the Errors that are new, and the objects that are read again, or are no
// longer asked for: not while the loss of the API server hides that.
func (u *unreadable) change(errs []inventory.Error) (added []inventory.Error, again []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := map[string][]inventory.Error{}
	for _, e := range errs {
		now[e.Object] = append(now[e.Object], e)
		if !slices.Contains(u.objects[e.Object], e) {
			added = append(added, e)
		}
	}
	_, lost := now[cluster.APIServer]
	for object, before := range u.objects {
		if _, still := now[object]; still {
			continue
		}
		if lost {
			now[object] = before
		} else {
			again = append(again, object)
		}
	}
	u.objects = now
	slices.Sort(again)
	return added, again
}
