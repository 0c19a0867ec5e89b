package main

import (
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// TestArchivesAreOfTheirTime: a must-gather is evaluated as of when it was
// collected, and every report says so; the same manifests are evaluated now.
func TestArchivesAreOfTheirTime(t *testing.T) {
	march := time.Date(2024, time.March, 1, 9, 0, 0, 0, time.UTC)
	configuration := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: policy}\nwebhooks:\n" +
		"- name: pods.policy.example.com\n  clientConfig: {service: {namespace: policy, name: policy}, caBundle: " + base64.StdEncoding.EncodeToString(certtest.Bundle(t, march.AddDate(0, 3, 0))) + "}\n" +
		"  rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]\n  sideEffects: None\n  admissionReviewVersions: [v1]\n"
	dir := filepath.Join(t.TempDir(), "must-gather.local.1")
	const policy = "image/cluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations/policy.yaml"
	for name, text := range map[string]string{policy: configuration, "timestamp": march.String() + " m=+0.1\n"} {
		file := filepath.Join(dir, name)
		must.Write(t, file, text)
	}
	for name, tc := range map[string]struct {
		path   string
		broken bool
		said   []string
	}{
		"must-gather":   {dir, false, []string{"as must-gather: 1 object, collected at 2024-03-01T09:00:00Z.", "Evaluated as of 2024-03-01T09:00:00Z, not now"}},
		"its manifests": {filepath.Join(dir, policy), true, []string{"as manifests: 1 object."}},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", "audit", tc.path, "-o", "json", "--fail-on", "never")
			var d report.Document
			if err := json.Unmarshal([]byte(r.out), &d); err != nil {
				t.Fatalf("%v: %s", err, r.err)
			}
			expect.Equal(t, tc.broken, slices.Contains(checks(d.Findings), "ca-bundle-invalid")) // expired CA found
			if d.Taken.Equal(march) == tc.broken || d.Inputs[0].Taken.Equal(march) == tc.broken {
				t.Errorf("taken %s, the input %s", d.Taken, d.Inputs[0].Taken)
			}
			for _, args := range [][]string{{"audit", tc.path, "--fail-on", "never", "-v"}, {"explain", "create", "pods", "--from", tc.path, "-v"}, {"explain", "-v", "--from", tc.path, "--error", `failed calling webhook "x.example.com": EOF`}} {
				text := squeezed(execute(t, "", args...).out)
				expect.Contains(t, text, tc.said...)
				if strings.Contains(text, "Evaluated as of") == tc.broken {
					t.Errorf("%s: as of when it is evaluated:\n%s", args[0], text)
				}
			}
		})
	}
}
