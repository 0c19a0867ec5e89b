package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
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

// file writes the objects in an order of its own.
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
	for _, file := range files {
		objects := must.Get((&input{}).objects([]string{file}, streams{reader: strings.NewReader(""), out: io.Discard, err: io.Discard}))(t)
		r := must.Get(classify.DefaultPolicy().Evaluate(context.Background(), objects.Snapshot(time.Now())))(t)
		h.Observe(before, r)
		before = r
	}
	return h.After(0)
}
