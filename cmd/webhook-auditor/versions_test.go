package main

import (
	"strings"
	"testing"
)

// TestOlderReleases evaluates for releases that this binary knows by their record
// only: what they serve, and that they send reviews to webhooks.
func TestOlderReleases(t *testing.T) {
	const hook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policy}
webhooks:
- name: policy.example.com
  clientConfig: {service: {namespace: policy, name: policy}}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules:
  - {apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [servicecidrs]}
  - {apiGroups: [authentication.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [tokenreviews]}
`
	for _, c := range []struct {
		version string
		// cidrs says that there are ServiceCIDRs, reviews that webhooks see reviews.
		cidrs, reviews bool
	}{
		{"v1.30", false, true},
		{"v1.31", false, true},
		{"v1.32", false, true},
		{"v1.33", true, true},
		{"v1.34", true, true},
		{"v1.36", true, true},
		{"v1.37", true, false},
	} {
		t.Run(c.version, func(t *testing.T) {
			audit := execute(t, hook, "audit", "-", "--fail-on=never", "--server-version", c.version)
			if found := strings.Contains(audit.out, " virtual-resource\n"); found != c.reviews || audit.code != exitOK {
				t.Errorf("audit: exit code %d, virtual-resource %t, want %t\n%s%s", audit.code, found, c.reviews, audit.out, audit.err)
			}
			r := execute(t, hook, "explain", "create", "servicecidrs", "--from", "-", "--server-version", c.version)
			if called := strings.Contains(r.out, "policy.example.com"); called != c.cidrs {
				t.Errorf("explain: called %t, want %t\n%s%s", called, c.cidrs, r.out, r.err)
			}
		})
	}
}
