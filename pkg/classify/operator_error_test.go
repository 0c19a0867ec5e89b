package classify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// reported evaluates manifests, as a cluster that has nothing else.
func reported(t *testing.T, manifests string) *Report {
	t.Helper()
	file := must.File(t, "cluster.yaml", manifests)
	return evaluate(t, DefaultPolicy(), fixture(t, file))
}

// TestOperatorErrors: a dead conversion is an error of the operator as soon as a client needs it,
// and stops controllers, which degrades, only where they read a version that is not the stored one.
// For the enhancement, failurePolicy Ignore does not keep a missing backend from degrading, as an
// acknowledgement does, or a fault that holds in one mode of routing while the mode is unknown.
func TestOperatorErrors(t *testing.T) {
	const (
		crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  scope: Namespaced
  versions: [%s]
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: gone, name: gone}}}}
`
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
		conversion, controllers = "CRDConversionWebhookConfigurationError", "ResourceControllersError"
		validating, virtual     = "ValidatingAdmissionWebhookConfigurationError", "VirtualResourceAdmissionError"
		degrades                = ", which degrades "
	)
	for name, test := range map[string]struct{ manifests, critical, enhancement string }{
		"one version":         {fmt.Sprintf(crd, "{name: v1, served: true, storage: true}"), "", conversion + degrades},
		"clients need it":     {fmt.Sprintf(crd, "{name: v1, served: true, storage: true}, {name: v1beta1, served: true, storage: false}"), conversion, conversion + degrades},
		"controllers need it": {fmt.Sprintf(crd, "{name: v1, served: true, storage: false}, {name: v1beta1, served: true, storage: true}"), conversion + degrades + controllers + degrades, conversion + degrades + controllers + degrades},
		"missing":             {fmt.Sprintf(ignore, "", "configmaps"), "", validating + degrades},
		"acknowledged":        {fmt.Sprintf(ignore, acknowledgeAnnotation+`: "service-missing: being removed"`, "configmaps"), "", ""},
		"unknown routing":     {headless + fmt.Sprintf(ignore, "", "configmaps"), "", ""},
		"virtual":             {headless + fmt.Sprintf(ignore, "", "pods/binding"), "", virtual + degrades},
	} {
		for extent, want := range map[Extent]string{CriticalFindings: test.critical, EnhancementFindings: test.enhancement} {
			var got strings.Builder
			for _, e := range reported(t, test.manifests).OperatorErrors(extent) {
				for _, d := range e.Degradations {
					got.WriteString(e.Name)
					if d.RollsUp {
						got.WriteString(degrades)
					}
				}
			}
			if got.String() != want {
				t.Errorf("%s, %s findings: %q, want %q", name, extent, &got, want)
			}
		}
	}
}

// TestLatencyThreshold: a webhook on critical resources is slow from 0.5 s, any
// other from 1 s, and the Policy may set another bucket edge by the webhook's name.
func TestLatencyThreshold(t *testing.T) {
	policy := DefaultPolicy()
	for resource, want := range map[string]float64{"pods": 0.5, "configmaps": 1} {
		report := reported(t, registering(fmt.Sprintf(`{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [%s]}`, resource)))
		if got := report.Profiles[0].Threshold; got != want {
			t.Errorf("on %s: %g s, want %g s", resource, got, want)
		}
		policy.LatencyThresholds = map[string]float64{"one.example.com": 2.5}
		if got := evaluate(t, policy, report.Snapshot).Profiles[0].Threshold; got != 2.5 {
			t.Errorf("on %s, with 2.5 s in the Policy: %g s", resource, got)
		}
	}
}
