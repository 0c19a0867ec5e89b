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
	scoped := inventory.Error{Object: "services", Message: "list services is forbidden in namespaces a, b", Namespaces: "a,b"}
	broken := inventory.Error{Object: "ValidatingWebhookConfiguration/broken", Message: "reading namespaceSelector"}
	webhook := func(configuration, namespace string) *inventory.Snapshot {
		w := inventory.Webhook{Registration: inventory.Registration{Ref: inventory.Ref{Configuration: configuration}}}
		w.Backend.Service.Namespace = namespace
		return &inventory.Snapshot{Webhooks: []*inventory.Webhook{&w}}
	}
	type step struct {
		errs     []inventory.Error
		snapshot *inventory.Snapshot
		added    []inventory.Error
		again    []string
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
		"what is not needed is no recovery": {
			{errs: []inventory.Error{scoped}, snapshot: webhook("policy", "b"), added: []inventory.Error{scoped}},
			{snapshot: webhook("policy", "c")},
		},
		"what is needed is": {
			{errs: []inventory.Error{scoped}, snapshot: webhook("policy", "b"), added: []inventory.Error{scoped}},
			{snapshot: webhook("policy", "b"), again: []string{"services"}},
		},
		"a deleted object is no recovery": {
			{errs: []inventory.Error{broken}, snapshot: webhook("broken", "b"), added: []inventory.Error{broken}},
			{snapshot: webhook("policy", "b")},
		},
		"a corrected object is": {
			{errs: []inventory.Error{broken}, snapshot: webhook("broken", "b"), added: []inventory.Error{broken}},
			{snapshot: webhook("broken", "b"), again: []string{"ValidatingWebhookConfiguration/broken"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var u unreadable
			for i, s := range steps {
				added, again := u.change(s.errs, neededIn(s.snapshot))
				if !slices.Equal(added, s.added) || !slices.Equal(again, s.again) {
					t.Errorf("step %d: added %v, again %q; want %v, %q", i, added, again, s.added, s.again)
				}
			}
		})
	}
}
