package classify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// reported evaluates manifests, as a cluster that has nothing else.
func reported(t *testing.T, manifests string) *Report {
	t.Helper()
	file := must.File(t, "cluster.yaml", manifests)
	return evaluate(t, DefaultPolicy(), fixture(t, file))
}

// TestConversionDegradesByNeed: a dead conversion is an error of the operator as
// soon as a client needs it, and stops controllers, which degrades, only where they
// read a version that is not the stored one.
func TestConversionDegradesByNeed(t *testing.T) {
	const conversion, controllers = "CRDConversionWebhookConfigurationError", "ResourceControllersError"
	const (
		one    = "[{name: v1, served: true, storage: true}]"
		other  = "[{name: v1, served: true, storage: true}, {name: v1beta1, served: true, storage: false}]"
		stored = "[{name: v1, served: true, storage: false}, {name: v1beta1, served: true, storage: true}]"
	)
	for name, test := range map[string]struct {
		versions string
		extent   Extent
		want     []string
		rollsUp  bool
	}{
		"one version":                      {one, CriticalFindings, nil, false},
		"one version, enhancement":         {one, EnhancementFindings, []string{conversion}, true},
		"clients need it":                  {other, CriticalFindings, []string{conversion}, false},
		"clients need it, enhancement":     {other, EnhancementFindings, []string{conversion}, true},
		"controllers need it":              {stored, CriticalFindings, []string{conversion, controllers}, true},
		"controllers need it, enhancement": {stored, EnhancementFindings, []string{conversion, controllers}, true},
	} {
		t.Run(name, func(t *testing.T) {
			report := reported(t, fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  scope: Namespaced
  versions: %s
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: gone, name: gone}}
`, test.versions))
			var got []string
			for _, e := range report.OperatorErrors(test.extent) {
				for _, d := range e.Degradations {
					got = append(got, e.Name)
					if d.RollsUp != test.rollsUp {
						t.Errorf("%s rolls up: %t, want %t", e.Name, d.RollsUp, test.rollsUp)
					}
				}
			}
			expect.Equal(t, test.want, got) // conditions that are True
		})
	}
}

// TestEnhancementCountsEachDanglingReference: failurePolicy Ignore does not keep a
// missing backend from degrading, as an acknowledgement does, or a fault that holds
// in one mode of routing while the mode is unknown.
func TestEnhancementCountsEachDanglingReference(t *testing.T) {
	const (
		headless = `apiVersion: v1
kind: Service
metadata: {namespace: one, name: one}
spec: {clusterIP: None, ports: [{port: 443}]}
---
`
		ignore = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policy, annotations: {%s}}
webhooks:
- name: one.policy.example.com
  failurePolicy: Ignore
  clientConfig: {service: {namespace: one, name: one}}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [%s]}]
`
	)
	const validating, virtual = "ValidatingAdmissionWebhookConfigurationError", "VirtualResourceAdmissionError"
	for name, test := range map[string]struct {
		manifests string
		want      []string
	}{
		"missing":         {fmt.Sprintf(ignore, "", "configmaps"), []string{validating}},
		"acknowledged":    {fmt.Sprintf(ignore, acknowledgeAnnotation+`: "service-missing: being removed"`, "configmaps"), nil},
		"unknown routing": {headless + fmt.Sprintf(ignore, "", "configmaps"), nil},
		"virtual":         {headless + fmt.Sprintf(ignore, "", "pods/binding"), []string{virtual}},
	} {
		for extent, want := range map[Extent][]string{CriticalFindings: nil, EnhancementFindings: test.want} {
			var got []string
			for _, e := range reported(t, test.manifests).OperatorErrors(extent) {
				for _, d := range e.Degradations {
					if got = append(got, e.Name); !d.RollsUp {
						t.Errorf("%s: %s does not roll up", name, e.Name)
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s findings: -want +got\n%s", name, extent, diff)
			}
		}
	}
}

// webhookFor is a webhook that is called for the creation of a resource.
func webhookFor(group, resource, annotations string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policy, annotations: {%s}}
webhooks:
- name: one.policy.example.com
  clientConfig: {url: "https://hooks.example.com/"}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [%q], apiVersions: [v1], operations: [CREATE], resources: [%q]}]
`, annotations, group, resource)
}

// TestApprovalSilencesNoVirtualResource: an approval removes what is reported
// because an approval is missing, and never virtual-resource.
func TestApprovalSilencesNoVirtualResource(t *testing.T) {
	const approved = ApprovalAnnotation + `: "https://example.com/pull/1"`
	for _, test := range []struct {
		check, group, resource string
		silenced               bool
	}{
		{"virtual-resource", "", "bindings", false},
		{"virtual-resource", "", "pods/binding", false},
		{"critical-resource", "", "pods", true},
		{"sensitive-resource", "", "secrets", true},
	} {
		for annotations, want := range map[string]bool{"": true, approved: !test.silenced} {
			got := strings.Contains(fmt.Sprint(checksOf(reported(t, webhookFor(test.group, test.resource, annotations)))), test.check)
			if got != want {
				t.Errorf("%s on %s with annotations {%s}: reported: %t, want %t", test.check, test.resource, annotations, got, want)
			}
		}
	}
}

func checksOf(r *Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Check.Name)
	}
	return out
}

// TestLatencyThreshold: a webhook on critical resources is slow from 0.5 s, any
// other from 1 s, and the Policy may set another bucket edge by the webhook's name.
func TestLatencyThreshold(t *testing.T) {
	policy := DefaultPolicy()
	for resource, want := range map[string]float64{"pods": 0.5, "configmaps": 1} {
		report := reported(t, webhookFor("", resource, ""))
		if got := report.Profiles[0].Threshold; got != want {
			t.Errorf("on %s: %g s, want %g s", resource, got, want)
		}
		policy.LatencyThresholds = map[string]float64{"one.policy.example.com": 2.5}
		if got := evaluate(t, policy, report.Snapshot).Profiles[0].Threshold; got != 2.5 {
			t.Errorf("on %s, with 2.5 s in the Policy: %g s", resource, got)
		}
	}
}
