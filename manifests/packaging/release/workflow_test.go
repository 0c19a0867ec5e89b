package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

// stubs stand in for what the workflow runs: make says what it would do, and what
// would publish finds the files that it is given.
var stubs = map[string]string{
	"make": `make=$(PATH=${PATH#*:} command -v make)
"$make" --dry-run -C "$ROOT" "$@" >/dev/null
case $* in *release*) touch dist/webhook-auditor-image.tar ;; esac`,
	"skopeo": `case $* in *digestfile*) echo "sha256:0" >dist/image.digest ;; esac`,
	"cosign": `case $* in *--bundle*) touch dist/checksums.txt.sigstore.json ;; esac`,
	"helm":   "",
	"gh":     "",
}

const finds = `for argument in "$@"; do
	file=${argument#oci-archive:}
	case $file in dist/*) test -e "$file" || { echo "$file is missing"; exit 1; } ;; esac
done
echo "$0 $*" >>"$RAN"
`

// workflow is what is read of a workflow of GitHub.
type workflow struct {
	Jobs map[string]struct {
		Env   map[string]string
		Steps []struct{ Name, Uses, Run string }
	}
}

// TestWorkflows: each action is pinned by digest, each target of make exists, and nothing is
// published before the tests of e2e.yml.
func TestWorkflows(t *testing.T) {
	files := must.Get(filepath.Glob("../../../.github/workflows/*.yml"))(t)
	for _, file := range files {
		text := string(read(t, file))
		for _, m := range regexp.MustCompile(`uses: ([^\s@]+)(?:@(\S+))?`).FindAllStringSubmatch(text, -1) {
			if len(m[2]) != 40 && !strings.HasPrefix(m[1], "./") {
				t.Errorf("%s: %s is not pinned by digest", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`run: (?:sudo env .*? )?make ([\w-]+)`).FindAllStringSubmatch(text, -1) {
			if output, err := exec.Command("make", "--dry-run", "-C", "../../..", m[1]).CombinedOutput(); err != nil {
				t.Errorf("%s: make %s: %v\n%s", file, m[1], err, output)
			}
		}
	}
	if len(files) < 3 || !strings.Contains(string(read(t, "../../../.github/workflows/release.yml")), "\n    needs: e2e\n") {
		t.Errorf("of %q, the release does not wait for e2e.yml", files)
	}
}

// TestVersions: all that names the next release names the first one of the CHANGELOG.
func TestVersions(t *testing.T) {
	next := regexp.MustCompile(`(?m)^## v(\S+?),? `).FindSubmatch(read(t, "../../../CHANGELOG.md"))
	named := regexp.MustCompile(`(?m)(?:appVersion|version|default|rev): v?(\d+\.\d+\.\d+)$|webhook-auditor@v(\S+)`)
	for file, want := range map[string]int{"manifests/chart/Chart.yaml": 2, "action.yml": 1, "templates/webhook-auditor.yml": 1, "docs/ci.md": 3} {
		found := named.FindAllStringSubmatch(string(read(t, "../../../"+file)), -1)
		for _, m := range found {
			if m[1]+m[2] != string(next[1]) {
				t.Errorf("%s: %s: CHANGELOG.md has %s", file, m[0], next[1])
			}
		}
		if len(found) != want {
			t.Errorf("%s names %d versions, want %d", file, len(found), want)
		}
	}
}

// workflowPublishes runs the steps of the release workflow without a network, on
// the files of a release.
func workflowPublishes(t *testing.T, r release) {
	var w workflow
	must.Succeed(t, yaml.Unmarshal(read(t, "../../../.github/workflows/release.yml"), &w))
	dir := t.TempDir()
	for name, body := range stubs {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\nset -eu\n"+body+"\n"+finds), 0o755))
	}
	must.Succeed(t, os.Symlink(r.out, filepath.Join(dir, "dist")))
	root := must.Get(filepath.Abs(r.root))(t)
	steps := 0
	for _, step := range w.Jobs["release"].Steps {
		if step.Uses != "" {
			continue
		}
		steps++
		if strings.Contains(step.Run, "${{") {
			t.Errorf("%s: an expression becomes text of the script", step.Name)
		}
		run := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		run.Dir = dir
		run.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ROOT="+root, "RAN="+filepath.Join(dir, "ran"),
			"VERSION="+r.version, "REGISTRY=registry.example.com/platform", "RELEASES="+r.url, "BUILDER=https://example.com/release.yml", "GITHUB_ACTOR=owner", "GH_TOKEN=secret")
		if output, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", step.Name, err, output)
		}
	}
	ran := string(read(t, filepath.Join(dir, "ran")))
	if steps != 7 {
		t.Errorf("%d steps run, want 7", steps)
	}
	for _, want := range []string{"make test", "make release VERSION=v1.2.3 IMAGE=registry.example.com/platform/webhook-auditor:v1.2.3", "docker://registry.example.com/platform/webhook-auditor:v1.2.3", "dist/webhook-auditor-1.2.3.tgz oci://", "sign --yes registry.example.com/platform/webhook-auditor@sha256:0", "sign-blob --yes --bundle dist/checksums.txt.sigstore.json dist/checksums.txt", "dist/provenance.json", "dist/checksums.txt", "dist/webhook-auditor.yaml", "dist/install.yaml"} {
		if !strings.Contains(ran, want) {
			t.Errorf("no step runs %q:\n%s", want, ran)
		}
	}
	if strings.Contains(ran, "secret") {
		t.Error("the token is an argument of a command")
	}
}
