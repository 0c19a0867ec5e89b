package main

import (
	"slices"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

// TestReadableAgain: only what can really be read again is reported so.
func TestReadableAgain(t *testing.T) {
	lost := inventory.Error{Object: cluster.APIServer, Message: "connection refused; nothing is known of it"}
	lostLater := inventory.Error{Object: cluster.APIServer, Message: "connection refused; its last known state, of 12:00, is kept"}
	forbidden := inventory.Error{Object: "namespaces", Message: "list namespaces is forbidden"}
	type step struct {
		errs, added []inventory.Error
		again       []string
	}
	for name, steps := range map[string][]step{
		"another message is no recovery": {
			{errs: []inventory.Error{lost}, added: []inventory.Error{lost}},
			{errs: []inventory.Error{lostLater}, added: []inventory.Error{lostLater}},
			{again: []string{cluster.APIServer}},
			{},
		},
		"the loss of the API server is no recovery": {
			{errs: []inventory.Error{forbidden}, added: []inventory.Error{forbidden}},
			{errs: []inventory.Error{lost}, added: []inventory.Error{lost}},
			{errs: []inventory.Error{forbidden}, again: []string{cluster.APIServer}},
			{again: []string{"namespaces"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var u unreadable
			for i, s := range steps {
				added, again := u.change(s.errs)
				if !slices.Equal(added, s.added) || !slices.Equal(again, s.again) {
					t.Errorf("step %d: added %v, again %q; want %v, %q", i, added, again, s.added, s.again)
				}
			}
		})
	}
}
