// Package manifests writes what a cluster applies, from the data that the
// checks are made of.
package manifests

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

//go:embed *.tmpl
var sources embed.FS

// exclusion is a requirement as CEL writes it, and the names of its variables.
type exclusion struct {
	Has, Place, Key, Values string
}

// RunLevelGuard writes the policy that keeps webhooks out of run level 0: by the
// label and, where the Policy names namespaces, by name. It is one policy, for
// the API server calls several in no particular order: what an owner brings back
// to its own state would come out in another order, and count as a change.
func RunLevelGuard(p classify.Policy) ([]byte, error) {
	if i := slices.IndexFunc(p.RunLevelZero, classify.IsGlob); i >= 0 {
		return nil, fmt.Errorf("runLevelZero: %q: a namespaceSelector takes names only: name the namespaces one by one", p.RunLevelZero[i])
	}
	var exclusions []exclusion
	for _, r := range p.RunLevelExclusions(&inventory.Snapshot{}) {
		suffix := ""
		if r.Key == corev1.LabelMetadataName {
			suffix = "ByName"
		}
		exclusions = append(exclusions, exclusion{"guarded" + suffix, "own" + suffix, quoted(r.Key), quoted(r.Values)})
	}
	if len(exclusions) == 0 {
		return nil, errors.New("no namespace is on run level 0: set runLevelLabel or runLevelZero")
	}
	return fill("guard.yaml.tmpl", map[string]any{
		"Exclusions":     exclusions,
		"OptIn":          classify.OptInAnnotation,
		"Configurations": amongst("object.metadata.name", platform(p)),
		"Webhooks":       amongst("w.name", platform(p)),
	})
}

// platform are the names of what the policies leave alone.
func platform(p classify.Policy) []string {
	return slices.Concat(p.PlatformWebhooks, classify.StockNames())
}

// sensitive is a resource as the warnings compare it with rules: by lists of
// CEL, of which an empty one stands for anything.
type sensitive struct {
	Groups, Versions, Operations, Scopes, Resources string
}

// RegistrationWarnings writes the policy that warns of unapproved webhooks.
func RegistrationWarnings(p classify.Policy) ([]byte, error) {
	return fill("warnings.yaml.tmpl", map[string]any{
		"OptIn":          classify.OptInAnnotation,
		"Approval":       classify.ApprovalAnnotation,
		"ApprovalURL":    classify.ApprovalPattern,
		"Configurations": amongst("object.metadata.name", platform(p)),
		"Webhooks":       amongst("w.name", platform(p)),
		"CoreGroups":     lines(append([]string{"*"}, p.CoreGroups...)),
		"Sensitive":      sensitiveResources(p),
	})
}

// sensitiveResources are those for which the newest server calls webhooks.
func sensitiveResources(p classify.Policy) []sensitive {
	s := &inventory.Snapshot{ReviewsExcluded: true}
	var out []sensitive
	for _, r := range p.Classes[classify.ClassSensitive] {
		if !slices.Contains(admission.NeverSent(s, inventory.Ref{Type: inventory.Validating}), r.Parent()) {
			out = append(out, describe(r))
		}
	}
	return out
}

// describe says which rules cover a resource as the newest server serves it.
// Of one that is not built in, there is only its name.
func describe(r inventory.Resource) sensitive {
	var versions, operations, scopes []string
	for _, served := range inventory.Builtins(inventory.Newest, true) {
		if served.Resource != r {
			continue
		}
		versions = append(versions, served.Version)
		operations = append(operations, lists.Strings(admission.OperationsOn(served))...)
		scopes = []string{"Cluster"}
		if served.Namespaced {
			scopes = []string{"Namespaced"}
		}
	}
	return sensitive{
		quoted([]string{"*", r.Group}), wildcard(versions), wildcard(operations), wildcard(scopes), quoted(covering(r)),
	}
}

// wildcard writes the values that a rule may have, with the wildcard; of no
// values, nothing.
func wildcard(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return quoted(append([]string{"*"}, lists.Distinct(values)...))
}

// covering are all ways in which a rule can spell a resource.
func covering(r inventory.Resource) []string {
	if r.Subresource == "" {
		return []string{"*", "*/*", r.Name, r.Name + "/*"}
	}
	return []string{"*/*", "*/" + r.Subresource, r.Name + "/*", r.Path()}
}

// amongst writes the CEL expression that is true where one of the globs
// matches the name.
func amongst(name string, globs []string) string {
	names, terms := []string{}, []string(nil)
	for _, glob := range globs {
		if classify.IsGlob(glob) {
			terms = append(terms, fmt.Sprintf("%s.matches(%s)", name, quoted(pattern(glob))))
		} else {
			names = append(names, glob)
		}
	}
	if len(names) > 0 || len(terms) == 0 {
		terms = append([]string{fmt.Sprintf("%s in %s", name, lines(names))}, terms...)
	}
	return "(" + strings.Join(terms, " || ") + ")"
}

// pattern writes a glob, as path.Match knows it, as a regular expression.
func pattern(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			b.WriteString(".*") // names hold no slashes
		case '?':
			b.WriteString(".")
		case '[', ']', '^', '-': // a class is written alike
			b.WriteByte(c)
		case '\\':
			i++
			fallthrough
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	return "^" + b.String() + "$"
}

// quoted writes a value as CEL does: as JSON.
func quoted(v any) string {
	b, _ := text.JSON(v, "") // strings and lists of strings
	return strings.ReplaceAll(strings.TrimSpace(string(b)), `","`, `", "`)
}

// lines writes a long list on several lines.
func lines(values []string) string {
	var rows []string
	for row := range slices.Chunk(values, 4) {
		content := quoted(row)
		rows = append(rows, content[1:len(content)-1])
	}
	return "[" + strings.Join(rows, ",\n          ") + "]"
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
