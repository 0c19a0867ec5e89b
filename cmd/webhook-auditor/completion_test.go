package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
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
		"commands":          {[]string{"a"}, []string{"audit"}},
		"names of print":    {[]string{"print", "run"}, []string{"run-level-guard", "run-level-patches"}},
		"operations":        {append(from, "c"), []string{"create", "connect"}},
		"resources":         {append(from, "create", "pods/"), []string{"pods/attach", "pods/binding", "pods/ephemeralcontainers", "pods/eviction", "pods/exec", "pods/portforward", "pods/proxy", "pods/resize", "pods/status"}},
		"other groups":      {append(from, "create", "deploy"), []string{"deployments.apps", "deployments.apps/scale", "deployments.apps/status"}},
		"nothing to write":  {append(from, "create", "componentstatuses"), []string{}},
		"a name":            {append(from, "create", "pods", "w"), []string{}},
		"formats":           {[]string{"audit", "-o", ""}, formats()},
		"versions":          {[]string{"audit", "--server-version", "v1.3"}, serverVersions()},
		"levels":            {[]string{"run", "--log.level", ""}, []string{"debug", "info", "warn", "error"}},
		"forms":             {[]string{"print", "rules", "--severities", "e"}, []string{"enhancement"}},
		"types":             {[]string{"audit", "v"}, []string{"validatingadmissionpolicy/", "validatingwebhookconfiguration/"}},
		"configurations":    {[]string{"audit", "testdata/webhooks.yaml", "validatingwebhookconfiguration/"}, []string{"validatingwebhookconfiguration/policy"}},
		"webhook names":     {[]string{"audit", "testdata/webhooks.yaml", "validatingwebhookconfigurations/policy/i"}, []string{"validatingwebhookconfigurations/policy/images.policy.example.com"}},
		"impact":            {[]string{"impact", "--from", "testdata/webhooks.yaml", "p"}, []string{"policy"}},
		"its webhooks":      {[]string{"impact", "--from", "testdata/webhooks.yaml", "policy/"}, []string{"policy/images.policy.example.com"}},
		"Services":          {[]string{"impact", "--from", "testdata/webhooks.yaml", "--down", "p"}, []string{"policy/policy"}},
		"deletions":         {[]string{"impact", "--from", "testdata/webhooks.yaml", "--delete", "p"}, []string{"policy"}},
		"policies":          {[]string{"impact", "--from", "testdata/policies.yaml", "validatingadmissionpolicies/"}, []string{"validatingadmissionpolicies/limits"}},
		"policies of audit": {[]string{"audit", "testdata/policies.yaml", "mutatingadmissionpolicy/"}, []string{"mutatingadmissionpolicy/labels"}},
		"paths":             {[]string{"audit", "testdata/w"}, []string{}},
		"no files":          {[]string{"explain", "--from", "testdata/nowhere.yaml", "-n", ""}, []string{}},
		"standard input":    {[]string{"explain", "--from", "-", "create", "po"}, []string{}},
		"no kubeconfig":     {[]string{"explain", "--kubeconfig", "testdata/nowhere", "create", "po"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := slices.DeleteFunc(completed(t, tc.args...), func(s string) bool { return !strings.HasPrefix(s, tc.args[len(tc.args)-1]) })
			expect.Equal(t, tc.want, got)
		})
	}
}

// TestClusterCompletion completes from a cluster and its kubeconfig.
func TestClusterCompletion(t *testing.T) {
	kubeconfig := fakeCluster(t)
	explain := []string{"explain", "--kubeconfig", kubeconfig}
	for name, tc := range map[string]struct{ args, want []string }{
		"resources":   {append(explain, "create", ""), []string{"pods", "pods/exec", "widgets.example.com"}},
		"namespaces":  {append(explain, "-n", "s"), []string{"shop", "staging"}},
		"of Services": {[]string{"audit", "--kubeconfig", kubeconfig, "-n", "st"}, []string{"staging"}},
		"mutating":    {[]string{"audit", "--kubeconfig", kubeconfig, "mutatingwebhookconfiguration/"}, []string{}},
		"validating":  {[]string{"audit", "--kubeconfig", kubeconfig, "validatingwebhookconfiguration/"}, []string{"validatingwebhookconfiguration/policy"}},
		"webhooks":    {[]string{"audit", "--kubeconfig", kubeconfig, "validatingwebhookconfiguration/policy/"}, []string{"validatingwebhookconfiguration/policy/images.policy.example.com"}},
		"CRDs":        {[]string{"audit", "--kubeconfig", kubeconfig, "crd/w"}, []string{"crd/widgets.example.com"}},
		"policies":    {[]string{"impact", "--kubeconfig", kubeconfig, "validatingadmissionpolicy/"}, []string{"validatingadmissionpolicy/limits"}},
		"contexts":    {append(explain, "--context", ""), []string{"here", "there"}},
		"impact":      {[]string{"impact", "--kubeconfig", kubeconfig, ""}, []string{"gadgets.example.com", "policy", "widgets.example.com"}},
		"nodes":       {[]string{"impact", "--kubeconfig", kubeconfig, "--down-node", ""}, []string{"worker-1", "worker-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, tc.want, completed(t, tc.args...))
		})
	}
}

// named are objects of names.
func named(names ...string) metav1.PartialObjectMetadataList {
	var list metav1.PartialObjectMetadataList
	for _, name := range names {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	return list
}

// fakeCluster serves what completions read; it returns a kubeconfig.
func fakeCluster(t *testing.T) string {
	t.Helper()
	widgets := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
	answers := map[string]any{
		"/api":  metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{widgets}, PreferredVersion: widgets}}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"create", "list"}},
			{Name: "pods/exec", Kind: "PodExecOptions", Namespaced: true, Verbs: []string{"create", "get"}},
			{Name: "componentstatuses", Kind: "ComponentStatus", Verbs: []string{"get", "list"}},
		}},
		"/apis/example.com/v1": metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
			{Name: "widgets", Kind: "Widget", Namespaced: true, Verbs: []string{"create", "list"}},
		}},
		"/api/v1/namespaces": named("shop", "staging", "default"),
		"/api/v1/nodes":      named("worker-1", "worker-2"),
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": named("limits"),
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions":           named("widgets.example.com", "gadgets.example.com"),
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": admissionv1.ValidatingWebhookConfigurationList{
			Items: []admissionv1.ValidatingWebhookConfiguration{*kubetest.Validating("policy", admissionv1.ValidatingWebhook{Name: "images.policy.example.com"})},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		writeJSON(w, answer)
	}))
	t.Cleanup(server.Close)
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\n"+
		"contexts: [{name: here, context: {cluster: a}}, {name: there, context: {cluster: a}}]\ncurrent-context: here\n", server.URL)
	return must.File(t, "kubeconfig", text)
}

// TestCompletionIsBounded: a cluster that does not answer completes to nothing.
func TestCompletionIsBounded(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	find := candidates(func(context.Context) []string { <-never; return []string{"late"} })
	if got := find.within(t.Context(), 1); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := execute(t, "", "completion", shell)
		if r.code != exitOK || !strings.Contains(r.out, "__complete") || !strings.Contains(r.out, program) {
			t.Errorf("%s: exit code %d: %.200s%s", shell, r.code, r.out, r.err)
		}
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
		if len(examples) == 0 {
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
		"usage":                 {nil, exitUsage, "", "Available Commands:"},
		"help":                  {[]string{"help"}, exitOK, "Available Commands:", ""},
		"help of a command":     {[]string{"help", "audit"}, exitOK, "Cluster flags:", ""},
		"--help":                {[]string{"explain", "--help"}, exitOK, "Request flags:", ""},
		"-h":                    {[]string{"-h"}, exitOK, "explain", ""},
		"names of print":        {[]string{"print", "--help"}, exitOK, "run-level-guard", ""},
		"print without a name":  {[]string{"print"}, exitUsage, "", "must be one of all, bundle, checks,"},
		"print of another name": {[]string{"print", "rule"}, exitUsage, "", "did you mean rules?"},
		"a typo":                {[]string{"adit"}, exitUsage, "", "webhook-auditor: unknown command \"adit\" for \"webhook-auditor\"\n\nDid you mean this?\n audit\n"},
		"no such flag":          {[]string{"audit", "--formt", "x"}, exitUsage, "", "audit: unknown flag: --formt; see webhook-auditor audit --help"},
		"no value":              {[]string{"run", "--settle", "soon"}, exitUsage, "", `invalid argument "soon" for "--settle"`},
		"too much":              {[]string{"version", "please"}, exitUsage, "", `version: unexpected argument "please"`},
		"--version":             {[]string{"--version"}, exitOK, "webhook-auditor, version", ""},
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
		if text := c.UsageString(); strings.Contains(text, "  "+program+" ") || strings.Contains(text, "| "+program+" ") {
			t.Errorf("%s names another program:\n%s", c.CommandPath(), text)
		}
	}
}
