package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

const onLeases = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: w.example.com
  clientConfig: {service: {namespace: hooks, name: hook}}
  rules: [{operations: [CREATE, UPDATE], apiGroups: [coordination.k8s.io], apiVersions: ["*"], resources: [leases]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// TestExclusionRules: those of EKS are taken for granted and reported.
func TestExclusionRules(t *testing.T) {
	r := execute(t, onLeases, "audit", "-", "--server-version=v1.33.1-eks-1fbb135", "-o=json")
	var d report.Document
	if err := json.Unmarshal([]byte(r.out), &d); err != nil {
		t.Fatalf("%v\n%s", err, r.err)
	}
	if d.Platform != "eks" || len(d.Presumptions) != 1 {
		t.Errorf("platform %q, presumptions %q", d.Platform, d.Presumptions)
	}
	for _, test := range []struct {
		about string
		args  []string
		want  string
	}{
		{"the report says it", []string{"audit", "-", "--server-version=v1.33.1-eks-1fbb135"}, "Taken for granted (platform eks)"},
		{"EKS", []string{"explain", "update", "leases", "-n=kube-node-lease", "--from=-", "--server-version=v1.33.1-eks-1fbb135"}, "probably skipped by EKS"},
		{"elsewhere", []string{"explain", "update", "leases", "-n=kube-node-lease", "--from=-", "--server-version=v1.33.1"}, "w.example.com"},
	} {
		if r := execute(t, onLeases, test.args...); !strings.Contains(strings.Join(strings.Fields(r.out), " "), test.want) {
			t.Errorf("%s: %s%s\nwant %q", test.about, r.out, r.err, test.want)
		}
	}
}
