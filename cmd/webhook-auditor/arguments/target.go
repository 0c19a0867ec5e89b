// Package arguments reads the words of a command line: webhooks as TYPE/NAME, resources and
// operations as kubectl takes them, and what a user may have meant instead.
package arguments

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// resourceTypes are the resources that register webhooks, and policies, in the singular as
// kubectl prints them.
var resourceTypes = map[string]inventory.Type{
	"mutatingwebhookconfiguration":   inventory.Mutating,
	"validatingwebhookconfiguration": inventory.Validating,
	"customresourcedefinition":       inventory.Conversion,
	"crd":                            inventory.Conversion,
	"mutatingadmissionpolicy":        inventory.MutatingPolicy,
	"validatingadmissionpolicy":      inventory.ValidatingPolicy,
}

func ResourceTypes() []string { return slices.Sorted(maps.Keys(resourceTypes)) }

// ResourceType resolves a resource as kubectl takes it: singular or plural, with
// or without its group.
func ResourceType(name string) (inventory.Type, bool) {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	if plural, ok := strings.CutSuffix(name, "policies"); ok {
		name = plural + "policy"
	}
	t, ok := resourceTypes[strings.TrimSuffix(name, "s")]
	return t, ok
}

// Target is what an argument narrows the report to.
type Target struct {
	// Ref has no Configuration where the target is all webhooks of a type, and no
	// Name where it is all webhooks of a configuration.
	inventory.Ref
}

func (t Target) String() string {
	out := ResourceOf(t.Type) + "/" + t.Configuration
	if t.Name != "" {
		out += "/" + t.Name
	}
	return out
}

// ResourceOf is the resource that registers webhooks of a type, as TYPE takes it.
func ResourceOf(t inventory.Type) string {
	if t == inventory.Conversion {
		return "crd"
	}
	return strings.ToLower(t.RegisteredBy().Kind)
}

// ParseTarget reads TYPE/NAME[/WEBHOOK].
func ParseTarget(arg string) (Target, bool) {
	parts := strings.SplitN(arg, "/", 3)
	if len(parts) < 2 || parts[1] == "" {
		return Target{}, false
	}
	t, ok := ResourceType(parts[0])
	if !ok {
		return Target{}, false
	}
	ref := inventory.Ref{Type: t, Configuration: parts[1]}
	if len(parts) == 3 {
		ref.Name = parts[2]
	}
	return Target{ref}, true
}

// SplitTargets separates TYPE/NAME, TYPE and TYPE NAME from PATH; a file that
// exists is a PATH.
func SplitTargets(args []string) (targets []Target, paths []string) {
	var last *Target // the last TYPE, which names may follow
	named := true
	for _, arg := range args {
		t, isTarget := ParseTarget(arg)
		webhookType, isType := ResourceType(arg)
		switch {
		case arg == "-" || Exists(arg):
			paths = append(paths, arg)
		case isTarget:
			targets = append(targets, t)
		case isType:
			if !named {
				targets = append(targets, *last)
			}
			last, named = &Target{inventory.Ref{Type: webhookType}}, false
		case last != nil && !strings.Contains(arg, "/"):
			named = true
			targets = append(targets, Target{inventory.Ref{Type: last.Type, Configuration: arg}})
		default:
			paths = append(paths, arg)
		}
	}
	if !named {
		targets = append(targets, *last)
	}
	return targets, paths
}

func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (t Target) Selects(w report.Webhook) bool {
	return w.Type == t.Type && (t.Configuration == "" || t.Configuration == w.Configuration) &&
		(t.Name == "" || t.Name == w.Name)
}

// Similar are the targets of the input that look like this one: webhooks of its
// configuration, else configurations of any type.
func (t Target) Similar(webhooks []report.Webhook) []string {
	configuration := Target{t.WithoutName()}
	isKnown, typed := slices.ContainsFunc(webhooks, configuration.Selects), t.Configuration
	if isKnown {
		typed = t.Name
	}
	byName := map[string][]string{}
	for _, w := range webhooks {
		name, found := w.Configuration, Target{w.WithoutName()}
		if isKnown {
			name, found = w.Name, Target{w.Ref}
		}
		if (!isKnown || configuration.Selects(w)) && !slices.Contains(byName[name], found.String()) {
			byName[name] = append(byName[name], found.String())
		}
	}
	var out []string
	for _, name := range Like(typed, slices.Sorted(maps.Keys(byName))) {
		out = append(out, byName[name]...)
	}
	return out[:min(len(out), maxSuggested)]
}

// MaybeTarget explains a path that does not exist and that looks like no file: it
// may be meant as TYPE/NAME.
func MaybeTarget(path string) string {
	if Exists(path) || path == "-" || strings.HasPrefix(path, ".") || strings.HasPrefix(path, "/") ||
		slices.Contains(fileEndings, filepath.Ext(path)) {
		return ""
	}
	name := path[strings.LastIndex(path, "/")+1:]
	return fmt.Sprintf("; if it is a configuration: TYPE/NAME, as validatingwebhookconfiguration/%s, mutatingwebhookconfiguration/%[1]s or crd/%[1]s", name)
}

var fileEndings = []string{".yaml", ".yml", ".json", ".tar", ".gz", ".tgz"}

const maxSuggested = 5

// Like are the names that look like what was typed, or contain it; all of
// them where they are few and none does.
func Like(typed string, names []string) []string {
	near := text.Similar(typed, names, maxSuggested)
	if len(near) == 0 && len(names) <= maxSuggested {
		return names
	}
	return near
}

// similar returns the names of resources that look like the typed one, the
// nearest first.
func (n resourceNames) similar(typed string) []string {
	name, group, _ := strings.Cut(typed, ".")
	byName, names := map[string][]string{}, []string(nil)
	for _, r := range n.parents {
		if group != "" && len(text.Similar(group, []string{r.Group}, 1)) == 0 &&
			!slices.Contains(n.byName[strings.ToLower(name)], r) {
			continue // another resource altogether
		}
		if byName[r.Name] == nil {
			names = append(names, r.Name)
		}
		byName[r.Name] = append(byName[r.Name], r.String())
	}
	var out []string
	for _, near := range text.Similar(name, names, maxSuggested) {
		out = append(out, byName[near]...)
	}
	return out[:min(len(out), maxSuggested)]
}

// Suggested completes an error by what the user may have meant.
func Suggested(candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(candidates, ", ") + "?"
}
