package inputs

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// github and gitlab are what is read of the examples in the documentation.
type (
	github struct {
		Jobs map[string]struct {
			Steps []struct{ Run string }
		}
	}
	gitlab map[string]struct{ Script []string }
)

// examples are the commands of the two pipelines that the documentation shows.
func examples(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/ci.md")
	testenv.Must(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples, want one for GitHub and one for GitLab", len(blocks))
	}
	out := map[string][]string{}
	var hub github
	testenv.Must(t, yaml.Unmarshal([]byte(blocks[0][1]), &hub))
	for _, step := range hub.Jobs["audit"].Steps {
		out["GitHub"] = append(out["GitHub"], step.Run)
	}
	var lab gitlab
	testenv.Must(t, yaml.Unmarshal([]byte(blocks[1][1]), &lab))
	out["GitLab"] = lab["webhooks"].Script
	return out
}

// TestPipelines runs the commands of the examples on a change that adds a
// webhook, and on one that adds none.
func TestPipelines(t *testing.T) {
	for name, commands := range examples(t) {
		t.Run(name, func(t *testing.T) {
			checkout := cloned(t)
			if code := pipeline(t, checkout, commands); code != 0 {
				t.Errorf("exit code %d without a change", code)
			}
			shell(t, checkout, "rm -rf before && git worktree prune && cp manifests/sound.yaml manifests/more.yaml && sed -i.bak 's/name: sound/name: more/; s/secrets/pods/' manifests/more.yaml")
			if code := pipeline(t, checkout, commands); code != 3 {
				t.Errorf("exit code %d with a webhook for all pods, want 3", code)
			}
			if name == "GitHub" {
				annotated(t, filepath.Join(checkout, "webhooks.sarif"))
				return
			}
			text, err := os.ReadFile(filepath.Join(checkout, "webhooks.md"))
			testenv.Must(t, err)
			if !testenv.ContainsAll(string(text), "#### Added", "manifests/more.yaml:") || testenv.ContainsAll(string(text), "manifests/sound.yaml:") {
				t.Errorf("it is not about the change:\n%s", text)
			}
		})
	}
}

// annotated wants findings on lines of the file that the change added.
func annotated(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	var log struct {
		Runs []struct {
			Results []struct {
				RuleID              string
				PartialFingerprints map[string]string
				Locations           []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	testenv.Must(t, json.Unmarshal(text, &log))
	if len(log.Runs) != 1 || len(log.Runs[0].Results) == 0 {
		t.Fatalf("no results in %s", text)
	}
	for _, r := range log.Runs[0].Results {
		place := r.Locations[0].PhysicalLocation
		if place.ArtifactLocation.URI != "manifests/more.yaml" || place.Region.StartLine == 0 || len(r.PartialFingerprints) == 0 {
			t.Errorf("%s is at %s:%d, fingerprints %v", r.RuleID, place.ArtifactLocation.URI, place.Region.StartLine, r.PartialFingerprints)
		}
	}
}

// cloned is a checkout of a repository with a branch main and manifests in it.
func cloned(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	origin, checkout := filepath.Join(dir, "origin"), filepath.Join(dir, "checkout")
	testenv.Must(t, os.MkdirAll(filepath.Join(origin, "manifests"), 0o755))
	testenv.Must(t, os.WriteFile(filepath.Join(origin, "manifests", "sound.yaml"), []byte(sound), 0o600))
	shell(t, origin, "git init -q -b main . && git add . && git -c user.name=e2e -c user.email=e2e@example.com commit -q -m manifests")
	shell(t, dir, "git clone -q file://"+origin+" checkout")
	return checkout
}

// pipeline runs the commands as a runner does, up to the first that fails, and
// returns its exit code. What installs the auditor is left out.
func pipeline(t *testing.T, dir string, commands []string) int {
	t.Helper()
	for _, command := range commands {
		if command == "" || strings.HasPrefix(command, "go install ") {
			continue
		}
		if code := shell(t, dir, command); code != 0 {
			return code
		}
	}
	return 0
}

// shell runs a command with the auditor on its PATH.
func shell(t *testing.T, dir, command string) int {
	t.Helper()
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Dir = dir
	run.Env = append(os.Environ(), "PATH="+filepath.Dir(testenv.Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GITHUB_BASE_REF=main", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || exit != nil && !strings.HasPrefix(command, "webhook-auditor ") {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return run.ProcessState.ExitCode()
}
