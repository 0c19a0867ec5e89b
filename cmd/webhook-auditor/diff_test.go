package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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

// TestDiffLeavesOpen: of no check is a finding on the same registration resolved as NEW lacks
// Services, Deployments or all that registers nothing, but where it is about what is applied together.
func TestDiffLeavesOpen(t *testing.T) {
	kindOf := regexp.MustCompile(`(?m)(?:^|[{ ])kind: (\w+)`)
	conversion := regexp.MustCompile("conver[st]ion:") // misspelt in one fixture
	leftOpen := 0
	for _, file := range must.Get(filepath.Glob(fixtures + "*.yaml"))(t) {
		var all []string
		var registered []string
		others := map[string][]string{}
		for text := range strings.SplitSeq(string(must.Get(os.ReadFile(file))(t)), "\n---\n") {
			all = append(all, text)
			kind := ""
			if m := kindOf.FindStringSubmatch(text); m != nil {
				kind = m[1]
			}
			if strings.HasSuffix(kind, "WebhookConfiguration") || strings.HasSuffix(kind, "AdmissionPolicy") || conversion.MatchString(text) {
				registered = append(registered, text)
			} else {
				others[kind] = append(others[kind], text)
			}
		}
		old := must.File(t, "old.yaml", strings.Join(all, "\n---\n"))
		for _, kind := range []string{"Service", "Deployment", "all"} {
			if kind != "all" && others[kind] == nil {
				continue
			}
			left := slices.Clone(registered)
			for other, texts := range others {
				if other != kind && kind != "all" {
					left = append(left, texts...)
				}
			}
			updated := must.File(t, "new.yaml", strings.Join(left, "\n---\n"))
			flags := []string{"-o", "json", "--fail-on", "never", "--allow-empty", "--checks", "label-opt-out,any-pod-may-call"}
			asked := [][]string{{"diff", old, updated}}
			if kind == "all" { // a report says of whole kinds alone that they lack
				asked = append(asked, []string{"audit", updated, "--baseline", written(t, old, "--allow-empty")})
			}
			for _, args := range asked {
				r := execute(t, "", append(args, flags...)...)
				var c report.Comparison
				if err := json.Unmarshal([]byte(r.out), &c); err != nil {
					t.Fatalf("%s of %s without %s: %v: %s", args[0], file, kind, err, r.err)
				}
				leftOpen += len(c.NotChecked)
				for _, f := range c.Resolved {
					if !slices.Contains([]string{"install-order", "uninstall-order"}, f.Check) {
						t.Errorf("%s of %s without %s: %s of %s is resolved", args[0], filepath.Base(file), kind, f.Check, f.Name)
					}
				}
			}
		}
	}
	if leftOpen < 300 {
		t.Errorf("%d findings are left open: are the fixtures read?", leftOpen)
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

// pairMaker makes objects of all kinds that are applied, some of which no API server takes.
type pairMaker struct{ *rand.Rand }

func (m pairMaker) one(values ...string) string { return values[m.IntN(len(values))] }

func (m pairMaker) rules() string {
	return fmt.Sprintf(`[{"apiGroups":[%s],"apiVersions":["v1"],"operations":[%s],"resources":[%s]}]`, m.one(`""`, `"apps"`, `"*"`, `"example.com"`),
		m.one(`"CREATE"`, `"CREATE","UPDATE"`, `"*"`, `"CREATE","*"`, `"DELETE"`), m.one(`"pods"`, `"deployments"`, `"*"`, `"*/*"`, `"secrets","pods/exec"`, `"widgets"`))
}

func (m pairMaker) client() string {
	return m.one(`{"url":"https://a.example.com/x"}`, `{"service":{"namespace":"shop","name":"web"}}`, `{"service":{"namespace":"shop","name":"web","port":8443}}`,
		`{"service":{"namespace":"gone","name":"web"}}`, `{"url":"http://a.example.com"}`, `{}`)
}

func (m pairMaker) webhooks() string {
	var out []string
	for range m.IntN(3) {
		out = append(out, fmt.Sprintf(`{"name":"w%d.example.com","clientConfig":%s,"rules":%s,"sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"%s","timeoutSeconds":%s%s}`,
			m.IntN(3), m.client(), m.rules(), m.one("Fail", "Ignore"), m.one("1", "10", "30", "40"),
			m.one("", "", `,"namespaceSelector":{"matchLabels":{"team":"shop"}}`, `,"matchConditions":[{"name":"a","expression":"object.x =="}]`, `,"objectSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}`)))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// object is the text of the object of a key, "KIND NAME".
func (m pairMaker) object(key string) string {
	kind, name, _ := strings.Cut(key, " ")
	version, rest := "admissionregistration.k8s.io/v1", ""
	switch kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		rest = `,"webhooks":` + m.webhooks()
	case "ValidatingAdmissionPolicy":
		rest = fmt.Sprintf(`,"spec":{"failurePolicy":"%s","matchConstraints":{"resourceRules":%s},"validations":[{"expression":"%s"}]}`, m.one("Fail", "Ignore"), m.rules(), m.one("true", "object.x =="))
	case "MutatingAdmissionPolicy":
		rest = fmt.Sprintf(`,"spec":{"failurePolicy":"%s","reinvocationPolicy":"%s","matchConstraints":{"resourceRules":%s},"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"%s"}}]}`, m.one("Fail", "Ignore"), m.one("Never", "IfNeeded"), m.rules(), m.one("[]", "object.x =="))
	case "MutatingAdmissionPolicyBinding":
		rest = fmt.Sprintf(`,"spec":{"policyName":"%s"}`, m.one("a", "b", "gone"))
	case "ValidatingAdmissionPolicyBinding":
		rest = fmt.Sprintf(`,"spec":{"policyName":"%s","validationActions":[%s]}`, m.one("a", "b", "gone"), m.one(`"Deny"`, `"Audit"`, ""))
	case "CustomResourceDefinition":
		version, name = "apiextensions.k8s.io/v1", name+"s.example.com"
		conversion := m.one(`{"strategy":"None"}`, `{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":`+m.client()+`}}`, `{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://a"}}}`)
		rest = fmt.Sprintf(`,"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"%ss","kind":"W"},"versions":[{"name":"v1","served":true,"storage":true}],"conversion":%s}`, strings.TrimSuffix(name, "s.example.com"), conversion)
	case "Namespace":
		version, rest = "v1", ""
	case "Service":
		version, rest = "v1", fmt.Sprintf(`,"spec":{"clusterIP":"10.0.0.1","selector":{"app":"%s"},"ports":[{"port":%s}]}`, m.one("web", "other"), m.one("443", "8443"))
	case "Deployment":
		version, rest = "apps/v1", fmt.Sprintf(`,"spec":{"replicas":%s,"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"a","ports":[{"containerPort":443}]}]}}}`, m.one("0", "1", "2"))
	case "PodDisruptionBudget":
		version, rest = "policy/v1", `,"spec":{"minAvailable":`+m.one("0", "1")+`,"selector":{"matchLabels":{"app":"web"}}}`
	case "NetworkPolicy":
		version, rest = "networking.k8s.io/v1", `,"spec":{"podSelector":{"matchLabels":{"app":"web"}},"policyTypes":["Ingress"]}`
	}
	namespace := ""
	if slices.Contains([]string{"Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"}, kind) {
		namespace = `,"namespace":"shop"`
	}
	return fmt.Sprintf(`{"apiVersion":"%s","kind":"%s","metadata":{"name":"%s"%s}%s}`, version, kind, name, namespace, rest)
}

// pair are the objects before, those that are applied, and what is there then, by key.
func (m pairMaker) pair() (old, applied, after map[string]string) {
	old, applied = map[string]string{}, map[string]string{"Namespace shop": m.object("Namespace shop")}
	for _, kind := range []string{
		"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "CustomResourceDefinition", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy",
	} {
		for _, name := range []string{"a", "web"} {
			key := kind + " " + name
			text := m.object(key)
			switch m.IntN(6) {
			case 0:
				old[key] = text
			case 1:
				applied[key] = text
			case 2:
				old[key], applied[key] = text, text
			case 3:
				old[key], applied[key] = text, m.object(key)
			}
		}
	}
	after = maps.Clone(old)
	maps.Copy(after, applied)
	return old, applied, after
}

func (m pairMaker) file(t *testing.T, name string, objects map[string]string) string {
	t.Helper()
	texts := slices.Sorted(maps.Values(objects))
	m.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	return must.File(t, name, strings.Join(texts, "\n---\n"))
}

// changesOf is the answer of a call, without what names its files and times.
func changesOf(t *testing.T, c call) report.Changes {
	t.Helper()
	var out report.Changes
	answer := textOf(c.answer(t.Context()))
	if err := json.NewDecoder(strings.NewReader(answer)).Decode(&out); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	for _, findings := range []*[]report.Finding{&out.Added, &out.Resolved} {
		*findings = slices.DeleteFunc(*findings, func(f report.Finding) bool { return strings.HasSuffix(f.Check, "install-order") }) // is about one file
		for i := range *findings {
			(*findings)[i].Source = inventory.Source{}
		}
		slices.SortFunc(*findings, func(a, b report.Finding) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	for i := range out.Errors {
		out.Errors[i].Source, out.Errors[i].Line = "", 0
	}
	slices.SortFunc(out.Errors, func(a, b report.Error) int { return strings.Compare(a.Message, b.Message) })
	out.Errors = slices.Compact(out.Errors)
	out.Inputs, out.Taken, out.Baseline.Taken, out.Totals = nil, time.Time{}, time.Time{}, report.ComparisonTotals{}
	return out
}

// TestDiffOfPairs: OLD and NEW, of generated objects, differ alike whether NEW is all that
// there is then, is applied to OLD, or is given to a tool; the changes that run records are
// those; and each form is written. PAIRS=2000 makes so many, from the seed PAIRS_SEED on.
func TestDiffOfPairs(t *testing.T) {
	pairs, first := number("PAIRS", 8), number("PAIRS_SEED", 1)
	for seed := first; seed < first+pairs; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { comparePair(t, pairMaker{rand.New(rand.NewPCG(uint64(seed), 0))}) })
	}
}

func number(variable string, preset int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return preset
}

func comparePair(t *testing.T, m pairMaker) {
	old, applied, after := m.pair()
	before, updated, whole := m.file(t, "old.yaml", old), m.file(t, "new.yaml", applied), m.file(t, "whole.yaml", after)
	run := func(format, file string, sources ...string) call {
		d := &diff{source: source{access: &clusterFlags{}, input: &input{allowEmpty: true}, paths: sources}, output: format, failOn: never}
		if len(sources) > 0 {
			return call{run: d.run, args: []string{file}}
		}
		return call{run: d.run, args: []string{before, file}}
	}
	want := changesOf(t, run("json", whole))
	expect.Equal(t, want, changesOf(t, run("json", updated, before)))
	agent := agents{source{access: &clusterFlags{}, input: &input{allowEmpty: true}, paths: []string{before}}}
	expect.Equal(t, want, changesOf(t, must.Get(agent.diff(diffTool{Manifests: string(must.Get(os.ReadFile(updated))(t)), Format: "json"}))(t)))
	for _, c := range []call{run("markdown", whole), run("text", updated, before), run("text", updated)} {
		if text := textOf(c.answer(t.Context())); text == "" || strings.Contains(text, "met a fault") {
			t.Errorf("%v: %s", c.args, text)
		}
	}
	reverse := changesOf(t, call{run: (&diff{source: source{access: &clusterFlags{}, input: &input{allowEmpty: true}}, output: "json", failOn: never}).run, args: []string{whole, before}})
	expect.Equal(t, len(want.Registrations), len(reverse.Registrations))
	recorded := history(t, before, whole)
	for _, r := range want.Registrations {
		if !slices.ContainsFunc(recorded, func(c impact.PastChange) bool {
			return c.Type == r.Type && c.Configuration == r.Configuration && c.Edit == r.Edit
		}) {
			t.Errorf("run records no change of %s %s", r.Type, r.Configuration)
		}
	}
	for _, policy := range want.Policies {
		if !slices.ContainsFunc(recorded, func(c impact.PastChange) bool {
			return strings.HasPrefix(policy, c.Type.RegisteredBy().Kind+" "+c.Configuration+" (")
		}) {
			t.Errorf("run records no change of %s", policy)
		}
	}
	expect.Equal(t, len(want.Registrations)+len(want.Policies), len(recorded))
	for _, c := range recorded {
		for _, line := range c.Resolved {
			says := func(f report.Finding) bool {
				return strings.HasPrefix(line.Text, fmt.Sprintf("%s: %s: ", f.Severity, f.Check)) && strings.Contains(line.Text, f.Name) &&
					(strings.HasSuffix(line.Text, " "+f.Message) || strings.HasSuffix(line.Text, "…"))
			}
			if line.Severity != 0 && !strings.Contains(line.Text, "install-order: ") && !slices.ContainsFunc(want.Resolved, says) {
				t.Errorf("run records as resolved: %s, diff %v", line.Text, want.Resolved)
			}
		}
	}
	var named strings.Builder
	named.WriteString(fmt.Sprint(want.Policies, want.Unread, want.Errors))
	for _, r := range want.Registrations {
		named.WriteString(" " + r.Type.RegisteredBy().Kind + " " + r.Configuration)
	}
	for key, text := range after { // each is named
		kind, name, _ := strings.Cut(key, " ")
		registers := strings.HasSuffix(kind, "WebhookConfiguration") && text != old[key] && strings.Contains(text+old[key], "clientConfig") || strings.HasSuffix(kind, "AdmissionPolicy") && text != old[key]
		if registers && !strings.Contains(named.String(), kind+" "+name) {
			t.Errorf("no line names %s:\n%s\n%s", key, old[key], text)
		}
	}
}

// history are the changes that run records of the files, one after the other.
func history(t *testing.T, files ...string) []impact.PastChange {
	t.Helper()
	var h impact.History
	var before *classify.Report
	var last inventory.Objects
	evaluated := func(o inventory.Objects) *classify.Report {
		return must.Get(classify.DefaultPolicy().Evaluate(context.Background(), o.Snapshot(time.Now())))(t)
	}
	for _, file := range files {
		objects := must.Get((&input{}).objects([]string{file}, streams{reader: strings.NewReader(""), out: io.Discard, err: io.Discard}))(t)
		r := evaluated(objects)
		h.ObserveInput(before, r, evaluated(objects.CompletedBy(last)))
		before, last = r, objects
	}
	return h.After(0)
}
