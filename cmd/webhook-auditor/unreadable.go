package main

import (
	"slices"
	"strings"
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

// change returns the Errors that are new, and the objects that can be read again:
// neither those that are no longer needed, nor those of which the loss of the
// API server hides whether they can.
func (u *unreadable) change(errs []inventory.Error, needed func(inventory.Error) bool) (added []inventory.Error, again []string) {
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
		_, still := now[object]
		switch {
		case still:
		case lost:
			now[object] = before
		case slices.ContainsFunc(before, needed):
			again = append(again, object)
		}
	}
	u.objects = now
	slices.Sort(again)
	return added, again
}

// neededIn returns whether what an Error is about is still part of a Snapshot,
// or of any cluster before the first one.
func neededIn(s *inventory.Snapshot) func(inventory.Error) bool {
	return func(e inventory.Error) bool {
		_, name, isObject := strings.Cut(e.Object, "/")
		switch {
		case s == nil:
			return true
		case e.Namespaces != "":
			namespaces := strings.Split(e.Namespaces, ",")
			return slices.ContainsFunc(s.Webhooks, func(w *inventory.Webhook) bool {
				return slices.Contains(namespaces, w.Backend.Service.Namespace)
			})
		case isObject && !strings.HasPrefix(e.Object, "/"):
			return slices.ContainsFunc(s.Webhooks, func(w *inventory.Webhook) bool { return w.Configuration == name })
		}
		return true
	}
}
