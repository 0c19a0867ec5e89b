package classify

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// changing matches the commands of a fix that change a webhook's object.
var changing = regexp.MustCompile(`kubectl (patch|annotate|delete|apply) `)

var (
	patchCommand    = regexp.MustCompile(`kubectl patch (\S+) (\S+) --type=(json|merge) -p '((?:[^']|'"'"')*)'`)
	annotateCommand = regexp.MustCompile(`kubectl annotate (?:--overwrite )?(\S+) (\S+) ([^\s=;]+?)(-|=(?:'([^']*)'|([^\s;']*)))(?:;| |$)`)
	applyCommand    = regexp.MustCompile(`echo '([^']*)' \| kubectl apply -f -`)
	deleteCommand   = regexp.MustCompile(`kubectl delete ([^\s/]+)[ /]([^\s;]+)`)
)

// change is one command of a fix: what it makes of which object.
type change struct {
	command, kind, name string
	// added is an object that was not there before; where it is set, nothing else is.
	added string
	// edit returns the object as it is afterwards, nil where it is gone.
	edit func(object []byte) ([]byte, error)
}

// changes reads the commands of a fix as a shell would.
func changes(fix string) []change {
	var out []change
	for _, m := range patchCommand.FindAllStringSubmatch(fix, -1) {
		patch := []byte(strings.ReplaceAll(m[4], `'"'"'`, "'"))
		if m[3] == "merge" {
			out = append(out, change{command: m[0], kind: m[1], name: m[2], edit: merged(patch)})
			continue
		}
		out = append(out, change{command: m[0], kind: m[1], name: m[2], edit: func(object []byte) ([]byte, error) {
			decoded, err := jsonpatch.DecodePatch(patch)
			if err != nil {
				return nil, err
			}
			return decoded.Apply(object)
		}})
	}
	for _, m := range annotateCommand.FindAllStringSubmatch(fix, -1) {
		var value any
		if m[4] != "-" {
			value = strings.NewReplacer("URL-OF-THE-PULL-REQUEST", "https://example.com/pull/1").Replace(m[5] + m[6])
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{m[3]: value}}})
		if err != nil {
			panic(err) // strings and nil
		}
		out = append(out, change{command: m[0], kind: m[1], name: m[2], edit: merged(patch)})
	}
	for _, m := range applyCommand.FindAllStringSubmatch(fix, -1) {
		out = append(out, change{command: m[0], added: m[1]})
	}
	for _, m := range deleteCommand.FindAllStringSubmatch(fix, -1) {
		out = append(out, change{command: m[0], kind: m[1], name: m[2], edit: func([]byte) ([]byte, error) { return nil, nil }})
	}
	return out
}

func merged(patch []byte) func([]byte) ([]byte, error) {
	return func(object []byte) ([]byte, error) { return jsonpatch.MergePatch(object, patch) }
}

// copyCommand keeps an object before a change: two changes must not keep theirs in one file, the
// second would keep the object that the first one made.
var copyCommand = regexp.MustCompile(`raw\.yaml > (\S+) && (kubectl \w+ [^']*(?:'[^']*')?)`)

// TestFixes applies each command that a finding of a fixture comes with to the
// fixture, and looks again: the finding must be gone, or acknowledged, nothing
// above info may have come, and no request may be refused that was not before.
func TestFixes(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("testdata/*.yaml"))(t)
	stories := must.Get(filepath.Glob("testdata/outages/*.yaml"))(t)
	applied := map[string]bool{}
	for _, file := range slices.Concat(files, stories) {
		unchanged := reportOn(t, file)
		before, refused := unchanged.Findings, refusedBy(unchanged.Snapshot)
		kept := map[string]string{}
		for _, f := range before {
			for _, m := range copyCommand.FindAllStringSubmatch(f.Fix, -1) {
				if other, isKept := kept[m[1]]; isKept && other != m[2] {
					t.Errorf("%s: %s is the copy before two changes: %s and %s", file, m[1], other, m[2])
				}
				kept[m[1]] = m[2]
			}
			commands := changes(f.Fix)
			if n := len(changing.FindAllString(f.Fix, -1)); n != len(commands) {
				t.Errorf("%s: %s: %d of %d commands are understood: %s", file, f.Check.Name, len(commands), n, f.Fix)
			}
			for _, c := range commands {
				applied[f.Check.Name] = true
				changed := reportOn(t, apply(t, file, c))
				for request := range refusedBy(changed.Snapshot) {
					if !refused[request] {
						t.Errorf("%s: %s: after %s is refused: %s", file, f.Check.Name, c.command, request)
					}
				}
				for _, again := range changed.Findings {
					switch {
					case sameFinding(again, f) && !again.Acknowledged:
						t.Errorf("%s: %s on %s is still there after %s:\n%s", file, f.Check.Name, f.Webhook.Name, c.command, again.Message)
					case again.Severity > Info && !slices.ContainsFunc(before, func(b *Finding) bool { return sameFinding(again, b) }):
						t.Errorf("%s: %s on %s came with %s:\n%s", file, again.Check.Name, again.Webhook.Name, c.command, again.Message)
					}
				}
			}
		}
	}
	for _, c := range Checks {
		file := "testdata/" + c.Name + ".yaml"
		switch why := header(source(t, file), "no command"); {
		case why == "" && !applied[c.Name]:
			t.Errorf("%s: no Fix has a command: give it one, or say why not in %s: # no command: REASON", c.Name, file)
		case why != "" && applied[c.Name]:
			t.Errorf("%s: a Fix has a command: remove \"# no command\" from %s", c.Name, file)
		}
	}
}

// TestFixesInARow: of all patches of a fixture, one after the other, as --fixes prints them, each heals
// what it is for, or fails: none undoes one before it.
func TestFixesInARow(t *testing.T) {
	t.Parallel()
	files := slices.Concat(must.Get(filepath.Glob("testdata/*.yaml"))(t), must.Get(filepath.Glob("testdata/outages/*.yaml"))(t))
	healed, failed := 0, 0
	for _, file := range files {
		patched, healing := file, []*Finding{}
		for _, f := range reportOn(t, file).Findings {
			commands := changes(f.Fix)
			if len(commands) != 1 || !strings.HasPrefix(commands[0].command, "kubectl patch") {
				continue
			}
			c, edit := commands[0], commands[0].edit
			var err error
			c.edit = func(object []byte) ([]byte, error) {
				var edited []byte
				if edited, err = edit(object); err != nil {
					return object, nil
				}
				return edited, nil
			}
			if patched = apply(t, patched, c); err != nil {
				failed++
				continue
			}
			healing = append(healing, f)
		}
		healed += len(healing)
		for _, f := range reportOn(t, patched).Findings {
			isHealed := func(before *Finding) bool { return sameFinding(before, f) && !f.Acknowledged }
			if slices.ContainsFunc(healing, isHealed) {
				t.Errorf("%s: %s on %s is there after all:\n%s", file, f.Check.Name, f.Webhook.Name, f.Fix)
			}
		}
	}
	if healed < 100 || failed > 10 {
		t.Errorf("%d patches heal, %d fail", healed, failed)
	}
}

// refusedBy are the requests that a matchCondition refuses by its failure, of
// those that could be made where system and others live.
func refusedBy(s *inventory.Snapshot) map[string]bool {
	m, out := admission.New(s), map[string]bool{}
	for i := range s.Webhooks {
		w := s.Webhooks[i]
		if len(w.MatchConditions) == 0 {
			continue
		}
		for _, served := range s.Served {
			for _, op := range admission.OperationsOn(served) {
				for _, namespace := range []string{"kube-system", "default"} {
					if m.Intercepts(w, served.Resource, op, namespace).Refused {
						out[fmt.Sprintf("%s of %s in %s by %s", op, served.Resource, namespace, w.Name)] = true
					}
				}
			}
		}
	}
	return out
}

func sameFinding(a, b *Finding) bool { return a.Check == b.Check && a.Webhook == b.Webhook }

// apply writes the file anew, with the change made to the object that it names.
func apply(t *testing.T, file string, c change) string {
	t.Helper()
	var out []string
	hit := false
	for document := range strings.SplitSeq(source(t, file), "\n---\n") {
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
		for line := range strings.SplitSeq(document, "\n") {
			if settings.MatchString(line) {
				out = append(out, line)
			}
		}
		if o.Metadata.Name == c.name && (strings.EqualFold(o.Kind, c.kind) || c.kind == "crd" && o.Kind == "CustomResourceDefinition") {
			hit = true
			if raw, err = c.edit(defaulted(t, raw)); err != nil {
				t.Fatalf("%s: %v", c.command, err)
			}
		}
		if raw != nil {
			out = append(out, "---", string(raw))
		}
	}
	if c.added != "" {
		out = append(out, "---", c.added)
	} else if !hit {
		t.Errorf("%s has no object for %s", file, c.command)
	}
	all := strings.Join(out, "\n")
	out = slices.DeleteFunc(out, func(line string) bool { // the backend of a deleted webhook is not dialed
		m := probed.FindStringSubmatch(line)
		return m != nil && !strings.Contains(all, `"name":"`+m[1]+`"`)
	})
	return must.File(t, "changed.yaml", strings.Join(out, "\n")+"\n")
}

// defaulted is a configuration with the selectors that API servers give its webhooks.
func defaulted(t *testing.T, raw []byte) []byte {
	t.Helper()
	var o map[string]any
	must.Succeed(t, json.Unmarshal(raw, &o))
	webhooks, _ := o["webhooks"].([]any)
	for _, w := range webhooks {
		if w, isObject := w.(map[string]any); isObject && w["namespaceSelector"] == nil {
			w["namespaceSelector"] = map[string]any{}
		}
	}
	return must.Get(json.Marshal(o))(t)
}

var probed = regexp.MustCompile(`^# probe: (\S+) `)

// settings are the comments by which a fixture says what no manifest does.
var settings = regexp.MustCompile(`^# (as|server|routing|policy|probe|called-last-week): `)

// TestOwners: a patch of an object that a tool manages says that it will be
// reverted, and where to make the change instead.
func TestOwners(t *testing.T) {
	controller := true
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want string
	}{
		"no tool":  {metav1.ObjectMeta{}, ""},
		"helm":     {metav1.ObjectMeta{Annotations: map[string]string{"meta.helm.sh/release-name": "scanner"}}, "the next helm upgrade reverts that: change the values or templates of release scanner"},
		"olm":      {metav1.ObjectMeta{Labels: map[string]string{"olm.owner": "scanner.v1.2.3"}}, "OLM reverts that: change the ClusterServiceVersion scanner.v1.2.3"},
		"argocd":   {metav1.ObjectMeta{Labels: map[string]string{"argocd.argoproj.io/instance": "security"}}, "Argo CD reverts that: change the source of application security"},
		"flux":     {metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps"}}, "Flux reverts that: change the source of apps"},
		"operator": {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Scanner", Name: "main", Controller: &controller}}}, "Scanner/main owns the object and reverts that: change it there"},
	} {
		t.Run(name, func(t *testing.T) {
			seconds := int32(30)
			c.meta.Name = "scan"
			o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{{
				ObjectMeta: c.meta,
				Webhooks:   []admissionv1.ValidatingWebhook{{Name: "scan.example.com", TimeoutSeconds: &seconds}},
			}}}
			findings := evaluate(t, DefaultPolicy(), o.Snapshot(taken)).Findings
			if len(findings) != 1 || findings[0].Check != longTimeout {
				t.Fatalf("want one long-timeout, got %v", findings)
			}
			_, note, _ := strings.Cut(findings[0].Fix, "]'")
			if !strings.Contains(note, c.want) || c.want == "" && note != "" {
				t.Errorf("after the patch: %q, want %q", note, c.want)
			}
		})
	}
}
