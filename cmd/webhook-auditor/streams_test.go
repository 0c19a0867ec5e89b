package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// hostile is a name that would set a terminal's title, clear it, hide what stands before
// it, turn its text and command a CI system.
const hostile = "policy-\x1b]0;owned\x07\x1b[2J\r\u009b31m\u202e\u2066\n::error file=x::owned\n##vso[task.complete result=Succeeded]"

// hostileInput is a file in which every name is hostile.
func hostileInput(t *testing.T) string {
	t.Helper()
	meta := map[string]any{"name": hostile, "namespace": hostile, "labels": map[string]any{hostile: hostile}}
	service := map[string]any{"namespace": hostile, "name": hostile, "port": 443}
	rules := []any{map[string]any{"apiGroups": []string{"*"}, "apiVersions": []string{"*"}, "resources": []string{"*/*"}, "operations": []string{"*"}}}
	webhook := map[string]any{
		"name": hostile, "rules": rules, "sideEffects": "None", "admissionReviewVersions": []string{"v1"},
		"clientConfig":    map[string]any{"service": service, "caBundle": "bm90IGEgYnVuZGxl"},
		"matchConditions": []any{map[string]any{"name": hostile, "expression": "nothing(" + hostile + ")"}},
		"objectSelector":  map[string]any{"matchLabels": map[string]any{hostile: hostile}},
	}
	var out strings.Builder
	for _, object := range []map[string]any{
		{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": meta, "webhooks": []any{webhook}},
		{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": meta, "webhooks": []any{hostile}},
		{"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
		{"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": map[string]any{"ports": hostile}},
		{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": map[string]any{
			"group": "example.com", "scope": "Cluster", "names": map[string]any{"plural": hostile, "kind": hostile},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		}},
	} {
		text := must.Get(json.Marshal(object))(t)
		out.WriteString("---\n" + string(text) + "\n")
	}
	return must.File(t, "input.yaml", out.String())
}

// TestHostileNames: no command lets a name move the cursor, hide or turn text, or
// begin a line as a command to a CI system does.
func TestHostileNames(t *testing.T) {
	file := hostileInput(t)
	hostileCommands := map[string][]string{}
	for _, row := range must.Rows(t, "testdata/hostile.tsv", 2) {
		hostileCommands[row[0]] = append(hostileCommands[row[0]], row[1])
	}
	for _, c := range newRoot(program, streams{}).Commands() {
		lines := hostileCommands[c.Name()]
		if len(lines) == 0 {
			t.Errorf("command %s is not tried", c.Name())
		}
		for _, line := range lines {
			args := []string{c.Name()}
			for word := range strings.FieldsSeq(line) {
				args = append(args, strings.NewReplacer("FILE", file, "NAME", hostile).Replace(word))
			}
			r := execute(t, "", args...)
			if strings.TrimSpace(r.out+r.err) == "" {
				t.Errorf("%s %s prints nothing", c.Name(), line)
			}
			for stream, text := range map[string]string{"stdout": r.out, "stderr": r.err} {
				if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) && !(r == '\t' && stream == "stdout") }); i >= 0 {
					t.Errorf("%s %s: %s has %q", c.Name(), line, stream, text[max(0, i-40):min(len(text), i+40)])
				}
				if slices.ContainsFunc(strings.Split(text, "\n"), commandsCI) {
					t.Errorf("%s %s: a line of %s is a command to a CI system:\n%s", c.Name(), line, stream, text)
				}
			}
		}
	}
}

// commandsCI reports whether GitHub, or Azure, takes the line for a command.
func commandsCI(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "::") || strings.HasPrefix(line, "##vso")
}

// TestHostileNamesAreWhole: what is escaped for terminals is read as it was.
func TestHostileNamesAreWhole(t *testing.T) {
	file := hostileInput(t)
	var document any
	if err := json.Unmarshal([]byte(execute(t, "", "audit", file, "-o", "json").out), &document); err != nil || !holds(document, hostile) {
		t.Errorf("the JSON lacks the name: %v", err)
	}
	if err := json.Unmarshal([]byte(execute(t, "", "audit", file, "-o", "sarif").out), &document); err != nil {
		t.Errorf("the SARIF: %v", err)
	}
}

// holds reports whether the value is the text, or one within it is.
func holds(value any, text string) bool {
	switch v := value.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, func(each any) bool { return holds(each, text) })
	case map[string]any:
		for _, each := range v {
			if holds(each, text) {
				return true
			}
		}
	}
	return false
}
