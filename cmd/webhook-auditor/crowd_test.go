package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// crowd are so many webhooks, each of which refuses the Pods behind all, with what cannot be an approval.
func crowd(t *testing.T, count int) (file string, services []string) {
	t.Helper()
	var out strings.Builder
	for i := range count {
		services = append(services, fmt.Sprintf("team-%d/hook", i))
		fmt.Fprintf(&out, `
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hook-%[1]d, annotations: {webhook-approved.openshift.io: 'no'}},
  webhooks: [{name: pods-%[1]d.example.com, failurePolicy: Fail, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {namespace: team-%[1]d, name: hook}},
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}]}
---
{apiVersion: v1, kind: Service, metadata: {namespace: team-%[1]d, name: hook}, spec: {selector: {app: hook}, ports: [{port: 443}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: team-%[1]d, name: hook}, spec: {selector: {matchLabels: {app: hook}}, template: {metadata: {labels: {app: hook}}, spec: {containers: [{name: a, image: a}]}}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: team-%[1]d, name: hook, labels: {kubernetes.io/service-name: hook}}, addressType: IPv4, ports: [{port: 443, name: ''}], endpoints: [{addresses: [10.0.0.1]}]}
---`, i)
	}
	return must.File(t, "crowd.yaml", out.String()), services
}

// TestCommandsAreWhole: no form of an answer cuts commands, however many there are, and none repeats
// them for each of what they help.
func TestCommandsAreWhole(t *testing.T) {
	const count = 60
	file, services := crowd(t, count)
	down := []string{"impact", "--fail-on=never", "--from", file}
	for _, service := range services {
		down = append(down, "--down", service)
	}
	audited := []string{"audit", "--fail-on=never", "--fixes", file}
	agent := agents{source{access: &clusterFlags{}, input: &input{}, paths: []string{file}}}
	for command, answers := range map[string]map[string]string{
		"kubectl delete validatingwebhookconfiguration hook-%d": {
			"text":     execute(t, "", down...).out,
			"markdown": execute(t, "", append(down, "-o", "markdown")...).out,
			"JSON":     execute(t, "", append(down, "-o", "json")...).out,
			"mcp":      textOf(must.Get(agent.impact(impactTool{Down: services}))(t).answer(t.Context())),
		},
		"kubectl annotate --overwrite validatingwebhookconfiguration hook-%d": {
			"text":     execute(t, "", audited...).out,
			"all":      execute(t, "", append(audited, "-v")...).out,
			"markdown": execute(t, "", append(audited, "-o", "markdown")...).out,
			"JSON":     execute(t, "", append(audited, "-o", "json")...).out,
			"SARIF":    execute(t, "", append(audited, "-o", "sarif")...).out,
			"mcp":      textOf(must.Get(agent.audit(auditTool{}))(t).answer(t.Context())),
		},
	} {
		for form, answer := range answers {
			for i := range count {
				if want := fmt.Sprintf(command, i); !strings.Contains(answer, want) {
					t.Errorf("%s lacks %s", form, want)
					break
				}
			}
			if times := strings.Count(answer, fmt.Sprintf(command, count-1)); times > 3 {
				t.Errorf("%s has a command %d times", form, times)
			}
		}
	}
}
