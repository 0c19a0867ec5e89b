package classify

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// hostileNames are what manifests may call their objects. Redirections are
// built into every shell: no program has to be on PATH.
var hostileNames = []string{
	"x; : >INJECTED #$(: >INJECTED)`: >INJECTED` & : >INJECTED & y | z >INJECTED",
	"'; : >INJECTED; '",
	`\"; : >INJECTED; "\'; : >INJECTED #`,
	"x\n: >INJECTED\nkubectl delete namespaces --all\n",
	"x' kubectl delete namespaces --all; : 'y kubectl delete namespaces --all",
	"--all",
}

// TestFixesInShell runs each fix through a shell, as a whole and from each of
// its commands on: what is called, with which flags, is what is called for
// names that the API server accepts, and nothing else happens. Each fix is run with one
// of the names.
func TestFixesInShell(t *testing.T) {
	t.Parallel()
	harmless := fixesOf(t, must.Get(filepath.Glob("testdata/*.yaml"))(t), "x")
	parts := make([][]string, len(hostileNames))
	shown := map[string]bool{}
	for i, key := range slices.Sorted(maps.Keys(harmless)) {
		parts[i%len(parts)] = append(parts[i%len(parts)], key)
		shown[strings.Fields(key)[0]] = true
	}
	for i, name := range hostileNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runFixes(t, harmless, parts[i], name)
		})
	}
	for _, c := range Checks {
		if !shown[c.Name] {
			t.Errorf("no fix of %s was run", c.Name)
		}
	}
}

func runFixes(t *testing.T, harmless map[string]shownFix, keys []string, name string) {
	s := newStub(t)
	var files []string
	for _, key := range keys {
		files = append(files, harmless[key].file)
	}
	slices.Sort(files)
	hostile := fixesOf(t, slices.Compact(files), name)
	for _, key := range keys {
		harmless, hostile := harmless[key].text, hostile[key].text
		if hostile == "" && strings.HasPrefix(key, "bundle-conflict ") {
			continue // the API server refuses it, and the fix has no command
		}
		want, got := copied(harmless), copied(hostile)
		if len(want) != len(got) || strings.ContainsAny(hostile, "\n\r") {
			t.Errorf("%s: want one line with %d commands, as in %q, not:\n%s", key, len(want)-1, harmless, hostile)
			continue
		}
		for i := range want {
			if wanted, ran := s.run(t, want[i]), s.run(t, got[i]); !slices.Equal(wanted, ran) {
				t.Errorf("%s: %s\nruns %q, with a harmless name %q", key, got[i], ran, wanted)
			}
		}
	}
}

var (
	unquoted = regexp.MustCompile(`'[^']*'|"[^"]*"|((?:kubectl|webhook-auditor explain) )`)
	bracket  = regexp.MustCompile(`^(?:'[^']*'|"[^"]*"|[^)'"])*`)
)

// copied is what users may copy of a fix: all of it, or a command with what
// follows in its brackets.
func copied(fix string) []string {
	out := []string{fix}
	for _, at := range unquoted.FindAllStringSubmatchIndex(fix, -1) {
		if at[2] >= 0 {
			out = append(out, bracket.FindString(fix[at[0]:]))
		}
	}
	return out
}

// stub is a folder with a kubectl that writes down how it was called.
type stub struct{ bin, work string }

func newStub(t *testing.T) stub {
	t.Helper()
	s := stub{bin: t.TempDir(), work: t.TempDir()}
	script := "#!/bin/sh\n{ printf 'CALL %s\\n' \"$0\"; for a in \"$@\"; do printf 'ARG %s\\n' \"$a\"; done; } >>\"$CALLS\"\necho strategy: Webhook\n"
	must.Succeed(t, os.Symlink(must.Get(exec.LookPath("grep"))(t), filepath.Join(s.bin, "grep")))
	for _, name := range []string{"kubectl", "webhook-auditor"} {
		must.Succeed(t, os.WriteFile(filepath.Join(s.bin, name), []byte(script), 0o700))
	}
	return s
}

// backups are the files that commands write, whatever the object is called.
var backups = regexp.MustCompile(`^(?:raw|[a-z]+-[a-zA-Z0-9._-]*)\.yaml$`)

// run returns which programs the commands call, each with its verb and flags.
func (s stub) run(t *testing.T, commands string) []string {
	t.Helper()
	calls := filepath.Join(s.bin, "calls")
	must.Write(t, calls, "")
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", commands)
	shell.Dir, shell.Env = s.work, []string{"PATH=" + s.bin, "CALLS=" + calls}
	// What follows a command is prose, which the shell does not find.
	_ = shell.Run()
	for _, e := range entries(t, s.work) {
		if !backups.MatchString(e) {
			t.Errorf("%s\nmade the file %s", commands, e)
			must.Succeed(t, os.Remove(filepath.Join(s.work, e)))
		}
	}
	b := must.Get(os.ReadFile(calls))(t)
	return callsOf(string(b))
}

// callsOf reads what the stub wrote down: the verb and the flags of each call.
func callsOf(calls string) []string {
	var out []string
	value := false
	for line := range strings.Lines(calls) {
		arg, isArg := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "ARG ")
		switch {
		case !isArg:
			out = append(out, filepath.Base(arg))
		case value:
		case strings.HasPrefix(arg, "-n="):
			out = append(out, "-n")
		case strings.HasPrefix(arg, "-"):
			out = append(out, arg)
		}
		value = arg == "-n" || arg == "-p"
	}
	return out
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	found := must.Get(os.ReadDir(dir))(t)
	var out []string
	for _, e := range found {
		out = append(out, e.Name())
	}
	return out
}

// A shownFix is a fix, and the fixture that shows it.
type shownFix struct{ file, text string }

// fixesOf returns the fixes that fixtures show where their objects have such names: of
// each check one for each owner and number of commands, of its own fixture if that has it.
func fixesOf(t testing.TB, files []string, name string) map[string]shownFix {
	t.Helper()
	out := map[string]shownFix{}
	keep := func(file, what string, r *inventory.Registration, fix string) {
		key := fmt.Sprintf("%s %s %s %d", what, r.Type, r.Object.Owner.Tool, len(copied(fix))-1)
		own := "testdata/" + what + ".yaml"
		if shown, found := out[key]; !found || file == own && shown.file != own {
			out[key] = shownFix{file, fix}
		}
	}
	for _, file := range files {
		report := renamed(t, file, name)
		for _, f := range report.Findings {
			i := slices.IndexFunc(report.Profiles, func(p *Profile) bool { return p.Ref == f.Webhook })
			switch {
			case i >= 0:
				keep(file, f.Check.Name, &report.Profiles[i].Registration, f.Fix)
			case f.Webhook.Type.IsPolicy():
				keep(file, f.Check.Name, &inventory.Registration{Ref: f.Webhook}, f.Fix)
			}
		}
		for _, p := range report.Profiles {
			keep(file, "explain", &p.Registration, "to let requests through meanwhile: "+DisableCommand(p))
			c := p.Commands()
			keep(file, "commands", &p.Registration, strings.Join(slices.Concat([]string{c.Disable, c.Restore}, c.Inspect), "; "))
		}
	}
	return out
}

// aboutFiles are the fixtures of checks that look at what is still to be applied.
var aboutFiles = []string{"refused-by-api.yaml", "bundle-conflict.yaml"}

// renamed is the opinion on a fixture whose objects have other names.
func renamed(t testing.TB, file, name string) *Report {
	t.Helper()
	s := fixture(t, file)
	objects, _ := manifest.Read([]string{renamedFile(t, file, name)}, manifest.Options{})
	objects.NamespacesKnown, objects.APIServicesKnown, objects.PoliciesKnown = s.NamespacesKnown, s.APIServicesKnown, s.PoliciesKnown
	objects.ServicesKnown, objects.EndpointsKnown = s.ServicesKnown, s.EndpointsKnown
	objects.Server, objects.Routing = s.Server, s.Routing
	policy := must.Get(ParsePolicy([]byte(header(source(t, file), "policy"))))(t)
	snapshot := objects.Snapshot(taken)
	probes := map[inventory.Ref]inventory.Probe{}
	for i, w := range s.Webhooks {
		if probe, ok := s.Probes[w.Ref]; ok {
			probes[snapshot.Webhooks[i].Ref] = probe
		}
	}
	if !slices.Contains(aboutFiles, filepath.Base(file)) { // of such names the API server refuses most
		for _, w := range snapshot.Webhooks {
			w.Object.Applied = nil
		}
		for _, policy := range snapshot.Policies {
			policy.Object.Applied = nil
		}
	}
	snapshot.Probes, snapshot.Observed = probes, calledLike(s, snapshot)
	return evaluate(t, policy, snapshot)
}

// calledLike is which webhooks of a Snapshot were called, where that is known of
// the same webhooks of another.
func calledLike(other, s *inventory.Snapshot) *inventory.Observation {
	if other.Observed == nil {
		return nil
	}
	o := *other.Observed
	o.CalledLastWeek = map[inventory.Series]bool{}
	for i, w := range other.Webhooks {
		if other.Observed.CalledLastWeek[w.Series()] {
			o.CalledLastWeek[s.Webhooks[i].Series()] = true
		}
	}
	return &o
}

// renamedFile writes the fixture anew: what its objects are called by, and what
// names them, starts with the prefix.
func renamedFile(t testing.TB, file, prefix string) string {
	t.Helper()
	var documents []any
	names := map[string]bool{}
	for text := range strings.SplitSeq(source(t, file), "\n---\n") {
		var document any
		must.Succeed(t, yaml.Unmarshal([]byte(text), &document))
		documents = append(documents, document)
		collectNames(document, names)
	}
	var out strings.Builder
	for _, document := range documents {
		b := must.Get(json.Marshal(withPrefix(document, prefix, names)))(t)
		fmt.Fprintf(&out, "%s\n", b)
	}
	return must.File(t, "renamed.json", out.String())
}

// naming are the fields that hold the name of an object or of its owner.
var naming = []string{"name", "namespace", "meta.helm.sh/release-name", "olm.owner", "argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name"}

// collectNames collects the names of all that is not the platform's.
func collectNames(value any, names map[string]bool) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			collectNames(e, names)
		}
	case map[string]any:
		for key, field := range v {
			name, isText := field.(string)
			if isText && slices.Contains(naming, key) && !platform.MatchString(name) {
				names[name] = true
			}
			collectNames(field, names)
		}
	}
}

var platform = regexp.MustCompile(`^(kube-.*|openshift-.*|default|kubernetes|https|v\d.*|webhook-auditor)$`)

func withPrefix(value any, prefix string, names map[string]bool) any {
	switch v := value.(type) {
	case string:
		if names[v] {
			return prefix + v
		}
	case []any:
		for i := range v {
			v[i] = withPrefix(v[i], prefix, names)
		}
	case map[string]any:
		for key := range v {
			v[key] = withPrefix(v[key], prefix, names)
		}
	}
	return value
}
