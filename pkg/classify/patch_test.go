package classify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

// patchable are the checks whose fix is, or holds, a patch.
var patchable = []string{
	"blocks-auditor", "bootstrap-deadlock", "connect-intercepted", "control-plane-path", "conversion-unneeded", "delete-path", "equivalent-gap",
	"ineffective-selector", "long-timeout", "plaintext-to-url", "reinvocation-order", "review-version", "run-level-zero",
	"service-missing", "virtual-resource",
}

// command is a kubectl patch, as a shell reads it.
var command = regexp.MustCompile(`kubectl patch (\S+) (\S+) --type=(json|merge) -p '((?:[^']|'\\'')*)'`)

// TestPatches applies the patch that each finding of the fixtures comes with to
// the fixture, and looks again: the finding must be gone.
func TestPatches(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	patched := map[string]bool{}
	for _, file := range files {
		for _, f := range DefaultPolicy().Evaluate(fixture(t, file)).Findings {
			m := command.FindStringSubmatch(f.Fix)
			if m == nil {
				continue
			}
			patched[f.Check.Name] = true
			after := fixture(t, apply(t, file, m))
			for _, again := range DefaultPolicy().Evaluate(after).Findings {
				if again.Check == f.Check && again.Webhook == f.Webhook {
					t.Errorf("%s: %s on %s is still there after %s:\n%s", file, f.Check.Name, f.Webhook.Name, m[0], again.Message)
				}
			}
		}
	}
	for _, name := range patchable {
		if !patched[name] {
			t.Errorf("no fixture shows a patch of %s", name)
		}
	}
	for name := range patched {
		if !slices.Contains(patchable, name) {
			t.Errorf("%s comes with a patch, and is not listed", name)
		}
	}
}

// apply writes the file anew, with the command's patch on the object that it
// names.
func apply(t *testing.T, file string, command []string) string {
	t.Helper()
	kind, name, how, patch := command[1], command[2], command[3], strings.ReplaceAll(command[4], `'\''`, "'")
	text := source(t, file)
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "# server:") || strings.HasPrefix(line, "# routing:") {
			out = append(out, line)
		}
	}
	hit := false
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err == nil {
			err = json.Unmarshal(raw, &o)
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.Metadata.Name == name && (strings.EqualFold(o.Kind, kind) || kind == "crd" && o.Kind == "CustomResourceDefinition") {
			hit = true
			raw = patched(t, raw, how, patch)
		}
		out = append(out, "---", string(raw))
	}
	if !hit {
		t.Errorf("%s has no %s %s to patch", file, kind, name)
	}
	path := filepath.Join(t.TempDir(), "patched.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(out, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func patched(t *testing.T, object []byte, how, patch string) []byte {
	t.Helper()
	var out []byte
	var err error
	if how == "merge" {
		out, err = jsonpatch.MergePatch(object, []byte(patch))
	} else {
		var decoded jsonpatch.Patch
		if decoded, err = jsonpatch.DecodePatch([]byte(patch)); err == nil {
			out, err = decoded.Apply(object)
		}
	}
	if err != nil {
		t.Fatalf("applying %s: %v", patch, err)
	}
	return out
}
