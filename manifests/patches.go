package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// LastApplied is the annotation in which "kubectl apply" keeps what it applied.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// patched is a configuration and the selectors that its webhooks lack.
type patched struct {
	object    inventory.Object
	webhooks  []string
	selectors map[string]*metav1.LabelSelector
}

// RunLevelPatches writes what "kubectl apply" takes to give webhooks that were
// registered before the run-level guard what the guard would give them; nothing
// where none lacks it. Applied is what a configuration was last applied as,
// "" if never: what was applied before and is left out now would be deleted.
func RunLevelPatches(profiles []classify.Profile, applied func(inventory.Object) string) ([]byte, error) {
	var b bytes.Buffer
	for i, p := range lacking(profiles) {
		document, err := p.document(applied(p.object))
		if err != nil {
			return nil, fmt.Errorf("patching %s %s: %w", p.object.Kind, p.object.Name, err)
		}
		text, err := yaml.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("patching %s %s: %w", p.object.Kind, p.object.Name, err)
		}
		if i == 0 {
			b.WriteString("# Keeps webhooks off run level 0 that were registered before the run-level guard:\n" +
				"# webhook-auditor print run-level-patches | kubectl apply -f -\n")
		} else {
			b.WriteString("---\n")
		}
		if owner := p.object.Owner.String(); owner != "" {
			line := strings.Join(strings.Fields(owner), " ") // it comes out of a label, and must not leave the comment
			fmt.Fprintf(&b, "# Without the guard, %s takes this out again: change it there.\n", line)
		}
		b.Write(text)
	}
	return b.Bytes(), nil
}

// lacking collects the webhooks that need a patch, by configuration and in the
// order in which the API server calls them.
func lacking(profiles []classify.Profile) []patched {
	var out []patched
	for _, p := range profiles {
		selector := p.RunLevelSelector()
		if selector == nil {
			continue
		}
		if n := len(out); n == 0 || out[n-1].object.Kind != p.Object.Kind || out[n-1].object.Name != p.Object.Name {
			out = append(out, patched{object: p.Object, selectors: map[string]*metav1.LabelSelector{}})
		}
		last := &out[len(out)-1]
		last.webhooks = append(last.webhooks, p.Name)
		last.selectors[p.Name] = selector
	}
	return out
}

// document is the configuration as it was last applied, or its mere name, with
// the selectors.
func (p patched) document(applied string) (map[string]any, error) {
	document := map[string]any{"metadata": map[string]any{"name": p.object.Name}}
	if applied != "" {
		if err := json.Unmarshal([]byte(applied), &document); err != nil {
			return nil, fmt.Errorf("reading the annotation %s: %w", LastApplied, err)
		}
	}
	document["apiVersion"], document["kind"] = "admissionregistration.k8s.io/v1", p.object.Kind
	webhooks, _ := document["webhooks"].([]any)
	for _, name := range p.webhooks {
		webhook := named(webhooks, name)
		if webhook == nil {
			webhook = map[string]any{"name": name}
			webhooks = append(webhooks, webhook)
		}
		webhook["namespaceSelector"] = p.selectors[name]
	}
	document["webhooks"] = webhooks
	return document, nil
}

// named finds the webhook of the name, nil for none.
func named(webhooks []any, name string) map[string]any {
	for _, w := range webhooks {
		if webhook, ok := w.(map[string]any); ok && webhook["name"] == name {
			return webhook
		}
	}
	return nil
}
