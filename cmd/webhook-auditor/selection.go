package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

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

// resourceType resolves a resource as kubectl takes it: singular or plural, with
// or without its group.
func resourceType(name string) (inventory.Type, bool) {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	if plural, ok := strings.CutSuffix(name, "policies"); ok {
		name = plural + "policy"
	}
	t, ok := resourceTypes[strings.TrimSuffix(name, "s")]
	return t, ok
}

// target is what an argument narrows the report to.
type target struct {
	// ref has no Configuration where the target is all webhooks of a type, and no
	// Name where it is all webhooks of a configuration.
	ref inventory.Ref
}

// String writes the target as TYPE/NAME[/WEBHOOK].
func (t target) String() string {
	out := resourceOf(t.ref.Type) + "/" + t.ref.Configuration
	if t.ref.Name != "" {
		out += "/" + t.ref.Name
	}
	return out
}

// resourceOf is the resource that registers webhooks of a type, as TYPE takes it.
func resourceOf(t inventory.Type) string {
	switch t {
	case inventory.Mutating:
		return "mutatingwebhookconfiguration"
	case inventory.Validating:
		return "validatingwebhookconfiguration"
	case inventory.MutatingPolicy:
		return "mutatingadmissionpolicy"
	case inventory.ValidatingPolicy:
		return "validatingadmissionpolicy"
	}
	return "crd"
}

// parseTarget reads TYPE/NAME[/WEBHOOK].
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
	return target{ref}, true
}

// resourceTypesOf resolves TYPE[,TYPE], as kubectl get takes it.
func resourceTypesOf(arg string) ([]target, bool) {
	var out []target
	for name := range strings.SplitSeq(arg, ",") {
		t, ok := resourceType(name)
		if !ok {
			return nil, false
		}
		out = append(out, target{inventory.Ref{Type: t}})
	}
	return out, true
}

// splitTargets separates TYPE/NAME, TYPE and TYPE NAME from PATH; a file that
// exists is a PATH.
func splitTargets(args []string) (targets []target, paths []string) {
	var types []target // of the last TYPE, which names may follow
	named := false
	for _, arg := range args {
		t, isTarget := parseTarget(arg)
		of, isType := resourceTypesOf(arg)
		switch {
		case arg == "-" || exists(arg):
			paths = append(paths, arg)
		case isTarget:
			targets = append(targets, t)
		case isType:
			if !named {
				targets = append(targets, types...)
			}
			types, named = of, false
		case len(types) > 0 && !strings.Contains(arg, "/"):
			named = true
			for _, t := range types {
				t.ref.Configuration = arg
				targets = append(targets, t)
			}
		default:
			paths = append(paths, arg)
		}
	}
	if !named {
		targets = append(targets, types...)
	}
	return targets, paths
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (t target) selects(w report.Webhook) bool {
	return w.Type == t.ref.Type && (t.ref.Configuration == "" || t.ref.Configuration == w.Configuration) && (t.ref.Name == "" || t.ref.Name == w.Name)
}

// namespaceFlags narrow to the webhooks whose Service is in a namespace. All
// namespaces are the default, which users of kubectl write as -A.
type namespaceFlags struct {
	name string
	all  bool
}

// register adds the flags; verb completes their help.
func (n *namespaceFlags) register(flags *pflag.FlagSet, verb string) {
	flags.StringVarP(&n.name, "namespace", "n", "", verb+" only webhooks whose Service is in this namespace")
	flags.BoolVarP(&n.all, "all-namespaces", "A", false, verb+" webhooks whose Service is in any namespace (default); wins over --namespace")
}

// selected is the namespace, empty for all.
func (n *namespaceFlags) selected() string {
	if n.all {
		return ""
	}
	return n.name
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

// check refuses targets that the input does not have. A namespace without webhooks
// is no error, as for kubectl get, but a notice.
func (s selection) check(d report.Document, notices io.Writer) error {
	registered := d.Registered()
	for _, t := range s.targets {
		switch {
		case t.ref.Configuration == "" || slices.ContainsFunc(registered, t.selects):
		case t.ref.Type.IsPolicy():
			return fmt.Errorf("no %s found%s", t, suggested(t.similar(registered)))
		default:
			return fmt.Errorf("no webhook of %s found%s", t, suggested(t.similar(registered)))
		}
	}
	namespaces := serviceNamespaces(d.Webhooks)
	if s.namespace != "" && !slices.Contains(namespaces, s.namespace) {
		complain(notices, "no webhook has its Service in namespace %s%s", s.namespace, suggested(suggestions(s.namespace, namespaces)))
	}
	return nil
}

// similar are the targets of the input that look like this one: webhooks of its
// configuration, else configurations of any type.
func (t target) similar(webhooks []report.Webhook) []string {
	configuration := target{inventory.Ref{Type: t.ref.Type, Configuration: t.ref.Configuration}}
	isKnown := slices.ContainsFunc(webhooks, configuration.selects)
	byName := map[string][]string{}
	for _, w := range webhooks {
		name, found := w.Configuration, target{inventory.Ref{Type: w.Type, Configuration: w.Configuration}}
		switch {
		case isKnown && !configuration.selects(w):
			continue
		case isKnown:
			name, found.ref.Name = w.Name, w.Name
		}
		if !slices.Contains(byName[name], found.String()) {
			byName[name] = append(byName[name], found.String())
		}
	}
	typed := t.ref.Configuration
	if isKnown {
		typed = t.ref.Name
	}
	var out []string
	for _, name := range suggestions(typed, slices.Sorted(maps.Keys(byName))) {
		out = append(out, byName[name]...)
	}
	return out[:min(len(out), maxSuggested)]
}

// serviceNamespaces are those of the Services of the webhooks, sorted.
func serviceNamespaces(webhooks []report.Webhook) []string {
	var out []string
	for _, w := range webhooks {
		if w.Backend.Service != nil {
			out = append(out, w.Backend.Service.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maybeTarget explains a path that does not exist and that looks like no file: it
// may be meant as TYPE/NAME.
func maybeTarget(path string) string {
	if exists(path) || path == "-" || strings.HasPrefix(path, ".") || strings.HasPrefix(path, "/") || slices.Contains(fileEndings, filepath.Ext(path)) {
		return ""
	}
	name := path[strings.LastIndex(path, "/")+1:]
	return fmt.Sprintf("; if it is a configuration: TYPE/NAME, as validatingwebhookconfiguration/%s, mutatingwebhookconfiguration/%[1]s or crd/%[1]s", name)
}

// fileEndings are those of files that audit reads.
var fileEndings = []string{".yaml", ".yml", ".json", ".tar", ".gz", ".tgz"}
