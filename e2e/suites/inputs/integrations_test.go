package inputs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

const root = "../../../"

// integration is what the repository offers to one CI system.
type integration struct {
	// run runs its commands in a checkout and returns the exit code.
	run func(t *testing.T, checkout string) int
	// sarif and markdown are the files that it writes, if it compares with the target branch.
	sarif, markdown string
}

var integrations = map[string]integration{
	"GitHub action":    {run: runAction, sarif: "webhook-auditor.sarif"},
	"GitLab component": {run: runComponent, sarif: "webhook-auditor.sarif"},
	"pre-commit hook":  {run: runHook},
}

// TestIntegrations runs what action.yml, the GitLab component, the pre-commit hook and
// the examples in the documentation run, on a checkout without a change, and with one
// that adds a webhook.
func TestIntegrations(t *testing.T) {
	all := examples(t)
	maps.Copy(all, integrations)
	for name, offered := range all {
		t.Run(name, func(t *testing.T) {
			checkout := cloned(t, sound)
			if code := offered.run(t, checkout); code != 0 {
				t.Errorf("exit code %d without a change", code)
			}
			bash(t, checkout, "rm -rf before && git worktree prune && cp manifests/sound.yaml manifests/more.yaml && sed -i.bak 's/name: sound/name: more/; s/secrets/pods/' manifests/more.yaml", nil)
			if code := offered.run(t, checkout); code != 3 {
				t.Errorf("exit code %d with a webhook for all pods, want 3", code)
			}
			if offered.sarif != "" {
				annotated(t, filepath.Join(checkout, offered.sarif))
			}
			if offered.markdown != "" {
				if text := string(read(t, filepath.Join(checkout, offered.markdown))); !testenv.ContainsAll(text, "#### Added", "manifests/more.yaml:") || testenv.ContainsAll(text, "manifests/sound.yaml:") {
					t.Errorf("it is not about the change:\n%s", text)
				}
			}
		})
	}
}

// TestIntegrationsWithoutAWebhook: neither side has one, then the change adds the first,
// then it is deleted.
func TestIntegrationsWithoutAWebhook(t *testing.T) {
	all := examples(t)
	maps.Copy(all, integrations)
	for name, offered := range all {
		t.Run(name, func(t *testing.T) {
			checkout := cloned(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n")
			first := filepath.Join(checkout, "manifests", "first.yaml")
			if code := offered.run(t, checkout); code != 0 {
				t.Errorf("exit code %d without any webhook", code)
			}
			bash(t, checkout, "rm -rf before && git worktree prune", nil)
			testenv.Must(t, os.WriteFile(first, []byte(strings.ReplaceAll(sound, "secrets", "pods")), 0o600))
			if code := offered.run(t, checkout); code != 3 {
				t.Errorf("exit code %d with the first webhook, want 3", code)
			}
			bash(t, checkout, "rm -rf before && git worktree prune && git -C ../origin config receive.denyCurrentBranch ignore && git add . && git -c user.name=e2e -c user.email=e2e@example.com commit -q -m first && git push -q origin HEAD:refs/heads/main && rm "+first, nil)
			if code := offered.run(t, checkout); code != 0 {
				t.Errorf("exit code %d without the last webhook", code)
			}
		})
	}
}

// action is what is read of a composite action.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Using string
		Steps []struct {
			Name, Uses, Shell, Run string
			Env                    map[string]string
		}
	}
}

// input is an expression that is an input of the action.
var input = regexp.MustCompile(`^\$\{\{ inputs\.([a-z-]+) \}\}$`)

// runAction runs the steps of the action as a runner does. The inputs that have
// a default which GitHub fills in are given.
func runAction(t *testing.T, checkout string) int {
	t.Helper()
	var a action
	testenv.Must(t, yaml.Unmarshal(text(t, "action.yml"), &a))
	if a.Runs.Using != "composite" {
		t.Fatalf("the action is %s", a.Runs.Using)
	}
	temp := filepath.Join(filepath.Dir(checkout), "temp") // kept, so that the auditor is built once
	testenv.Must(t, os.MkdirAll(temp, 0o755))
	given := map[string]string{"base": "main", "fail-on": "warning", "releases": "file://" + published(t, a.Inputs["version"].Default)}
	environment := []string{
		"RUNNER_TEMP=" + temp, "GITHUB_ACTION_PATH=" + absolute(t, root),
		"GITHUB_STEP_SUMMARY=" + filepath.Join(temp, "summary.md"),
	}
	for _, step := range a.Runs.Steps {
		if step.Uses != "" {
			continue
		}
		if strings.Contains(step.Run, "${{") {
			t.Errorf("%s: an expression becomes text of the script", step.Name)
		}
		variables := environment
		for name, expression := range step.Env {
			match := input.FindStringSubmatch(expression)
			if match == nil {
				t.Fatalf("%s: %s is %q, which is no input", step.Name, name, expression)
			}
			value, ok := given[match[1]]
			if !ok {
				value = a.Inputs[match[1]].Default
			}
			variables = append(variables, name+"="+value)
		}
		if code := bash(t, checkout, step.Run, variables); code != 0 {
			return code
		}
	}
	if summary := string(read(t, filepath.Join(temp, "summary.md"))); !strings.Contains(summary, "No registration of a webhook changes.") {
		t.Errorf("the summary of the job is %q", summary)
	}
	return 0
}

// published is a folder of releases with the binary under test as the version, for this
// machine.
func published(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	release := filepath.Join(dir, version)
	testenv.Must(t, os.MkdirAll(release, 0o755))
	archive := fmt.Sprintf("webhook-auditor_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	// A copy, as tar refuses a file that a build touches meanwhile.
	script := "cp " + testenv.Binary(t) + " . && tar -czf " + archive + " webhook-auditor && sha256sum " + archive + " > checksums.txt"
	if code := bash(t, release, script, nil); code != 0 {
		t.Fatalf("exit code %d of %s", code, script)
	}
	return dir
}

// TestActionRefusesAnotherBinary: a release with another checksum is not run.
func TestActionRefusesAnotherBinary(t *testing.T) {
	var a action
	testenv.Must(t, yaml.Unmarshal(text(t, "action.yml"), &a))
	version := a.Inputs["version"].Default
	releases := published(t, version)
	checksums := testenv.Get(filepath.Glob(filepath.Join(releases, "*", "checksums.txt")))(t)
	bash(t, releases, "sed -i.bak 's/^..../0000/' "+checksums[0], nil)
	step := filepath.Join(t.TempDir(), "step.sh")
	testenv.Must(t, os.WriteFile(step, []byte(a.Runs.Steps[0].Run), 0o600))
	const refused = 3
	code := bash(t, releases, "bash -eo pipefail "+step+" || exit 3", []string{"RUNNER_TEMP=" + t.TempDir(), "AUDIT_VERSION=" + version, "AUDIT_RELEASES=file://" + releases})
	if code != refused {
		t.Error("it was unpacked all the same")
	}
}

// component is what is read of a component of GitLab.
type component struct {
	Spec struct {
		Inputs map[string]struct{ Default string }
	}
	Job struct {
		Variables map[string]string
		Script    []string
	} `json:"webhook-auditor"`
}

// runComponent runs the script of the GitLab component.
func runComponent(t *testing.T, checkout string) int {
	t.Helper()
	header, body, found := strings.Cut(string(text(t, "templates/webhook-auditor.yml")), "\n---\n")
	if !found {
		t.Fatal("the component has no header")
	}
	var c component
	testenv.Must(t, yaml.Unmarshal([]byte(header), &c))
	var values []string
	for name, value := range c.Spec.Inputs {
		if name == "fail-on" {
			value.Default = "warning"
		}
		values = append(values, "$[[ inputs."+name+" ]]", value.Default)
	}
	filled := strings.NewReplacer(values...).Replace(body)
	if strings.Contains(filled, "$[[") {
		t.Errorf("an input is not declared:\n%s", filled)
	}
	testenv.Must(t, yaml.Unmarshal([]byte(filled), &c))
	variables := []string{"CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main"}
	for name, value := range c.Job.Variables {
		variables = append(variables, name+"="+value)
	}
	variables = append(variables, "AUDIT_BASE="+filepath.Join(t.TempDir(), "base"))
	return script(t, checkout, c.Job.Script, variables)
}

type hook struct {
	ID, Language, Entry, Files string
	PassFilenames              *bool `json:"pass_filenames"`
	Args                       []string
}

// runHook runs the pre-commit hook with a report kept in the repository, as its
// users configure it.
func runHook(t *testing.T, checkout string) int {
	t.Helper()
	var hooks []hook
	testenv.Must(t, yaml.Unmarshal(text(t, ".pre-commit-hooks.yaml"), &hooks))
	if len(hooks) != 1 || hooks[0].PassFilenames == nil || *hooks[0].PassFilenames {
		t.Fatalf("%+v, want one hook that reads all files together", hooks)
	}
	files := regexp.MustCompile(hooks[0].Files)
	for name, want := range map[string]bool{"manifests/a.yaml": true, "a.yml": true, "list.json": true, "main.go": false} {
		if files.MatchString(name) != want {
			t.Errorf("%s starts the hook: %t", name, !want)
		}
	}
	const report = "webhook-auditor.json"
	if _, err := os.Stat(filepath.Join(checkout, report)); err != nil {
		bash(t, checkout, "webhook-auditor audit . --allow-empty -o json --fail-on=never > "+report, nil)
	}
	arguments := append(hooks[0].Args, "--baseline="+report, "--fail-on=warning")
	return bash(t, checkout, hooks[0].Entry+" "+strings.Join(arguments, " "), nil)
}

// bash runs a script as a runner of GitHub does, with the auditor on its PATH,
// and returns the exit code.
func bash(t *testing.T, dir, script string, environment []string) int {
	t.Helper()
	run := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	run.Dir = dir
	run.Env = append(os.Environ(), "PATH="+filepath.Dir(testenv.Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL="+os.DevNull)
	run.Env = append(run.Env, environment...)
	output, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", script, err)
	}
	if code := run.ProcessState.ExitCode(); code != 0 && code != 3 {
		t.Fatalf("exit code %d:\n%s\n%s", code, script, output)
	}
	return run.ProcessState.ExitCode()
}

func text(t *testing.T, name string) []byte { return read(t, filepath.Join(root, name)) }

func read(t *testing.T, path string) []byte {
	t.Helper()
	return testenv.Get(os.ReadFile(path))(t)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	return testenv.Get(filepath.Abs(path))(t)
}
