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

// TestSelection: TYPE/NAME and -n narrow the report, its totals and its exit code.
func TestSelection(t *testing.T) {
	const file = "testdata/webhooks.yaml"
	const other = "testdata/reviews.yaml"
	elsewhere := fixtures + "core-resource.yaml"
	for name, tc := range map[string]struct {
		args     []string
		webhooks []string
		code     int
	}{
		"a configuration":     {[]string{file, other, "validatingwebhookconfiguration/policy"}, []string{"images.policy.example.com"}, exitOK},
		"its webhook":         {[]string{file, "validatingwebhookconfigurations.admissionregistration.k8s.io/policy/images.policy.example.com"}, []string{"images.policy.example.com"}, exitOK},
		"a namespace":         {[]string{file, elsewhere, "-n", "policy"}, []string{"images.policy.example.com"}, exitOK},
		"another namespace":   {[]string{file, "-n", "nowhere"}, []string{}, exitOK},
		"a file of that name": {[]string{file, "./crd/x"}, nil, exitUsage},
		"no such webhook":     {[]string{file, "validatingwebhookconfiguration/policy/other"}, nil, exitError},
		"another type":        {[]string{file, "mutatingwebhookconfiguration/policy"}, nil, exitError},
		"all of a type":       {[]string{file, "validatingwebhookconfigurations"}, []string{"images.policy.example.com"}, exitOK},
		"none of a type":      {[]string{file, "MutatingWebhookConfiguration"}, []string{}, exitOK},
		"of two types":        {[]string{file, "crds", "validatingwebhookconfigurations"}, []string{"images.policy.example.com"}, exitOK},
		"a type and a name":   {[]string{file, other, "validatingwebhookconfiguration", "policy"}, []string{"images.policy.example.com"}, exitOK},
		"no such name":        {[]string{file, "validatingwebhookconfiguration", "policy", "nope"}, nil, exitError},
		"all namespaces":      {[]string{file, "-n", "nowhere", "-A"}, []string{"images.policy.example.com"}, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", append([]string{"audit", "-o", "json"}, tc.args...)...)
			if r.code != tc.code {
				t.Fatalf("exit code %d, want %d: %s", r.code, tc.code, r.err)
			}
			if tc.webhooks == nil {
				return
			}
			var d report.Document
			must.Succeed(t, json.Unmarshal([]byte(r.out), &d))
			got := []string{}
			for _, w := range d.Webhooks {
				got = append(got, w.Name)
			}
			if !slices.Equal(got, tc.webhooks) || d.Totals.Webhooks != len(got) {
				t.Errorf("got %q, total %d, want %q", got, d.Totals.Webhooks, tc.webhooks)
			}
		})
	}
}

// TestSelectionOfABaseline compares like with like.
func TestSelectionOfABaseline(t *testing.T) {
	before := written(t, "testdata/webhooks.yaml", "testdata/reviews.yaml", "--server-version", "v1.36")
	r := execute(t, "", "audit", "testdata/webhooks.yaml", "--server-version", "v1.36", "--baseline", before, "validatingwebhookconfiguration/policy")
	if r.code != exitOK || !strings.Contains(r.out, "No finding is added or resolved.") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}

// TestTopOfANamespace: the flags of kubectl narrow top as well.
func TestTopOfANamespace(t *testing.T) {
	kubeconfig := scrapedCluster(t, counting())
	for flag, want := range map[string]int{"-A": 1, "-n=nowhere": 0} {
		got := execute(t, "", "top", "--kubeconfig", kubeconfig, "--observe-for", "1s", "-o", "json", flag)
		var top report.Top
		if err := json.Unmarshal([]byte(got.out), &top); err != nil {
			t.Fatalf("%v in %s, %s", err, got.out, got.err)
		}
		if len(top.Webhooks) != want || (want == 0) != strings.Contains(got.err, "no webhook has its Service in namespace nowhere") {
			t.Errorf("%s: exit code %d, %d webhooks, want %d: %s", flag, got.code, len(top.Webhooks), want, got.err)
		}
	}
}

// TestSelectionStops: a narrowed report says what its own webhooks stop.
func TestSelectionStops(t *testing.T) {
	for namespace, want := range map[string]string{
		"storage": "garbage collection of unreadable objects; deletion of namespaces in the whole cluster; resource quota.",
		"legacy":  "This stops: writes of configmaps in namespace legacy.",
	} {
		got := squeezed(execute(t, "", "audit", "demo.tar.gz", "-q", "-n", namespace).out)
		if !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", namespace, got)
		}
	}
}
