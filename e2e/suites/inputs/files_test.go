package inputs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// sound is a configuration that every bad file comes with: it must be reported
// all the same.
const sound = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: sound}
webhooks:
- name: sound.example.com
  clientConfig: {service: {namespace: tools, name: hook}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [secrets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// bad is a configuration whose first webhook has a client configuration and
// selectors of one's choice.
const bad = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: bad}
webhooks:
- name: first.example.com
  clientConfig: {CLIENT}
  namespaceSelector: {SELECTOR}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [secrets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
- name: second.example.com
  clientConfig: {service: {namespace: tools, name: hook}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [secrets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// truncated ends in the middle of a string.
const truncated = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: bad
webhooks:
- name: "first.exam`

// badConfiguration fills bad in.
func badConfiguration(client, selector string) string {
	return strings.NewReplacer("{CLIENT}", "{"+client+"}", "{SELECTOR}", "{"+selector+"}").Replace(bad)
}

const reachable = "service: {namespace: tools, name: hook}"

// TestBadFiles audits a file that cannot be understood next to a sound one. An
// error names file, line and object; nothing else is lost.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		line       int
		want       []string // parts of the error's message
		lost       bool     // nothing of the bad file can be audited
	}{
		{
			name: "selector", text: badConfiguration(reachable, "matchExpressions: [{key: team, operator: Sometimes, values: [a]}]"),
			line: 5, want: []string{"ValidatingWebhookConfiguration/bad", "namespaceSelector", "first.example.com", "Sometimes"},
		},
		{
			name: "CA bundle that is no base64", text: badConfiguration(reachable+`, caBundle: "%%%"`, ""),
			line: 6, want: []string{"ValidatingWebhookConfiguration/bad", "webhooks[0].clientConfig.caBundle", "base64"},
		},
		{
			name: "URL", text: badConfiguration(`url: "https://[::1/validate?token=secret"`, ""),
			line: 5, want: []string{"ValidatingWebhookConfiguration/bad", "url", "first.example.com", "missing ']' in host"},
		},
		{
			name: "unknown version", text: strings.Replace(badConfiguration(reachable, ""), "k8s.io/v1", "k8s.io/v7", 1),
			line: 1, want: []string{"ValidatingWebhookConfiguration/bad", "admissionregistration.k8s.io/v7"}, lost: true,
		},
		{
			name: "truncated", text: truncated,
			line: 6, want: []string{"ValidatingWebhookConfiguration/bad", "not YAML"}, lost: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "bad.yaml")
			testenv.Must(t, os.WriteFile(file, []byte(test.text), 0o600))
			testenv.Must(t, os.WriteFile(filepath.Join(dir, "sound.yaml"), []byte(sound), 0o600))
			d, got := testenv.Report(t, dir)
			if got.Code != 1 || len(d.Errors) != 1 {
				t.Fatalf("want one error and exit code 1: %+v", got)
			}
			if e := d.Errors[0]; e.Source != file || e.Line != test.line || !testenv.ContainsAll(e.Message, test.want...) {
				t.Errorf("want %s:%d and %q, have %+v", file, test.line, test.want, e)
			}
			if !testenv.ContainsAll(got.Stderr, append(test.want, file)...) || testenv.ContainsAll(got.Stderr, "secret") {
				t.Errorf("stderr lacks the reason, or has a secret: %q", got.Stderr)
			}
			if !d.HasFinding("sensitive-resource", "sound") || d.HasFinding("sensitive-resource", "bad") == test.lost {
				t.Errorf("findings are lost: %+v", d.Findings)
			}
		})
	}
}

// TestBadCABundle: base64 of something that is no certificate can be read, and
// is found, not an error.
func TestBadCABundle(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bad.yaml")
	testenv.Must(t, os.WriteFile(file, []byte(badConfiguration(reachable+", caBundle: UkVQTEFDRSBNRQ==", "")), 0o600))
	d, got := testenv.Report(t, file)
	if got.Code != 3 || len(d.Errors) != 0 || got.Stderr != "" || !d.HasFinding("ca-bundle-invalid", "bad") {
		t.Errorf("want ca-bundle-invalid, no error and exit code 3: %+v", got)
	}
}

// TestExitCodes holds the codes that scripts rely on.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "sound.yaml")
	testenv.Must(t, os.WriteFile(file, []byte(sound), 0o600))
	for _, test := range []struct {
		args string
		code int
	}{
		{"audit " + file, 0}, // sensitive-resource is info, the warnings are not critical
		{"audit --fail-on=info " + file, 3},
		{"audit --fail-on=never " + file, 0},
		{"audit --fail-on=info " + filepath.Join(dir, "missing.yaml"), 2},
		{"audit --fail-on=info " + file + " " + filepath.Join(dir, "missing.yaml"), 2}, // a path that is not there is a mistake in the command
		{"audit --fail-on=sometimes " + file, 2},
		{"audit --no-such-flag", 2},
		{"audit -o picture " + file, 2},
		{"no-such-command", 2},
		{"version", 0},
	} {
		if got := testenv.Command(t, strings.Fields(test.args)...); got.Code != test.code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", test.args, got.Code, test.code, got.Stdout, got.Stderr)
		}
	}
}
