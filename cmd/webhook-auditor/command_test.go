package main

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

func completed(t *testing.T, args ...string) []string {
	t.Helper()
	r := execute(t, "", append([]string{"__completeNoDesc"}, args...)...)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != exitOK || !strings.HasPrefix(lines[len(lines)-1], ":") {
		t.Errorf("%q: exit code %d, stdout %q", args, r.code, r.out)
	}
	// cobra explains its directive on stderr, which the shells drop.
	if n := strings.Count(strings.TrimSpace(r.err), "\n"); n != 0 {
		t.Errorf("%q: %d more lines on stderr:\n%s", args, n, r.err)
	}
	return lines[:len(lines)-1]
}

func TestCompletion(t *testing.T) {
	from := []string{"explain", "--from", "testdata/webhooks.yaml"}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"commands":        {[]string{"a"}, []string{"audit"}},
		"names of print":  {[]string{"print", "run"}, []string{"run-level-guard"}},
		"operations":      {append(from, "c"), []string{"create", "connect"}},
		"a name":          {append(from, "create", "pods", "w"), []string{}},
		"formats":         {[]string{"audit", "-o", ""}, formats},
		"levels":          {[]string{"run", "--log.level", ""}, []string{"info", "debug", "warn", "error"}},
		"forms":           {[]string{"print", "rules", "--severities", "e"}, []string{"enhancement"}},
		"types":           {[]string{"audit", "v"}, []string{"validatingadmissionpolicy/", "validatingwebhookconfiguration/"}},
		"types of impact": {[]string{"impact", "c"}, []string{"crd/", "customresourcedefinition/"}},
		"paths":           {[]string{"audit", "testdata/w"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := slices.DeleteFunc(completed(t, tc.args...), func(s string) bool { return !strings.HasPrefix(s, tc.args[len(tc.args)-1]) })
			expect.Equal(t, tc.want, got)
		})
	}
}

func all(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		out = append(out, all(sub)...)
	}
	return out
}

// TestExamples: each command has examples, and each example is understood.
func TestExamples(t *testing.T) {
	for _, c := range all(newRoot(program, streams{})) {
		examples := called.FindAllStringSubmatch(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n"), -1)
		if len(examples) == 0 && !strings.Contains(c.CommandPath(), " completion") { // cobra's own
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, m := range examples {
			if err := understood(strings.TrimSuffix(m[1], ")")); err != nil {
				t.Errorf("%s: %s: %v", c.CommandPath(), m[0], err)
			}
		}
	}
}

// TestCommands: what commands about files print where, and their exit codes. A dot in the middle of
// the line stands for a space within an argument.
func TestCommands(t *testing.T) {
	codes := map[string]int{"ok": exitOK, "error": exitError, "usage": exitUsage, "findings": exitFindings}
	for _, row := range must.Rows(t, "testdata/commands.tsv", 4) {
		t.Run(row[3], func(t *testing.T) {
			args := strings.Fields(row[3])
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "·", " ")
			}
			r := execute(t, "", args...)
			if r.code != codes[row[0]] || !strings.Contains(r.out, row[1]) || row[2] != "" && strings.Count(r.err, row[2]) != 1 {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", r.code, r.out, r.err, row)
			}
			if (row[1] == "") != (r.out == "") || (row[2] == "") != (r.err == "") {
				t.Errorf("both streams: stdout %q, stderr %q", r.out, r.err)
			}
		})
	}
}

func TestDisplayName(t *testing.T) {
	expect.Results(t, displayName, map[string]string{
		"webhook-auditor":                       "webhook-auditor",
		"/usr/bin/webhook-auditor":              "webhook-auditor",
		"/opt/krew/bin/kubectl-webhook_auditor": "kubectl webhook-auditor",
	})
	for _, c := range all(newRoot("kubectl "+program, streams{})) {
		if line := c.UseLine(); !strings.HasPrefix(line, "kubectl "+program) {
			t.Errorf("%s names another program: %s", c.CommandPath(), line)
		}
	}
}

// TestModuleVersion: a program that "go install" builds knows its version.
func TestModuleVersion(t *testing.T) {
	expect.Results(t, func(recorded string) string {
		return moduleVersion(&debug.BuildInfo{Main: debug.Module{Version: recorded}})
	}, map[string]string{
		"v1.2.3": "v1.2.3", "v0.0.0-20260101000000-0123456789ab+dirty": "v0.0.0-20260101000000-0123456789ab+dirty",
		"(devel)": "unknown", "": "unknown",
	})
	expect.Equal(t, "unknown", moduleVersion(nil)) // without information
}

// TestLastContext: the last --context counts, as with kubectl.
func TestLastContext(t *testing.T) {
	got := execute(t, "", "explain", "--kubeconfig", scrapedCluster(t, counting()), "--context", "nowhere", "--context", "a", "create", "pods")
	if strings.Contains(got.err, "nowhere") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}
