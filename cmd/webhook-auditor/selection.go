package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// resourceTypes are the resources that register webhooks, in the singular as
// kubectl prints them.
var resourceTypes = map[string]inventory.Type{
	"mutatingwebhookconfiguration":   inventory.Mutating,
	"validatingwebhookconfiguration": inventory.Validating,
	"customresourcedefinition":       inventory.Conversion,
	"crd":                            inventory.Conversion,
}

// resourceType resolves a resource as kubectl takes it: singular or plural, with
// or without its group.
func resourceType(name string) (inventory.Type, bool) {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	t, ok := resourceTypes[strings.TrimSuffix(name, "s")]
	return t, ok
}

// target is TYPE/NAME[/WEBHOOK] of a command line.
type target struct {
	text string
	// ref has no Name where the target is all webhooks of a configuration.
	ref inventory.Ref
}

func parseTarget(arg string) (target, bool) {
	parts := strings.SplitN(arg, "/", 3)
	if len(parts) < 2 || parts[1] == "" {
		return target{}, false
	}
	t, ok := resourceType(parts[0])
	if !ok {
		return target{}, false
	}
	ref := inventory.Ref{Type: t, Configuration: parts[1]}
	if len(parts) == 3 {
		ref.Name = parts[2]
	}
	return target{arg, ref}, true
}

// splitTargets separates TYPE/NAME from PATH; a file that exists is a PATH.
func splitTargets(args []string) (targets []target, paths []string) {
	for _, arg := range args {
		t, ok := parseTarget(arg)
		if _, err := os.Stat(arg); err == nil || !ok {
			paths = append(paths, arg)
			continue
		}
		targets = append(targets, t)
	}
	return targets, paths
}

func (t target) selects(w report.Webhook) bool {
	return w.Type == t.ref.Type && w.Configuration == t.ref.Configuration && (t.ref.Name == "" || t.ref.Name == w.Name)
}

// selection is what a report is about; the zero selection is about all webhooks.
type selection struct {
	targets []target
	// namespace is that of the Services of the webhooks.
	namespace string
}

func (s selection) keeps(w report.Webhook) bool {
	if s.namespace != "" && (w.Backend.Service == nil || w.Backend.Service.Namespace != s.namespace) {
		return false
	}
	return len(s.targets) == 0 || slices.ContainsFunc(s.targets, func(t target) bool { return t.selects(w) })
}

// of narrows a document to the selection.
func (s selection) of(d report.Document) report.Document {
	if s.namespace == "" && len(s.targets) == 0 {
		return d
	}
	return d.Select(s.keeps)
}

// check refuses targets that the input does not have.
func (s selection) check(d report.Document) error {
	for _, t := range s.targets {
		if !slices.ContainsFunc(d.Webhooks, t.selects) {
			return usageError{fmt.Errorf("audit: %s: must be a configuration with webhooks, or a CRD with a conversion webhook, of the input: no such webhook found", t.text)}
		}
	}
	return nil
}
