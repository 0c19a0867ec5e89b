package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// written is a report of the command in a file.
func written(t *testing.T, args ...string) string {
	t.Helper()
	r := execute(t, "", append([]string{"audit", "-o", "json", "--fail-on", "never"}, args...)...)
	if r.code != exitOK {
		t.Fatalf("exit code %d: %s", r.code, r.err)
	}
	return must.File(t, "before.json", r.out)
}

func checks(findings []report.Finding) []string {
	out := []string{}
	for _, f := range findings {
		out = append(out, f.Check)
	}
	slices.Sort(out)
	return out
}

const fixtures = "../../pkg/classify/testdata/"

// TestBaseline: a change is rated by what it adds.
func TestBaseline(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after   []string
		added, resolved []string
		code            int
	}{
		"nothing":        {[]string{fixtures + "service-missing.yaml"}, []string{fixtures + "service-missing.yaml"}, nil, nil, exitOK},
		"added":          {[]string{"testdata/webhooks.yaml"}, []string{"testdata/webhooks.yaml", "testdata/reviews.yaml", "--server-version", "v1.36"}, []string{"virtual-resource"}, nil, exitFindings},
		"resolved":       {[]string{"testdata/reviews.yaml", "--server-version", "v1.36"}, []string{"testdata/webhooks.yaml", "--server-version", "v1.36"}, []string{"critical-resource"}, []string{"virtual-resource"}, exitOK},
		"the upgrade":    {[]string{"testdata/reviews.yaml", "--server-version", "v1.36"}, []string{"testdata/reviews.yaml", "--server-version", "v1.37"}, []string{"dead-rule"}, []string{"virtual-resource"}, exitOK},
		"a downgrade":    {[]string{"testdata/reviews.yaml", "--server-version", "v1.37"}, []string{"testdata/reviews.yaml", "--server-version", "v1.36"}, []string{"virtual-resource"}, []string{"dead-rule"}, exitFindings},
		"cannot be read": {[]string{"testdata/webhooks.yaml"}, []string{"testdata/webhooks.yaml", "main.go"}, nil, nil, exitError},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"audit", "-o", "json", "--baseline", written(t, tc.before...)}, tc.after...)
			r := execute(t, "", args...)
			var c report.Comparison
			if err := json.Unmarshal([]byte(r.out), &c); err != nil {
				t.Fatalf("%v: %s", err, r.err)
			}
			expect.Equal(t, tc.added, checks(c.Added), cmpopts.EquateEmpty())
			expect.Equal(t, tc.resolved, checks(c.Resolved), cmpopts.EquateEmpty())
			if r.code != tc.code {
				t.Errorf("exit code %d, want %d: %s", r.code, tc.code, r.err)
			}
		})
	}
}

// TestBaselineForms: each form of the report is one of the comparison.
func TestBaselineForms(t *testing.T) {
	before := written(t, "testdata/reviews.yaml", "--server-version", "v1.36")
	for _, form := range slices.DeleteFunc(slices.Clone(formats), func(form string) bool { return form == htmlFormat }) {
		r := execute(t, "", "audit", "testdata/reviews.yaml", "--server-version", "v1.37", "--baseline", before, "-o", form)
		if r.code != exitOK || !strings.Contains(r.out, "dead-rule") {
			t.Errorf("%s: exit code %d, no dead-rule in:\n%s%s", form, r.code, r.out, r.err)
		}
		if form != "sarif" && !strings.Contains(r.out, "virtual-resource") {
			t.Errorf("%s: nothing resolved in:\n%s", form, r.out)
		}
	}
}

// TestAuditHTML: the file is about the webhooks that are selected, and the exit code is
// that of any other format.
func TestAuditHTML(t *testing.T) {
	const input = fixtures + "bootstrap-deadlock.yaml"
	r := execute(t, "", "audit", input, "-o", "html", "--fail-on", "info")
	if r.code != exitFindings || !strings.HasPrefix(r.out, "<!DOCTYPE html>") || !strings.HasSuffix(r.out, "</html>\n") {
		t.Errorf("exit code %d, want %d and a page:\n%s%s", r.code, exitFindings, r.out, r.err)
	}
	const row = `<th scope="row">`
	all, some := strings.Count(r.out, row), execute(t, "", "audit", input, "-n", "host", "-o", "html")
	if n := strings.Count(some.out, row); n == 0 || n >= all {
		t.Errorf("%d of %d webhooks are shown", n, all)
	}
}

func TestAuditUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"a form that is not":         {"testdata", "-o", "xml"},
		"a limit that is not":        {"testdata", "--fail-on", "sometimes"},
		"a version that is not":      {"testdata", "--server-version", "next"},
		"no such baseline":           {"testdata", "--baseline", "testdata/nowhere.json"},
		"a baseline of another kind": {"testdata", "--baseline", "testdata/webhooks.yaml"},
		"a probe that is not":        {"--probe", "icmp"},
		"a probe of files":           {"testdata", "--probe", "tls"},
		"URLs without a probe":       {"--probe.urls"},
		"a baseline of a file":       {"testdata", "--baseline", "testdata/nowhere.json", "-o", "html"},
		"no such policy":             {"testdata", "--config", "testdata/nowhere.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", append([]string{"audit"}, args...)...)
			if r.code != exitUsage || r.out != "" || !strings.HasPrefix(r.err, "webhook-auditor: ") {
				t.Errorf("exit code %d, stdout %q, stderr %q: want usage", r.code, r.out, r.err)
			}
		})
	}
}

// squeezed is a text without what the width of a terminal makes of it.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestAuditTexts: -q has no findings, --fixes what to write and where, -v all.
func TestAuditTexts(t *testing.T) {
	of := func(flags ...string) string {
		return squeezed(execute(t, "", append([]string{"audit", fixtures + "long-timeout.yaml", "--fail-on=never"}, flags...)...).out)
	}
	expect.Contains(t, of(), "TO REVIEW i ignore.example.com timeouts · ../../pkg/classify/testdata/long-timeout.yaml:14 long-timeout May hold each request for 16 s", "long-timeout May hold each request for 30 s", "What to do: --fixes")
	expect.Contains(t, of("-v", "--fixes"), "i long.example.com", "fix write webhooks[0].timeoutSeconds (../../pkg/classify/testdata/long-timeout.yaml:6): timeoutSeconds: 10")
	if got := of("-q"); strings.Contains(got, "REVIEW") || !strings.Contains(got, "0 critical, 0 warning, 2 info") {
		t.Errorf("-q prints %q", got)
	}
	if got := of("--color=always"); !strings.Contains(got, "\x1b[0;1mTO REVIEW") {
		t.Errorf("--color=always prints %q", got)
	}
}

// TestSecretsOfURLs: no command prints the credentials or the query of a URL.
func TestSecretsOfURLs(t *testing.T) {
	const written = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: a.example.com,
  clientConfig: {url: "%s"}, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}]}`
	other := must.File(t, "other.yaml", fmt.Sprintf(written, "https://hooks.example.com/y"))
	for _, address := range []string{"https://user:hunter2@hooks.example.com/x?token=hunter3", "https://hooks.example.com/x#hunter2", "https://user:hunter2@hooks.example.com:port/x", "https://localhost/x?hunter2"} {
		file := must.File(t, "url.yaml", fmt.Sprintf(written, address))
		for _, command := range []string{"audit FILE --fixes -v", "audit FILE -o json", "audit FILE -o sarif", "audit FILE -o html", "explain --from FILE create pods", "explain --from FILE create pods -o json", "impact --from FILE a -o json", "impact --from FILE a -o markdown", "diff FILE " + other, "diff " + other + " FILE -o json"} {
			if r := execute(t, "", strings.Fields(strings.ReplaceAll(command, "FILE", file))...); strings.Contains(r.out+r.err, "hunter") {
				t.Errorf("%s of %s: %s%s", command, address, r.out, r.err)
			}
		}
	}
}
