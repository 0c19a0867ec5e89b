package inputs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestAdvice runs the commands that are printed of a fixture on an API server that has its
// objects: they can be run, and what they are printed for is gone. No object is gone but those
// that a command deletes by name, and its copy brings these back. ADVICE=1 does so with each
// fixture.
func TestAdvice(t *testing.T) {
	w := environment{compared.UseAlone(t)}
	step := number("ADVICE", 6)
	became := map[string]int{} // how many commands, by what became of them
	files := slices.Concat(testenv.Get(filepath.Glob(root+"pkg/classify/testdata/*.yaml"))(t), testenv.Get(filepath.Glob(root+"pkg/classify/testdata/outages/*.yaml"))(t))
	for i := 3 % step; i < len(files); i += step {
		t.Run(filepath.Base(files[i]), func(t *testing.T) {
			w.fillWhole(t, fixture(t, files[i]))
			defer w.empty(t)
			newAdvisor(t, w, became).follow(t)
		})
	}
	t.Log(became)
	for what, least := range map[string]int{"read": 120, "heal": 60, "delete": 40, "restore": 30, "have a placeholder": 60, "leave custom resources": 6} {
		if became[what] < least/step {
			t.Errorf("only %d commands %s", became[what], what)
		}
	}
}

var crds = dumpedResources[slices.IndexFunc(dumpedResources, func(r dumped) bool { return r.kind == "CustomResourceDefinition" })]

// fillWhole makes the objects, their namespaces first, and one of each custom resource.
func (w environment) fillWhole(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	var first, last []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetNamespace() != "" {
			namespace := &unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "Namespace"}}
			namespace.SetName(o.GetNamespace())
			last = append(last, namespace)
		}
	}
	first, last = append(first, objects...), append(last, objects...)
	intercepts := func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group == "admissionregistration.k8s.io"
	}
	first = slices.DeleteFunc(slices.Concat(first, last), intercepts)
	last = slices.DeleteFunc(last, func(o *unstructured.Unstructured) bool { return !intercepts(o) })
	testenv.Eventually(t, func() error { // those of before go with their objects
		if left := w.list(t, crds); len(left) > 0 {
			return fmt.Errorf("%s is there", left[0].GetName())
		}
		return nil
	})
	w.fill(t, first)
	w.settled(t)
	for _, crd := range testenv.Get(w.CRDs.ApiextensionsV1().CustomResourceDefinitions().List(t.Context(), metav1.ListOptions{}))(t).Items {
		for _, v := range crd.Spec.Versions {
			if !v.Storage || !v.Served {
				continue
			}
			o := &unstructured.Unstructured{Object: fields{"apiVersion": crd.Spec.Group + "/" + v.Name, "kind": crd.Spec.Names.Kind}}
			o.SetName("kept")
			r := schema.GroupVersionResource{Group: crd.Spec.Group, Version: v.Name, Resource: crd.Spec.Names.Plural}
			if _, err := w.client(dumped{r, crd.Spec.Names.Kind, crd.Spec.Scope == "Namespaced"}, "default").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
				t.Log(err)
			}
		}
	}
	w.fill(t, last)
}

// repairing are what commands do that repair.
var repairing = []string{"patch", "annotate", "apply"}

// advisor follows the advice about a cluster.
type advisor struct {
	environment
	dir    string
	env    []string
	became map[string]int
}

func newAdvisor(t *testing.T, w environment, became map[string]int) advisor {
	t.Helper()
	dir := t.TempDir()
	path := []string{testenv.Get(programs.ControlPlane())(t), filepath.Dir(testenv.Binary(t)), os.Getenv("PATH")}
	return advisor{w, dir, append(os.Environ(), "PATH="+strings.Join(path, string(filepath.ListSeparator)),
		"HOME="+dir, "KUBECONFIG="+w.Plane.Kubeconfig(), "KUBECACHEDIR="+w.Plane.Cache()), became}
}

// advice is a command, and what it is printed for: findings, or a configuration that it
// disables.
type advice struct {
	command string
	// verb is what it does in the end.
	verb     string
	findings []testenv.ReportedFinding
	disables testenv.ReportedWebhook
}

var (
	// aCommand matches what is for the shell in a sentence: up to a bracket or semicolon that
	// is not quoted.
	aCommand = regexp.MustCompile(`(?:echo '[^']*' \| )?(?:kubectl|webhook-auditor (?:audit|explain|impact|top))(?: (?:\\'|'[^']*'|"[^"]*"|[^\s;()'"])+)+`)
	aVerb    = regexp.MustCompile(`(?:kubectl|webhook-auditor)(?: rollout)? ([a-z]+)`)
	// toFillIn matches what a user fills in: no object has a name in capitals.
	toFillIn = regexp.MustCompile(`[ /='][A-Z][A-Z-]{3,}(?:[ /'-]|$)`)
	aCopy    = regexp.MustCompile(`> ([\w.-]+\.yaml) && kubectl (?:delete|patch) `)
	renewed  = regexp.MustCompile(`^/registry/(?:events|leases|masterleases|ranges)/`)
	// block matches what a page has for copying.
	block = regexp.MustCompile(`<code class="block" tabindex="0">((?:kubectl|echo|webhook-auditor) [^<]*)</code>`)
)

// follow runs first what reads and deletes, with the copies that bring back what is deleted,
// then what repairs.
func (a advisor) follow(t *testing.T) {
	t.Helper()
	all := a.gather(t)
	before := a.stored(t)
	var deletes, repairs []advice
	var restores []string
	for _, c := range all {
		switch {
		case toFillIn.MatchString(c.command):
			a.became["have a placeholder"]++
		case c.verb == "exec": // what stops
		case c.verb == "top" && a.became["measure"] > 0: // it takes 10 s
		case c.verb == "logs":
			a.became["need a node"]++
		case c.verb == "restart", c.verb == "status", c.verb == "scale":
			a.became["wait for a controller"]++
		case c.verb == "create", c.verb == "replace":
			restores = append(restores, c.command)
		case c.verb == "delete":
			deletes = append(deletes, c)
		case slices.Contains(repairing, c.verb):
			repairs = append(repairs, c)
		default:
			a.became["read"]++
			if c.verb == "top" {
				a.became["measure"]++
			}
			a.run(t, c.command)
		}
	}
	if now := a.stored(t); !slices.Equal(before, now) {
		t.Errorf("what reads changes objects: %s %s", missing(before, now), missing(now, before))
	}
	a.delete(t, deletes, restores)
	a.repair(t, repairs)
	for _, key := range a.stored(t) {
		if strings.HasSuffix(key, "/kept") {
			a.became["leave custom resources"]++
		}
	}
}

// delete runs commands that delete, and brings back what they have deleted as is printed.
func (a advisor) delete(t *testing.T, deletes []advice, restores []string) {
	t.Helper()
	before := a.stored(t)
	for _, c := range deletes {
		m := aCopy.FindStringSubmatch(c.command)
		if m == nil {
			t.Errorf("no copy: %s", c.command)
			continue
		}
		a.became["delete"]++
		a.run(t, c.command)
		now := a.stored(t)
		words := strings.FieldsFunc(c.command[strings.LastIndex(c.command, "kubectl delete"):], func(r rune) bool { return r == ' ' || r == '/' })
		for _, key := range missing(before, now) {
			if name := key[strings.LastIndexByte(key, '/')+1:]; !slices.Contains(words, name) || slices.Contains(words, "crd") {
				t.Errorf("%s deletes %s", c.command, key)
			}
		}
		a.healed(t, a.report(t), c)
		restore := "kubectl create -f " + m[1]
		if a.run(t, restore); slices.Contains(restores, restore) {
			a.became["restore"]++
		}
		if now := a.stored(t); !slices.Equal(before, now) {
			t.Fatalf("the copy of %s does not bring %s back", c.command, missing(before, now))
		}
	}
}

// repair runs commands that repair: those of a cluster one after the other, then what is
// printed of what is left.
func (a advisor) repair(t *testing.T, repairs []advice) {
	t.Helper()
	before := a.stored(t)
	var tried []advice
	for range 3 {
		for _, c := range repairs {
			if c.verb == "patch" && !aCopy.MatchString(c.command) {
				t.Errorf("no copy: %s", c.command)
			}
			a.became["heal"]++
			a.run(t, c.command)
		}
		tried = append(tried, repairs...)
		repairs = slices.DeleteFunc(a.gather(t), func(c advice) bool {
			again := slices.ContainsFunc(tried, func(was advice) bool { return was.command == c.command })
			return again || !slices.Contains(repairing, c.verb) || toFillIn.MatchString(c.command)
		})
		if len(repairs) == 0 {
			break
		}
	}
	document := a.report(t)
	for _, c := range tried {
		a.healed(t, document, c)
	}
	if gone := missing(before, a.stored(t)); len(gone) > 0 {
		t.Errorf("repairs delete %s", gone)
	}
}

// healed wants what a command is printed for to be gone, or accepted.
func (a advisor) healed(t *testing.T, document testenv.Document, c advice) {
	t.Helper()
	for _, f := range document.Findings {
		if !f.Acknowledged && slices.ContainsFunc(c.findings, func(was testenv.ReportedFinding) bool { return findingKey(was) == findingKey(f) }) {
			t.Errorf("%s on %s is there after %s:\n%s", f.Check, f.Name, c.command, f.Message)
		}
	}
	if slices.ContainsFunc(document.Webhooks, func(w testenv.ReportedWebhook) bool {
		return w.Type == c.disables.Type && w.Configuration == c.disables.Configuration
	}) {
		t.Errorf("the %s webhook of %s is there after %s", c.disables.Type, c.disables.Configuration, c.command)
	}
}

// gather are the commands in all that is printed of the cluster, in that order.
func (a advisor) gather(t *testing.T) []advice {
	t.Helper()
	var out []advice
	add := func(text string) []int {
		var at []int
		for _, command := range aCommand.FindAllString(text, -1) {
			i := slices.IndexFunc(out, func(c advice) bool { return c.command == command })
			if i < 0 {
				verbs := aVerb.FindAllStringSubmatch(command, -1)
				i, out = len(out), append(out, advice{command: command, verb: verbs[len(verbs)-1][1]})
			}
			at = append(at, i)
		}
		return at
	}
	document := a.report(t)
	for _, f := range document.Findings {
		for _, i := range add(f.Fix) {
			out[i].findings = append(out[i].findings, f)
		}
		add(f.Look)
	}
	for i, webhook := range document.Webhooks {
		if i > 0 && document.Webhooks[i-1].Configuration == webhook.Configuration {
			continue
		}
		var answer struct{ Cards []struct{ Commands []string } }
		kind := map[string]string{"validating": "validatingwebhookconfiguration", "mutating": "mutatingwebhookconfiguration", "conversion": "crd"}[webhook.Type]
		text := a.ask(t, "impact", kind, webhook.Configuration, "-o=json")
		testenv.Must(t, json.Unmarshal([]byte(text), &answer))
		for _, at := range add(answer.Cards[0].Commands[0]) {
			out[at].disables = webhook
		}
		for _, text := range leaves(text) {
			add(text)
		}
	}
	for _, text := range leaves(a.ask(t, "explain", "create", "pods", "-n", "default", "--offline", "-o=json")) {
		add(text)
	}
	for _, m := range block.FindAllStringSubmatch(a.ask(t, "audit", "--fail-on=never", "-o=html"), -1) {
		command, known := html.UnescapeString(m[1]), len(out)
		if add(command); len(out) > known {
			t.Errorf("only HTML has the command %s", command)
		}
	}
	return out
}

func leaves(document string) []string {
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case fields:
			for _, e := range v {
				walk(e)
			}
		}
	}
	var v any
	if json.Unmarshal([]byte(document), &v) == nil {
		walk(v)
	}
	return out
}

func (a advisor) ask(t *testing.T, args ...string) string {
	t.Helper()
	return testenv.Command(t, append(args, "--kubeconfig="+a.Plane.Kubeconfig())...).Stdout
}

func (a advisor) report(t *testing.T) testenv.Document {
	t.Helper()
	document, _ := testenv.Report(t, "--fail-on=never", "--kubeconfig="+a.Plane.Kubeconfig())
	return document
}

func (a advisor) run(t *testing.T, command string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env = a.dir, a.env
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if strings.HasPrefix(command, "webhook-auditor ") && slices.Contains([]int{1, 3}, cmd.ProcessState.ExitCode()) {
		return // it answers, of what can be read
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, &output)
	}
}

// stored are the keys of all objects in etcd, but for those that the API server renews.
func (a advisor) stored(t *testing.T) []string {
	t.Helper()
	keys := testenv.Get(a.Plane.Keys("/registry/"))(t)
	return slices.DeleteFunc(keys, func(key string) bool { return renewed.MatchString(key) })
}

// missing are those of a list that the other lacks.
func missing(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(key string) bool { return slices.Contains(other, key) })
}
