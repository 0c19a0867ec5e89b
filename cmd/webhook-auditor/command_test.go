package main

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// completed returns the completions of the last argument.
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

// all returns a command and those below it.
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

// TestHelp: help is what was asked for, so it goes to standard output, and
// names the program as its user calls it.
func TestHelp(t *testing.T) {
	for name, tc := range map[string]struct {
		args     []string
		code     int
		out, err string
	}{
		"no command":            {nil, exitUsage, "", "missing command"},
		"usage":                 {nil, exitUsage, "", "Advanced:"},
		"help":                  {[]string{"help"}, exitOK, "Advanced:", ""},
		"help of a command":     {[]string{"help", "audit"}, exitOK, "Cluster flags:", ""},
		"--help":                {[]string{"explain", "--help"}, exitOK, "Request flags:", ""},
		"-h":                    {[]string{"-h"}, exitOK, "explain", ""},
		"names of print":        {[]string{"print", "--help"}, exitOK, "run-level-guard", ""},
		"print without a name":  {[]string{"print"}, exitUsage, "", "must be one of all, bundle, checks,"},
		"print of another name": {[]string{"print", "rule"}, exitUsage, "", "did you mean rules?"},
		"schema without a name": {[]string{"print", "schema"}, exitUsage, "", "print schema: must be given one NAME of audit, "},
		"another schema":        {[]string{"print", "schema", "adit"}, exitUsage, "", "print schema: must be given one NAME of audit, "},
		"labels that are not":   {[]string{"explain", "create", "pods", "-l", "a b=c", "--from", "testdata/webhooks.yaml"}, exitUsage, "", `--labels "a b=c": Invalid value: "a b": name part must`},
		"no such policy":        {[]string{"audit", "testdata/webhooks.yaml", "--config", "nowhere"}, exitUsage, "", "reading nowhere: no such file or directory\n"},
		"diff of no cluster":    {[]string{"diff", "testdata/webhooks.yaml", "--context", "none"}, exitError, "", "diff: without OLD or --from, NEW is compared with a cluster: reading kubeconfig"},
		"a typo":                {[]string{"adit"}, exitUsage, "", "webhook-auditor: unknown command \"adit\" for \"webhook-auditor\"\n\nDid you mean this?\n audit\n"},
		"no such flag":          {[]string{"audit", "--formt", "x"}, exitUsage, "", "unknown flag: --formt; see webhook-auditor audit --help"},
		"no value":              {[]string{"run", "--settle", "soon"}, exitUsage, "", `invalid argument "soon" for "--settle"`},
		"too much":              {[]string{"version", "please"}, exitUsage, "", `unknown command "please" for "webhook-auditor version"`},
		"--version":             {[]string{"--version"}, exitOK, "webhook-auditor ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", tc.args...)
			if r.code != tc.code || !strings.Contains(r.out, tc.out) || !strings.Contains(r.err, tc.err) {
				t.Errorf("exit code %d, stdout %q, stderr %q", r.code, r.out, r.err)
			}
			if (tc.out == "") != (r.out == "") || (tc.err == "") != (r.err == "") {
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
