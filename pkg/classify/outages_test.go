package classify

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const outages = 14

var (
	predictedBy = regexp.MustCompile(`(?m)^# predicted by: (.+)$`)
	seenBy      = regexp.MustCompile(`(?m)^# seen only in metrics, by: Webhook\w+$`)
)

// TestOutages: each outage that webhooks are known to have caused is predicted
// by the checks that its story names, or marked as visible in metrics alone.
func TestOutages(t *testing.T) {
	for n := range outages {
		files, err := filepath.Glob(fmt.Sprintf("testdata/outages/%02d-*.yaml", n+1))
		if err != nil || len(files) != 1 {
			t.Fatalf("outage %d: want one file, got %v, %v", n+1, files, err)
		}
		t.Run(filepath.Base(files[0]), func(t *testing.T) { checkOutage(t, files[0]) })
	}
}

func checkOutage(t *testing.T, file string) {
	text := source(t, file)
	report := evaluate(t, DefaultPolicy(), fixture(t, file))
	var found []string
	for _, f := range report.Findings {
		found = append(found, f.Check.Name)
	}
	m := predictedBy.FindStringSubmatch(text)
	if m == nil {
		if !seenBy.MatchString(text) {
			t.Error("neither a check nor an alert is named")
		}
		if totals := report.Totals(); totals.Critical+totals.Warning > 0 {
			t.Errorf("has findings, although it is marked as visible in metrics alone: %v", found)
		}
		return
	}
	for check := range strings.SplitSeq(m[1], ", ") {
		if !slices.Contains(found, check) {
			t.Errorf("%s does not predict it; there are %v", check, found)
		}
	}
	if totals := report.Totals(); totals.Critical+totals.Warning == 0 {
		t.Errorf("nothing above info predicts it: %v", found)
	}
}

const stockFile = "testdata/stock/openshift.yaml"

// TestStockClusterIsSilent: what a stock OpenShift cluster registers yields
// nothing at all, because all of it is known: each entry is in the fixture, and
// of a cluster of no known distribution something is found.
func TestStockClusterIsSilent(t *testing.T) {
	for _, f := range reportOn(t, stockFile).Findings {
		t.Errorf("%s of %s: %s: a check must report nothing that a stock cluster registers: have it skip p.Platform", f.Check.Name, f.Webhook.Name, f.Message)
	}
	s := fixture(t, stockFile)
	for i := range s.Webhooks {
		if !stock(s, s.Webhooks[i]) {
			t.Errorf("%s of %s is not known", s.Webhooks[i].Name, s.Webhooks[i].Configuration)
		}
	}
	for _, k := range stockWebhooks {
		if k.distribution(s) && !slices.ContainsFunc(s.Webhooks, func(w *inventory.Webhook) bool { return w.Configuration == k.name }) {
			t.Errorf("no configuration of the fixture is called %s", k.name)
		}
	}
	s.OpenShift = false
	if len(evaluate(t, DefaultPolicy(), s).Findings) == 0 {
		t.Error("the distribution makes no difference")
	}
}

// TestStockIsKnownByMoreThanItsName: a user who may register webhooks may choose
// the name of a stock one.
func TestStockIsKnownByMoreThanItsName(t *testing.T) {
	const (
		openshift = openshiftCRD
		service   = "service: {namespace: openshift-cloud-credential-operator, name: pod-identity-webhook}"
		loopback  = `url: "https://127.0.0.1:23443/mutate"`
	)
	for name, test := range map[string]struct {
		config, resources, server, more string
		hasEndpoints                    bool
	}{
		"stock":                     {service, "pods", "", openshift, true},
		"another namespace":         {"service: {namespace: evil, name: pod-identity-webhook}", "pods", "", openshift, false},
		"a URL":                     {`url: "https://evil.example.com/"`, "pods", "", openshift, false},
		"more resources":            {service, "pods, secrets", "", openshift, false},
		"a wildcard":                {service, `"*"`, "", openshift, false},
		"a subresource":             {service, "pods, pods/binding", "", openshift, false},
		"plain Kubernetes":          {service, "pods", "", "", false},
		"EKS":                       {loopback, "pods", "v1.33.1-eks-1fbb135", "", true},
		"EKS, with a Service":       {"service: {namespace: evil, name: pod-identity-webhook}", "pods", "v1.33.1-eks-1fbb135", "", false},
		"loopback, but not EKS":     {loopback, "pods", "v1.33.1", "", false},
		"OpenShift, EKS's loopback": {loopback, "pods", "", openshift, false},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("CONFIG", test.config, "RESOURCES", test.resources).Replace(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: pod-identity-webhook}
webhooks:
- name: pod-identity-webhook.amazonaws.com
  clientConfig: {CONFIG}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [RESOURCES]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`)
			s := files(t, text+test.more)
			s.Server.Git = test.server
			r := evaluate(t, DefaultPolicy(), s)
			expect.Equal(t, test.hasEndpoints, r.Profiles[0].Platform) // of the platform
			found := slices.ContainsFunc(r.Findings, func(f *Finding) bool { return f.Check == controlPlanePath })
			if found == test.hasEndpoints {
				t.Errorf("on the control plane's path: %t, want %t", found, !test.hasEndpoints)
			}
		})
	}
}
