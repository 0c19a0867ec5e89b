// Package manifests writes what a cluster applies, from the data that the
// checks are made of.
package manifests

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

//go:embed *.tmpl
var sources embed.FS

// RunLevelGuard writes the policy that keeps webhooks out of run level 0.
func RunLevelGuard(p classify.Policy) ([]byte, error) {
	return fill("guard.yaml.tmpl", map[string]any{
		"FailurePolicy": "Ignore",
		"OptIn":         classify.OptInAnnotation,
		"Key":           quoted(p.RunLevelLabel),
		"Values":        quoted([]string{"0"}),
	})
}

// sensitive is a resource as the warnings compare it with rules.
type sensitive struct {
	inventory.Resource
	Scope, Operations, Versions string
}

// RegistrationWarnings writes the policy that warns of unapproved webhooks.
func RegistrationWarnings(p classify.Policy) ([]byte, error) {
	return fill("warn.yaml.tmpl", map[string]any{
		"OptIn":       classify.OptInAnnotation,
		"Approval":    classify.ApprovalAnnotation,
		"ApprovalURL": classify.ApprovalPattern,
		"Platform":    quoted(p.PlatformWebhooks),
		"CoreGroups":  quoted(p.CoreGroups),
		"Sensitive":   sensitiveResources(p),
	})
}

// sensitiveResources are those for which the newest server calls webhooks.
func sensitiveResources(p classify.Policy) []sensitive {
	s := &inventory.Snapshot{ReviewsExcluded: true}
	var out []sensitive
	for _, r := range p.Classes[classify.ClassSensitive] {
		if slices.Contains(s.NeverSent(), r) {
			continue
		}
		out = append(out, describe(r))
	}
	return out
}

// describe tells how the newest server serves a resource.
func describe(r inventory.Resource) sensitive {
	d := sensitive{Resource: r}
	var versions, operations []string
	for _, served := range inventory.Builtins(inventory.Newest, true) {
		if served.Resource != r {
			continue
		}
		d.Scope = "Cluster"
		if served.Namespaced {
			d.Scope = "Namespaced"
		}
		versions = append(versions, served.Version)
		for _, op := range served.Operations() {
			operations = append(operations, string(op))
		}
	}
	slices.Sort(operations)
	d.Operations = strings.Join(slices.Compact(operations), " ")
	d.Versions = strings.Join(versions, " ")
	return d
}

// quoted writes a value as CEL does: as JSON.
func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and lists of strings
	}
	return strings.ReplaceAll(string(b), `","`, `", "`)
}

func fill(name string, data any) ([]byte, error) {
	t, err := template.ParseFS(sources, name)
	if err != nil {
		return nil, fmt.Errorf("reading the template %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("filling in the template %s: %w", name, err)
	}
	return b.Bytes(), nil
}
