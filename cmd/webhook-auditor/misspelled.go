package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxTypo is how many letters a misspelled resource differs by.
const maxTypo = 2

// misspelled returns an error for each resource of the Policy that no release of
// Kubernetes or OpenShift serves while it serves one of nearly that name in the
// same group. Resources that resemble none may be custom, alpha or newer.
func misspelled(p classify.Policy) error {
	recorded := map[inventory.Resource]bool{}
	for v := inventory.Oldest; v.Minor <= inventory.Newest.Minor; v.Minor++ {
		for _, served := range inventory.Builtins(v, true) {
			recorded[served.Resource] = true
		}
	}
	var out []error
	for _, r := range resourcesOf(p) {
		if recorded[r] {
			continue
		}
		near := slices.DeleteFunc(slices.SortedFunc(maps.Keys(recorded), inventory.Resource.Compare), func(known inventory.Resource) bool {
			return known.Group != r.Group || text.Edits(known.Path(), r.Path()) > maxTypo
		})
		if len(near) > 0 {
			out = append(out, fmt.Errorf("%s is served by no API server; did you mean %s?", r, near[0]))
		}
	}
	return errors.Join(out...)
}

// resourcesOf returns the resources that the Policy names, sorted.
func resourcesOf(p classify.Policy) []inventory.Resource {
	out := slices.Concat(slices.Collect(maps.Values(p.ControlPlane))...)
	out = append(out, slices.Concat(slices.Collect(maps.Values(p.Classes))...)...)
	for _, b := range p.Budgets {
		out = append(out, b.Resource)
	}
	slices.SortFunc(out, inventory.Resource.Compare)
	return slices.Compact(out)
}
