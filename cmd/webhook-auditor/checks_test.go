package main

import (
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// TestChecksInATerminal: a line for each check, and the runbook of each.
func TestChecksInATerminal(t *testing.T) {
	list := execute(t, "", "checks")
	if lines := strings.Count(list.out, "\n"); list.code != exitOK || lines != len(classify.Checks)+1 {
		t.Errorf("exit code %d, %d lines of %d checks", list.code, lines, len(classify.Checks))
	}
	asked := 0
	for _, c := range classify.Checks {
		r := execute(t, "", "explain", c.Name)
		expect.Contains(t, r.out, c.Name+" (", "\nMeaning\n", "\nMitigation\n")
		expect.Contains(t, squeezed(r.out), c.Summary)
		if r.code != exitOK || strings.Contains(r.out, "`") || strings.Contains(r.out, "##") {
			t.Errorf("exit code %d, Markdown in\n%s", r.code, r.out)
		}
		fixture := "../../pkg/classify/testdata/" + strings.ReplaceAll(c.Name, "/", "") + ".yaml"
		filled := execute(t, "", "explain", c.Name, "--from", fixture)
		found := strings.Contains(execute(t, "", "audit", fixture, "-o", "table").out, " "+c.Name+" ")
		if asks := "to what the finding names."; found && strings.Contains(squeezed(r.out), asks) {
			asked++
			if strings.Contains(squeezed(filled.out), asks) {
				t.Errorf("the names of a finding are not filled in:\n%s", filled.out)
			}
		}
	}
	if asked < 20 {
		t.Errorf("the names of only %d findings are asked for", asked)
	}
	nowhere := execute(t, "", "explain", "service-missing", "--kubeconfig", "nowhere")
	if nowhere.code != exitError || !strings.Contains(nowhere.out, "Mitigation") || !strings.Contains(nowhere.err, "cannot read the cluster") {
		t.Errorf("exit code %d, %s%s", nowhere.code, nowhere.out, nowhere.err)
	}
}

// TestVerbs: kubectl's own verbs are operations, and what is none is refused before anything
// is read.
func TestVerbs(t *testing.T) {
	from := []string{"-n", "shop", "--from", "testdata/webhooks.yaml"}
	for want, args := range map[string][]string{
		"UPDATE deployments.apps/scale web in shop meets": {"explain", "scale", "deployments", "web"},
		"a server-side apply of pods is a CREATE":         {"explain", "apply", "pods"},
	} {
		expect.Contains(t, squeezed(execute(t, "", append(args, from...)...).out), want)
	}
	for want, args := range map[string][]string{"create": {"craete", "pods"}, "service-missing": {"service-mising"}} {
		r := execute(t, "", append([]string{"explain", "--kubeconfig", "nowhere"}, args...)...)
		if r.code != exitUsage || !strings.Contains(r.err, "did you mean "+want+"?") {
			t.Errorf("exit code %d, %s", r.code, r.err)
		}
	}
}

// TestVersion: nothing that is unknown is printed.
func TestVersion(t *testing.T) {
	if text := execute(t, "", "version").out; strings.Count(text, "\n") != 1 || strings.Contains(text, "branch") {
		t.Errorf("the version is %q", text)
	}
}
