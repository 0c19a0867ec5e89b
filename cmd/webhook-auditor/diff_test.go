package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// rewritten is a copy of the cluster of the tests of impact with a text replaced.
func rewritten(t *testing.T, old, updated string) string {
	t.Helper()
	text := must.Get(os.ReadFile(impactCluster))(t)
	return must.File(t, "cluster.yaml", strings.ReplaceAll(string(text), old, updated))
}

// TestDiff: what is added makes the exit code, and what cannot be read wins over it.
func TestDiff(t *testing.T) {
	ignoring, slow := rewritten(t, "failurePolicy: Fail", "failurePolicy: Ignore"), rewritten(t, "timeoutSeconds: 5", "timeoutSeconds: 25")
	unreadable := must.File(t, "unreadable.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: [")
	namespaceAlone := must.File(t, "namespace.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	empty := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":          {[]string{impactCluster, impactCluster}, exitOK, "No registration of a webhook changes."},
		"added":            {[]string{impactCluster, slow, "--fail-on", "info"}, exitFindings, "timeoutSeconds 5 → 25"},
		"below the limit":  {[]string{impactCluster, slow}, exitOK, "the worst case of CREATE/DELETE of pods grows from 5 s to 25 s"},
		"resolved":         {[]string{impactCluster, ignoring, "--fail-on", "info"}, exitOK, "RESOLVED"},
		"the reverse":      {[]string{ignoring, impactCluster, "--fail-on", "warning", "-o", "markdown"}, exitFindings, "requests are refused instead of passing without it"},
		"unreadable":       {[]string{impactCluster, unreadable, "--fail-on", "info"}, exitError, ""},
		"unreadable OLD":   {[]string{unreadable, impactCluster}, exitError, ""},
		"unreadable patch": {[]string{unreadable, "--from", impactCluster}, exitError, ""},
		"an empty NEW":     {[]string{impactCluster, "-"}, exitError, ""},
		"an empty OLD":     {[]string{empty, impactCluster}, exitError, ""},
		"nothing to apply": {[]string{"-", "--from", impactCluster}, exitError, ""},
		"without webhooks": {[]string{impactCluster, namespaceAlone}, exitError, ""},
		"allowed to be so": {[]string{impactCluster, empty, "--allow-empty"}, exitOK, "is deleted"},
		"misspelt":         {[]string{impactCluster, "testdata/nowhere.yaml"}, exitUsage, ""},
		"misspelt from":    {[]string{impactCluster, "--from", "testdata/nowhere.yaml"}, exitUsage, ""},
		"what both lack":   {[]string{namespaceAlone, "--from", namespaceAlone, "--allow-empty"}, exitOK, "EndpointSlices, Pods or workloads"},
		"applied to files": {[]string{namespaceAlone, "--from", impactCluster}, exitOK, "No registration of a webhook changes."},
		"from and OLD":     {[]string{impactCluster, impactCluster, "--from", impactCluster}, exitUsage, ""},
		"no path":          {nil, exitUsage, ""},
		"too many":         {[]string{"a", "b", "c"}, exitUsage, ""},
		"one input twice":  {[]string{"-", "-"}, exitUsage, ""},
		"a format":         {[]string{impactCluster, impactCluster, "-o", "sarif"}, exitUsage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", append([]string{"diff"}, tc.args...)...)
			if r.code != tc.code || !strings.Contains(squeezed(r.out), tc.want) || tc.code == exitError && (r.out != "" || r.err == "") {
				t.Errorf("exit code %d, want %d, with %q:\n%s\n%s", r.code, tc.code, tc.want, r.out, r.err)
			}
		})
	}
}

// TestDiffChecksNew: NEW is checked as it is written, whether OLD is a file beside it, a
// cluster that it is applied to, or that of a tool of mcp.
func TestDiffChecksNew(t *testing.T) {
	configuration := func(webhooks ...string) string {
		var out strings.Builder
		out.WriteString("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: policy}, webhooks: [")
		for i, operations := range webhooks {
			out.WriteString(fmt.Sprintf("{name: w%d.example.com, clientConfig: {url: \"https://a.example.com\"}, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [apps], apiVersions: [v1], operations: [%s], resources: [deployments]}]},", i, operations))
		}
		return out.String() + "]}\n"
	}
	crd := func(conversion string) string {
		return "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Namespaced," +
			"names: {plural: widgets, kind: Widget}, versions: [{name: v1, served: true, storage: true}], conversion: " + conversion + "}}\n"
	}
	const url = `{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://a.example.com"}}}`
	for name, tc := range map[string]struct{ old, updated, want string }{
		"one webhook more":       {configuration("CREATE"), configuration("CREATE", "UPDATE"), "webhook w1.example.com: added"},
		"one less":               {configuration("CREATE", "UPDATE"), configuration("CREATE"), "webhook w1.example.com: deleted"},
		"a conversion more":      {crd("{strategy: None}"), crd(url), "widgets.example.com is added"},
		"a conversion less":      {crd(url), crd("{strategy: None}"), "widgets.example.com is deleted"},
		"refused":                {configuration("CREATE"), configuration(`CREATE, "*"`), "refused-by-api"},
		"refused, and one more":  {configuration("CREATE"), configuration("CREATE", `CREATE, "*"`), "refused-by-api"},
		"refused, a conversion":  {crd("{strategy: None}"), crd("{strategy: Webhook, webhook: {clientConfig: {url: \"https://a.example.com\"}}}"), "refused-by-api"},
		"refused before alone":   {configuration(`CREATE, "*"`), configuration("CREATE"), "RESOLVED"},
		"another configuration":  {strings.ReplaceAll(configuration("CREATE"), "policy", "other"), configuration("CREATE"), "webhook w0.example.com: added"},
		"a stored one of a dump": {strings.ReplaceAll(configuration("CREATE"), "name: policy", "name: policy, uid: a, resourceVersion: '1'"), configuration(`CREATE, "*"`, "UPDATE"), "refused-by-api"},
	} {
		t.Run(name, func(t *testing.T) {
			old, updated := must.File(t, "old.yaml", tc.old), must.File(t, "new.yaml", tc.updated)
			agent := agents{source{access: &clusterFlags{}, input: &input{}, paths: []string{old}}}
			answer := must.Get(agent.diff(diffTool{Manifests: tc.updated}))(t).answer(t.Context())
			for source, out := range map[string]string{
				"OLD NEW": execute(t, "", "diff", old, updated, "--fail-on", "never").out,
				"--from":  execute(t, "", "diff", "--from", old, updated, "--fail-on", "never").out,
				"mcp":     textOf(answer),
			} {
				if !strings.Contains(squeezed(out), tc.want) {
					t.Errorf("%s: no %q:\n%s", source, tc.want, out)
				}
			}
		})
	}
}

// TestDiffOfUnread: what one side has, and cannot be read of the other, is neither added nor
// deleted, and its findings neither added nor resolved.
func TestDiffOfUnread(t *testing.T) {
	const policy = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: limits}, spec: {failurePolicy: Fail}}`
	text := string(must.Get(os.ReadFile(impactCluster))(t)) + "\n---\n" + policy
	for name, rest := range map[string]string{
		"broken YAML":   "{apiVersion: v1, kind: Namespace, metadata: {name: [",
		"broken object": "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: policy}, webhooks: 1}",
	} {
		partial := must.File(t, "partial.yaml", "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: other}}\n---\n"+rest)
		for _, args := range [][]string{{partial, "-"}, {"-", partial}, {"-", "--from", partial}} {
			r := execute(t, text, append([]string{"diff", "--fail-on", "never"}, args...)...)
			if out := squeezed(r.out); r.code != exitError || !strings.Contains(out, "Not compared: one side has them") ||
				strings.Contains(out, "pods.policy.example.com: added") || strings.Contains(out, "ADDED\nc pods.policy") {
				t.Errorf("%s, %v: exit code %d:\n%s%s", name, args, r.code, r.out, r.err)
			}
			if broken := name == "broken YAML"; strings.Contains(r.out, "limits (added)") == broken && args[0] == partial {
				t.Errorf("%s, %v: %s", name, args, r.out)
			}
		}
	}
}

// TestDiffReadsStandardInput: what helm template writes is compared with a file.
func TestDiffReadsStandardInput(t *testing.T) {
	text := must.Get(os.ReadFile(rewritten(t, "timeoutSeconds: 5", "timeoutSeconds: 7")))(t)
	r := execute(t, string(text), "diff", impactCluster, "-", "-o", "json")
	var c report.Changes
	if err := json.Unmarshal([]byte(r.out), &c); err != nil || r.code != exitOK {
		t.Fatalf("exit code %d: %v: %s", r.code, err, r.err)
	}
	if len(c.Registrations) != 1 || c.Registrations[0].Webhooks[0].Fields[0].After != "7" || c.Budgets[0].AfterSeconds != 7 {
		t.Errorf("%+v", c)
	}
}

// TestUnreadableAfterBaseline: nothing is resolved by what cannot be read.
func TestUnreadableAfterBaseline(t *testing.T) {
	unreadable := must.File(t, "unreadable.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: [")
	r := execute(t, "", "audit", unreadable, "--baseline", written(t, impactCluster))
	if r.code != exitError || r.out != "" || !strings.Contains(r.err, "cannot read") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}

// TestDiffNamesPolicies: they are not compared, and that is printed where they differ.
func TestDiffNamesPolicies(t *testing.T) {
	const text = `
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: limits}, spec: {failurePolicy: Fail,
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}, validations: [{expression: "true"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: all}, spec: {policyName: limits, validationActions: [Deny]}}
`
	before, namespace := must.File(t, "before.yaml", text), "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"
	for old, now := range map[string]string{"Fail": "Ignore", "[CREATE]": "[DELETE]", "[Deny]": "[Audit]", "resources": "scope: Cluster, resources", `"true"`: `"false"`} {
		want := map[string]string{"Fail": "failurePolicy Fail → Ignore", "[Deny]": "bindings", `"true"`: "validations"}[old]
		r := execute(t, strings.Replace(text, old, now, 1), "diff", before, "-")
		if want = "ValidatingAdmissionPolicy limits (" + cmp.Or(want, "matchConstraints") + ")"; !strings.Contains(r.out, "Not compared") || !strings.Contains(r.out, want) {
			t.Errorf("%s: no %q: %s%s", now, want, r.out, r.err)
		}
	}
	for name, r := range map[string]result{
		"deleted": execute(t, namespace, "diff", before, "-", "--allow-empty"),
		"added":   execute(t, text, "diff", "-", "--from", must.File(t, "namespace.yaml", namespace)),
	} {
		if want := "ValidatingAdmissionPolicy limits (" + name + ")"; !strings.Contains(r.out, want) {
			t.Errorf("no %q: %s%s", want, r.out, r.err)
		}
	}
	if r := execute(t, text, "diff", before, "-"); strings.Contains(r.out, "Not compared") {
		t.Errorf("nothing differs: %s", r.out)
	}
}
