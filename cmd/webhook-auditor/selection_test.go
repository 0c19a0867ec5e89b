package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

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

// TestUnknownSelection: what the input does not have is answered with what is close.
func TestUnknownSelection(t *testing.T) {
	const file = "testdata/webhooks.yaml"
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"configuration":      {[]string{"validatingwebhookconfiguration/polcy"}, "no webhook of validatingwebhookconfiguration/polcy found; did you mean validatingwebhookconfiguration/policy?"},
		"another type":       {[]string{"crd/policy"}, "did you mean validatingwebhookconfiguration/policy?"},
		"webhook":            {[]string{"validatingwebhookconfiguration/policy/images.policy.example"}, "did you mean validatingwebhookconfiguration/policy/images.policy.example.com?"},
		"namespace":          {[]string{"-n", "polcy"}, "no webhook has its Service in namespace polcy; did you mean policy?"},
		"a name alone":       {[]string{"policy"}, "as validatingwebhookconfiguration/policy, mutatingwebhookconfiguration/policy or crd/policy"},
		"no type":            {[]string{"vwc/policy"}, "as validatingwebhookconfiguration/policy,"},
		"a file":             {[]string{"nowhere.yaml"}, "reading nowhere.yaml: no such file or directory\n"},
		"a file in a folder": {[]string{"./nowhere"}, "reading ./nowhere: no such file or directory\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", append([]string{"audit", file}, tc.args...)...)
			if !strings.Contains(r.err, tc.want) {
				t.Errorf("exit code %d: want %q in %s", r.code, tc.want, r.err)
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
