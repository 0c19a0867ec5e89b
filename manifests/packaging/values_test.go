package packaging

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

var update = flag.Bool("update", false, "write the table of the values")

// value is one that the chart takes.
type value struct{ path, usual, text string }

// values are those of the chart, with their comments.
func values(t *testing.T) []value {
	t.Helper()
	text := must.Get(os.ReadFile("../chart/values.yaml"))(t)
	var document yamlv3.Node
	must.Succeed(t, yamlv3.Unmarshal(text, &document))
	return below(t, "", document.Content[0])
}

// below are the values of a mapping. One with a comment is one value, whatever
// it holds.
func below(t *testing.T, prefix string, mapping *yamlv3.Node) []value {
	t.Helper()
	var out []value
	for pair := range slices.Chunk(mapping.Content, 2) {
		key, node := pair[0], pair[1]
		path := prefix + key.Value
		if text, ok := strings.CutPrefix(key.HeadComment, "# -- "); ok {
			out = append(out, value{path, inline(t, node), text})
			continue
		}
		if node.Kind != yamlv3.MappingNode {
			t.Errorf("values.yaml: %s has no comment", path)
			continue
		}
		out = append(out, below(t, path+".", node)...)
	}
	return out
}

func inline(t *testing.T, node *yamlv3.Node) string {
	t.Helper()
	var content any
	must.Succeed(t, node.Decode(&content))
	text := must.Get(json.Marshal(content))(t)
	return string(text)
}

// TestValuesAreDocumented: the table in the README is what values.yaml says.
func TestValuesAreDocumented(t *testing.T) {
	const path, begin, end = "../chart/README.md", "| Value | Default | What it is |\n| --- | --- | --- |\n", "\n## "
	text := must.Get(os.ReadFile(path))(t)
	before, rest, found := strings.Cut(string(text), begin)
	have, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table of the values", path)
	}
	var want strings.Builder
	for _, v := range values(t) {
		fmt.Fprintf(&want, "| `%s` | `%s` | %s |\n", v.path, v.usual, v.text)
	}
	if *update {
		must.Succeed(t, os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644))
		return
	}
	if have != want.String() {
		t.Errorf("%s: the table differs from values.yaml, run go test . -update; want\n%s", path, want.String())
	}
}

// uses are each value, changed, and what that makes of the objects.
var uses = map[string]struct{ values, want string }{
	"image.repository":               {`{image: {repository: registry.example.com/auditor}}`, "image: registry.example.com/auditor:latest"},
	"image.tag":                      {`{image: {tag: "sha256:0123"}}`, "image: webhook-auditor@sha256:0123"},
	"image.pullPolicy":               {`{image: {pullPolicy: Always}}`, "imagePullPolicy: Always"},
	"imagePullSecrets":               {`{imagePullSecrets: [{name: registry}]}`, "imagePullSecrets:\n      - name: registry"},
	"replicas":                       {`{replicas: 3}`, "replicas: 3"},
	"policy":                         {`{policy: {platformNamespaces: [mine]}}`, "policy.yaml: |\n    platformNamespaces:\n    - mine"},
	"extraArgs":                      {`{extraArgs: [--degraded=evaluate]}`, "- --degraded=evaluate"},
	"resources":                      {`{resources: {limits: {memory: 1Gi}}}`, "memory: 1Gi"},
	"priorityClassName":              {`{priorityClassName: mine}`, "priorityClassName: mine"},
	"nodeSelector":                   {`{nodeSelector: {disk: ssd}}`, "nodeSelector:\n        disk: ssd"},
	"tolerations":                    {`{tolerations: [{key: mine, operator: Exists}]}`, "key: mine"},
	"podAnnotations":                 {`{podAnnotations: {mine: "yes"}}`, `mine: "yes"`},
	"podLabels":                      {`{podLabels: {mine: "yes"}}`, `mine: "yes"`},
	"affinity":                       {`{affinity: {nodeAffinity: {}}}`, "nodeAffinity: {}"},
	"extraEnv":                       {`{extraEnv: [{name: HTTPS_PROXY, value: mine}]}`, "name: HTTPS_PROXY"},
	"serviceAccount.annotations":     {`{serviceAccount: {annotations: {mine: "yes"}}}`, `mine: "yes"`},
	"ingress.enabled":                {`{ingress: {enabled: true, host: a.example.com}}`, "kind: Ingress"},
	"ingress.className":              {`{ingress: {enabled: true, host: a.example.com, className: mine}}`, "ingressClassName: mine"},
	"ingress.annotations":            {`{ingress: {enabled: true, host: a.example.com, annotations: {mine: "yes"}}}`, `mine: "yes"`},
	"ingress.host":                   {`{ingress: {enabled: true, host: a.example.com}}`, "host: a.example.com"},
	"ingress.tlsSecretName":          {`{ingress: {enabled: true, host: a.example.com, tlsSecretName: mine}}`, "secretName: mine"},
	"httpRoute.enabled":              {`{httpRoute: {enabled: true, parentRefs: [{name: web}]}}`, "kind: HTTPRoute"},
	"httpRoute.parentRefs":           {`{httpRoute: {enabled: true, parentRefs: [{name: web}]}}`, "- name: web"},
	"httpRoute.hostnames":            {`{httpRoute: {enabled: true, parentRefs: [{name: web}], hostnames: [a.example.com]}}`, "- a.example.com"},
	"namespace.create":               {`{namespace: {create: true}}`, "kind: Namespace"},
	"crd.install":                    {`{crd: {install: false}}`, "!kind: CustomResourceDefinition"},
	"probe.enabled":                  {`{probe: {enabled: false}}`, "!- --probe=tls"},
	"tls.secretName":                 {`{tls: {secretName: mine}}`, "secretName: mine"},
	"resourceQuota.enabled":          {`{resourceQuota: {enabled: false}}`, "!kind: ResourceQuota"},
	"networkPolicy.enabled":          {`{networkPolicy: {enabled: false}}`, "!kind: NetworkPolicy"},
	"networkPolicy.apiServerPorts":   {`{probe: {enabled: false}, networkPolicy: {apiServerPorts: [16443]}}`, "port: 16443"},
	"prometheusOperator.enabled":     {`{prometheusOperator: {enabled: true}}`, "kind: PrometheusRule"},
	"prometheusOperator.labels":      {`{prometheusOperator: {enabled: true, labels: {release: mine}}}`, "release: mine"},
	"prometheusOperator.interval":    {`{prometheusOperator: {enabled: true, interval: 7s}}`, "interval: 7s"},
	"alerts.clusterLabel":            {`{prometheusOperator: {enabled: true}, alerts: {clusterLabel: fleet}}`, "on (fleet, type, name)"},
	"alerts.runbookBaseURL":          {`{prometheusOperator: {enabled: true}, alerts: {runbookBaseURL: "https://example.com/"}}`, "runbook_url: https://example.com/rules/runbooks/WebhookSlow.md"},
	"alerts.labels":                  {`{prometheusOperator: {enabled: true}, alerts: {labels: {team: platform}}}`, "team: platform"},
	"alerts.severities":              {`{prometheusOperator: {enabled: true}, alerts: {severities: enhancement}}`, `{failure="conversion"} > 0.01`},
	"alerts.disabled":                {`{prometheusOperator: {enabled: true}, alerts: {disabled: [WebhookSlow]}}`, "kind: PrometheusRule"},
	"alerts.critical":                {`{prometheusOperator: {enabled: true}, alerts: {disabled: [], critical: [WebhookFailingOpen]}}`, "severity: critical"},
	"alerts.thresholds":              {`{prometheusOperator: {enabled: true}, alerts: {thresholds: {WebhookFailingOpen: 0.123}}}`, "0.123"},
	"statusPage.url":                 {`{prometheusOperator: {enabled: true}, statusPage: {url: "https://auditor.example.com/"}}`, "page_url: https://auditor.example.com/"},
	"grafana.enabled":                {`{grafana: {enabled: true}}`, "grafana_dashboard:"},
	"grafana.folder":                 {`{grafana: {enabled: true, folder: Mine}}`, "grafana_folder: Mine"},
	"grafana.labels":                 {`{grafana: {enabled: true, labels: {mine: "yes"}}}`, `mine: "yes"`},
	"openshift.enabled":              {`{openshift: {enabled: true}}`, "kind: PrometheusRule"},
	"openshift.serviceDiscoveryRole": {`{openshift: {enabled: true, serviceDiscoveryRole: Endpoints}}`, "serviceDiscoveryRole: Endpoints"},
}

func TestEachValueHasItsUse(t *testing.T) {
	usual := written(t, `{}`)
	for _, v := range values(t) {
		use, ok := uses[v.path]
		if !ok {
			t.Errorf("%s: no test changes it", v.path)
			continue
		}
		got := written(t, use.values)
		want, leaves := strings.CutPrefix(use.want, "!")
		if strings.Contains(got, want) == leaves || strings.Contains(usual, want) != leaves {
			t.Errorf("%s: with %s, %q: %t, and without: %t", v.path, use.values, want, strings.Contains(got, want), strings.Contains(usual, want))
		}
	}
}

// written are the objects of the chart, in the order of their names.
func written(t *testing.T, values string) string {
	t.Helper()
	rendered := must.Get(templated(t, namespace, values))(t)
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(rendered)) {
		text := must.Get(yaml.Marshal(rendered[id]))(t)
		out.Write(text)
		out.WriteString("---\n")
	}
	return out.String()
}

// TestTyposAreRefused: a value that is not read would be a decision that
// has no effect.
func TestTyposAreRefused(t *testing.T) {
	for _, wrong := range []string{
		`{alerts: {clusterLabel: a-b}}`, `{alerts: {labels: {severity: page}}}`, `{prometheusOperator: {enabled: true}, alerts: {thresholds: {WebhookSlow: 0.005}}}`, `{alerts: {runbookBaseURL: example.com}}`,
		`{prometheusOperator: {enabled: true}, alerts: {disabled: [WebhookNone]}}`, `{prometheusOperator: {enabled: true}, alerts: {thresholds: {WebhookAuditorDown: 0.1}}}`,
		`{prometheusOperator: {enabled: true}, alerts: {thresholds: {pageShare: 0.05}}}`, `{prometheusOperator: {enabled: true}, alerts: {thresholds: {pageShare: 0.1, WebhookFailingOpen: 0.15}}}`,
		`{prometheusOperator: {enabled: true}, alerts: {disabled: [WebhookSlow], thresholds: {WebhookSlow: 0.1}}}`, `{prometheusOperator: {enabled: true}, alerts: {disabled: [WebhookSlow], critical: [WebhookSlow]}}`,
		`{replica: 3}`, `{ingress: {enabled: true}}`, `{httpRoute: {enabled: true}}`, `{image: {repo: x}}`, `{grafana: true}`, `{statusPage: {url: auditor.example.com}}`, `{replicas: many}`, `{extraArgs: [degraded]}`, `{networkPolicy: {apiServerPorts: []}}`,
		`{policy: {longTimeout: 5}}`, `{policy: {budgets: [{resource: pods}]}}`, `{policy: {acknowledgements: [{check: over-broad}]}}`, `{policy: {latencyThresholds: {a: 3}}}`,
	} {
		if _, err := templated(t, namespace, wrong); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

// TestPolicyNeedsNoRollout: it differs in the ConfigMap alone, which the Pods
// read again when it changes.
func TestPolicyNeedsNoRollout(t *testing.T) {
	before := must.Get(templated(t, namespace, `{}`))(t)
	after := must.Get(templated(t, namespace, uses["policy"].values))(t)
	for id, object := range before {
		if changed := !reflect.DeepEqual(object, after[id]); changed != strings.HasPrefix(id, "ConfigMap") {
			t.Errorf("%s changed: %t", id, changed)
		}
	}
}
