package inputs

import (
	"encoding/json"
	"os"
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

// examples are the two pipelines that the documentation shows.
func examples(t *testing.T) map[string]integration {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text(t, "docs/ci.md")), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples, want one for GitHub and one for GitLab", len(blocks))
	}
	var hub github
	testenv.Must(t, yaml.Unmarshal([]byte(blocks[0][1]), &hub))
	var steps []string
	for _, step := range hub.Jobs["audit"].Steps {
		steps = append(steps, step.Run)
	}
	var lab gitlab
	testenv.Must(t, yaml.Unmarshal([]byte(blocks[1][1]), &lab))
	scripts := func(commands []string, variable string) func(*testing.T, string) int {
		return func(t *testing.T, checkout string) int { return script(t, checkout, commands, []string{variable}) }
	}
	return map[string]integration{
		"example for GitHub": {run: scripts(steps, "GITHUB_BASE_REF=main"), sarif: "webhooks.sarif"},
		"example for GitLab": {run: scripts(lab["webhooks"].Script, "CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main"), markdown: "webhooks.md"},
	}
}

// annotated wants findings on lines of the file that the change added.
func annotated(t *testing.T, file string) {
	t.Helper()
	text := testenv.Get(os.ReadFile(file))(t)
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

// cloned is a checkout of a repository with a branch main and the manifest in it.
func cloned(t *testing.T, manifest string) string {
	t.Helper()
	dir := t.TempDir()
	origin, checkout := filepath.Join(dir, "origin"), filepath.Join(dir, "checkout")
	testenv.Must(t, os.MkdirAll(filepath.Join(origin, "manifests"), 0o755))
	testenv.Must(t, os.WriteFile(filepath.Join(origin, "manifests", "sound.yaml"), []byte(manifest), 0o600))
	bash(t, origin, "git init -q -b main . && git add . && git -c user.name=e2e -c user.email=e2e@example.com commit -q -m manifests", nil)
	bash(t, dir, "git clone -q file://"+origin+" checkout", nil)
	return checkout
}

// script runs the commands as a runner does, up to the first that fails, and returns its
// exit code. What installs the auditor is left out.
func script(t *testing.T, dir string, commands, environment []string) int {
	t.Helper()
	for _, command := range commands {
		if command == "" || strings.HasPrefix(command, "go install ") {
			continue
		}
		if code := bash(t, dir, command, environment); code != 0 {
			return code
		}
	}
	return 0
}
