package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

type result struct {
	out, err string
	code     int
}

func execute(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := exit(run(t.Context(), args, streams{reader: strings.NewReader(stdin), out: &out, err: &err}), &err)
	return result{out.String(), err.String(), code}
}

// pod is an object, on whose label and containers the webhook depends.
func pod(team, privileged string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {team: " + team + "}}\n" +
		"spec: {containers: [{name: web, image: web, securityContext: {privileged: " + privileged + "}}]}\n"
}

func TestExplainObject(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		args   []string
		// called and skipped say what becomes of the webhook: yes, maybe, or why
		// it is skipped.
		want, namespace string
	}{
		"nothing known":      {"", []string{"create", "pods"}, "maybe", "default"},
		"called":             {pod("a", "true"), nil, "yes", "shop"},
		"another label":      {pod("b", "true"), nil, "objectSelector", "shop"},
		"another value":      {pod("a", "false"), nil, "matchConditions", "shop"},
		"a field that lacks": {strings.Replace(pod("a", "true"), "securityContext", "resources", 1), nil, "matchConditions", "shop"},
		"after a marker":     {"# a comment\n---\n" + pod("a", "true") + "---\n", nil, "yes", "shop"},
		"another operation":  {pod("a", "true"), []string{"update"}, "rules", "shop"},
		"another resource":   {pod("a", "true"), []string{"create", "pods/eviction"}, "rules", "shop"},
		"its namespace":      {pod("a", "true"), []string{"-n", "shop"}, "yes", "shop"},
		"another namespace":  {strings.Replace(pod("a", "true"), "namespace: shop, ", "", 1), []string{"-n", "other"}, "yes", "other"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"explain", "-o", "json", "--from", "testdata/webhooks.yaml"}, tc.args...)
			if tc.object != "" {
				args = append(args, "-f", "-")
			}
			r := execute(t, tc.object, args...)
			var e report.Explanation
			if err := json.Unmarshal([]byte(r.out), &e); err != nil || r.code != exitOK {
				t.Fatalf("exit code %d, stderr %q: %v", r.code, r.err, err)
			}
			var got strings.Builder
			for _, step := range e.Chain {
				got.WriteString(string(step.Called))
			}
			for _, step := range e.Skipped {
				got.WriteString(string(step.Why))
			}
			if got.String() != tc.want || e.Request.Namespace != tc.namespace {
				t.Errorf("%s in namespace %s, want %s in %s", got.String(), e.Request.Namespace, tc.want, tc.namespace)
			}
		})
	}
}

// TestExplainObjectThatIsTooLong: what is cut off could be a second object.
func TestExplainObjectThatIsTooLong(t *testing.T) {
	long := pod("a", "true") + strings.Repeat("# more\n", maxObject/len("# more\n"))
	r := execute(t, long, "explain", "-f", "-", "--from", "testdata/webhooks.yaml")
	if r.code != exitUsage || !strings.Contains(r.err, "has more than 16 MiB") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}

const refusal = `Error from server (InternalError): Internal error occurred: failed calling webhook "images.policy.example.com": failed to call webhook: Post "https://policy.policy.svc:443/?timeout=10s": service "policy" not found`

func TestExplainError(t *testing.T) {
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		want  []string
	}{
		"text":           {"", []string{"--error", refusal}, []string{"images.policy.example.com: service-missing", "testdata/webhooks.yaml:6", "validating · policy", "fix:"}},
		"standard input": {"I1121 all is well\nE1121 " + strings.ReplaceAll(refusal, `"`, `\"`) + "\n", []string{"--error", "-"}, []string{"service-missing", "webhook:"}},
		"a ghost":        {"", []string{"--error", strings.ReplaceAll(refusal, "images", "gone")}, []string{"No configuration in the input registers webhook gone.policy.example.com", "is called by webhook images.policy.example.com of validatingwebhookconfiguration policy"}},
		"JSON":           {"", []string{"--error", refusal, "-o", "json"}, []string{`"cause": "service-missing"`, `"configuration": "policy"`, `"line": 6`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.stdin, append([]string{"explain", "--from", "testdata/webhooks.yaml"}, tc.args...)...)
			if r.code != exitOK {
				t.Errorf("exit code %d: %s", r.code, r.err)
			}
			expect.Contains(t, squeezed(r.out), tc.want...)
		})
	}
}

// TestExplainErrorWithoutACluster: in the outage that an error is about, or without a
// cluster, the message alone is explained.
func TestExplainErrorWithoutACluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	conversion := strings.Replace(refusal, `webhook "images.policy.example.com": failed to call webhook`, `X`, 1)
	conversion = strings.Replace(conversion, `failed calling X`, `conversion webhook for example.com/v1, Kind=Shop failed`, 1)
	elsewhere := strings.ReplaceAll(refusal, "https://policy.policy.svc:443/", "https://hook.example.com/")
	agent := session(t)
	const look, alone = "kubectl get deploy,svc,endpointslices,pods -n policy", "From the message alone: --kubeconfig or --from PATH adds what is registered.\n"
	for name, tt := range map[string]struct{ message, subject, look string }{
		"a webhook":    {refusal, "Webhook images.policy.example.com: service-missing", look},
		"a conversion": {conversion, "Conversion of example.com/v1, Kind=Shop: service-missing", look},
		"a URL":        {elsewhere, "Webhook images.policy.example.com: service-missing", ""},
		"Pods":         {strings.ReplaceAll(refusal, `service "policy" not found`, `no endpoints available for service "policy"`), "no-ready-endpoints", "kubectl get endpointslices,pods -n policy"},
		"a denial":     {`admission webhook "w.example.com" denied the request: no`, "Webhook w.example.com: denied", ""},
		"a policy":     {`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, "Policy p with binding b", ""},
		"a plugin":     {`Timeout: request did not complete within requested timeout - context deadline exceeded`, "request-timeout", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", "explain", "--error", tt.message)
			expect.Contains(t, r.out, tt.subject, "fix:", alone)
			looks := strings.Contains(r.out, "look:")
			if r.code != exitOK || r.err != "" || strings.Contains(r.out, "input") || looks != (tt.look != "") || !strings.Contains(r.out, tt.look+"\n") {
				t.Errorf("exit code %d, want %q: %s%s", r.code, tt.look, r.out, r.err)
			}
			answer := must.Get(agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "explain", Arguments: map[string]any{"error": tt.message}}))(t)
			if answer.IsError || textOf(answer) != r.out {
				t.Errorf("mcp: %s", textOf(answer))
			}
		})
	}
	r := execute(t, "", "explain", "--error", refusal, "--context", "none")
	expect.Contains(t, r.out, look, alone)
	expect.Contains(t, r.err, "the cluster: ")
	if r.code != exitError {
		t.Errorf("a cluster that is named and cannot be read: exit code %d", r.code)
	}
}

// TestExplainLeavesUnreadOpen: where not all policies or configurations could be read, the
// answer says so; files without an error are taken as they are.
func TestExplainLeavesUnreadOpen(t *testing.T) {
	forbidden := func(resource string) inventory.Objects {
		return inventory.Objects{Cluster: inventory.Cluster{PoliciesKnown: true}, Errors: []inventory.Error{{Resources: resource + ".admissionregistration.k8s.io"}}}
	}
	for _, test := range []struct {
		objects inventory.Objects
		note    string
		verdict string
	}{
		{inventory.Objects{}, "not all admission policies were read", "meets no webhook."},
		{inventory.Objects{Cluster: inventory.Cluster{PoliciesKnown: true}}, "", "meets no webhook."},
		{inventory.Objects{Cluster: inventory.Cluster{Inputs: []inventory.Input{{Path: "webhooks.yaml", Kind: "manifests"}}}}, "", "no configuration was read."},
		{forbidden("validatingwebhookconfigurations"), "not all validatingwebhookconfigurations were read", "meets no webhook of those that can be read."},
		{forbidden("mutatingwebhookconfigurations"), "not all mutatingwebhookconfigurations were read", "meets no webhook of those that can be read."},
		{forbidden("validatingadmissionpolicies"), "", "meets no webhook."},
	} {
		snapshot := test.objects.Snapshot(time.Now())
		chain := must.Get(requestArguments{operation: "create", resource: "pods"}.chain(knowledge{Matcher: admission.New(snapshot)}))(t)
		if notes := strings.Join(chain.Request.Notes, "\n"); !strings.Contains(notes, test.note) || test.note == "" && strings.Contains(notes, "were read") {
			t.Errorf("with inputs %v, errors %v: notes %q", snapshot.Inputs, snapshot.Errors, notes)
		}
		if got := report.NewExplanation(chain, snapshot).Verdict(); !strings.HasSuffix(got, test.verdict) {
			t.Errorf("with errors %v: %q, want %q", snapshot.Errors, got, test.verdict)
		}
	}
}

// TestExplainAgreesWithFindings: the webhooks that explain says cannot be called are those whose
// calls fail by a finding.
func TestExplainAgreesWithFindings(t *testing.T) {
	asked, failing := 0, 0
	for _, file := range must.Get(filepath.Glob("../../pkg/classify/testdata/*.yaml"))(t) {
		objects, _ := manifest.Read([]string{file}, manifest.Options{})
		r := must.Get(classify.DefaultPolicy().Evaluate(t.Context(), objects.Snapshot(time.Now())))(t)
		var fails []inventory.Ref
		for _, f := range r.Findings { // of a matchCondition, for some resources
			if f.Check.Fails() && f.Severity > classify.Info && f.Check.Name != "failing-match-condition" {
				fails = append(fails, f.Webhook)
			}
		}
		for _, p := range r.Profiles {
			if len(p.Matched) == 0 || p.State.Fault != inventory.Sound && !p.State.Certain() {
				continue
			}
			first := p.Matched[0]
			operations := lists.Filter(p.Matcher.Operations(first.Resource), first.Operations.Has)
			if len(operations) == 0 {
				continue
			}
			ask := requestArguments{operation: string(operations[0]), resource: first.Resource.String()}
			chain, err := ask.chain(knowledge{Matcher: p.Matcher})
			if err != nil {
				continue
			}
			for _, s := range report.NewExplanation(chain, p.Snapshot).Chain {
				if s.Ref == p.Ref && s.Called == admission.Yes {
					asked++
					isFailing := slices.Contains(fails, p.Ref)
					if isFailing {
						failing++
					}
					if isDead := s.Unreachable != ""; isDead != isFailing {
						t.Errorf("%s: %s: explain says it is %q, findings that calls fail: %t", file, p.Name, s.Unreachable, isFailing)
					}
				}
			}
		}
	}
	if failing < 8 || asked < 100 {
		t.Errorf("asked about %d webhooks only, of which %d fail", asked, failing)
	}
}

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

// TestVerbs: kubectl's own verbs are operations.
func TestVerbs(t *testing.T) {
	from := []string{"-n", "shop", "--from", "testdata/webhooks.yaml"}
	for want, args := range map[string][]string{
		"UPDATE deployments.apps/scale web in shop meets": {"explain", "scale", "deployments", "web"},
		"a server-side apply of pods is a CREATE":         {"explain", "apply", "pods"},
	} {
		expect.Contains(t, squeezed(execute(t, "", append(args, from...)...).out), want)
	}
}

// TestVersion: nothing that is unknown is printed.
func TestVersion(t *testing.T) {
	if text := execute(t, "", "version").out; strings.Count(text, "\n") != 1 || strings.Contains(text, "branch") {
		t.Errorf("the version is %q", text)
	}
}
