package inputs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// clusterMaker makes the objects of clusters up: registrations of all types, and what is
// behind them, beside them and missing.
type clusterMaker struct{ *rand.Rand }

func (m clusterMaker) one(values ...string) string { return values[m.IntN(len(values))] }

// some are fields, each of which is there in half of the cases, with one of the values.
func (m clusterMaker) some(fields map[string][]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if m.IntN(2) == 0 {
			fmt.Fprintf(&out, `,%q:%s`, name, m.one(fields[name]...))
		}
	}
	return out.String()
}

// selector selects by a label that namespaces or objects have, or lack. No call leaves the
// machine: addresses are of the loopback, which API servers take as names alone.
func (m clusterMaker) selector(labels ...string) string {
	return m.one(
		`{}`, `{"matchLabels":{"team":"shop"}}`, `{"matchExpressions":[{"key":"team","operator":"NotIn","values":["shop"]}]}`,
		`{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"`+m.one("In", "NotIn")+`","values":["shop","kube-system"]}]}`,
		`{"matchLabels":{"kubernetes.io/metadata.name":"`+m.one("infra", "gone")+`"}}`, `{"matchExpressions":[{"key":"`+m.one(labels...)+`","operator":"`+m.one("Exists", "DoesNotExist")+`"}]}`,
	)
}

func (m clusterMaker) rules(more string) string {
	return fmt.Sprintf(`[{"apiGroups":[%s],"apiVersions":[%s],"operations":[%s],"resources":[%s]%s}]`, m.one(`""`, `"apps"`, `"*"`, `"shop.example.com"`, `"gone.example.com"`, `"","apps"`), m.one(`"v1"`, `"*"`),
		m.one(`"CREATE"`, `"CREATE","UPDATE"`, `"*"`, `"DELETE"`), m.one(`"pods"`, `"deployments"`, `"*"`, `"*/*"`, `"secrets","pods/exec"`, `"widgets"`, `"namespaces"`, `"pods","services"`), more+m.one("", `,"scope":"Namespaced"`))
}

func (m clusterMaker) client() string {
	return m.one(`{"url":"https://127.0.0.1:9/x"}`, `{"url":"https://localhost:9/x"}`, `{"service":{"namespace":"default","name":"kubernetes","path":"/apis/metrics.example.com/v1/x"}}`,
		fmt.Sprintf(`{"service":{"namespace":"%s","name":"%s","port":%s}}`, m.one("shop", "shop", "infra", "gone"), m.one("web", "web", "web", "api", "wbe", "other"), m.one("443", "443", "8443")))
}

func (m clusterMaker) registration(kind, name string) string {
	var hooks []string
	for i := range 1 + m.IntN(3) {
		hooks = append(hooks, fmt.Sprintf(`{"name":"%s%d.example.com","clientConfig":%s,"rules":%s,"sideEffects":"None","admissionReviewVersions":["v1"]%s}`, name, i, m.client(), m.rules(""), m.some(map[string][]string{
			"failurePolicy": {`"Fail"`, `"Ignore"`}, "timeoutSeconds": {"1", "10", "30"}, "matchPolicy": {`"Exact"`, `"Equivalent"`},
			"namespaceSelector": {m.selector("team", "tier")}, "objectSelector": {m.selector("app", "tier")},
			"matchConditions": {`[{"name":"a","expression":"request.namespace != 'kube-system'"}]`, `[{"name":"a","expression":"object.metadata.name == 'web'"}]`, `[{"name":"a","expression":"!('system:nodes' in request.userInfo.groups)"}]`},
		})))
	}
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%s","metadata":{"name":"%s"%s},"webhooks":[%s]}`, kind, name, m.some(map[string][]string{"labels": {`{"app.kubernetes.io/managed-by":"Helm"}`}}), strings.Join(hooks, ","))
}

func (m clusterMaker) policy(kind, name string) string {
	content := fmt.Sprintf(`"validations":[{"expression":"%s"}]`, m.one("true", "object.metadata.name != 'web'", "object.spec.replicas < 3", "params.x == 1"))
	if strings.HasPrefix(kind, "Mutating") {
		content = `"reinvocationPolicy":"` + m.one("Never", "IfNeeded") + `","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]`
	}
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%s","metadata":{"name":"%s"},"spec":{"matchConstraints":{"resourceRules":%s%s},%s%s}}`, kind, name, m.rules(m.some(map[string][]string{"resourceNames": {`["web"]`}})),
		m.some(map[string][]string{"namespaceSelector": {m.selector("team")}}), content, m.some(map[string][]string{"failurePolicy": {`"Fail"`, `"Ignore"`}, "paramKind": {`{"apiVersion":"v1","kind":"ConfigMap"}`, `{"apiVersion":"shop.example.com/v1","kind":"Widget"}`, `{"apiVersion":"gone.example.com/v1","kind":"Gone"}`}}))
}

func (m clusterMaker) binding(kind, name string) string {
	actions := ""
	if strings.HasPrefix(kind, "Validating") {
		actions = `,"validationActions":[` + m.one(`"Deny"`, `"Warn"`, `"Audit"`, `"Deny","Audit"`) + `]`
	}
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%s","metadata":{"name":"%s"},"spec":{"policyName":"%s"%s%s}}`, kind, name, m.one("a", "b", "gone"), actions, m.some(map[string][]string{
		"paramRef": {`{"name":"limits","namespace":"shop","parameterNotFoundAction":"Deny"}`, `{"selector":{},"parameterNotFoundAction":"Allow"}`}, "matchResources": {`{"namespaceSelector":` + m.selector("team") + `}`},
	}))
}

func (m clusterMaker) backend(namespace, name string) []string {
	meta := fmt.Sprintf(`"namespace":"%s","name":"%s"`, namespace, name)
	pod := fmt.Sprintf(`{"metadata":{"labels":{"app":"%s"}},"spec":{%s"containers":[{"name":"a","image":"a","ports":[{"name":"https","containerPort":%s}]}]}}`, m.one(name, name, "x"), m.one("", "", `"hostNetwork":true,`), m.one("443", "8443"))
	out := []string{fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{%s},"spec":{"selector":{"app":"%s"},"ports":[{"name":"https","port":%s,"targetPort":%s}]%s}}`, meta, m.one(name, name, "x"), m.one("443", "443", "8443"), m.one("443", `"https"`, `"http"`), m.one("", "", `,"publishNotReadyAddresses":true`, `,"clusterIP":"None"`))}
	for i := range m.IntN(3) {
		out = append(out, fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"%s","name":"%s-%d","labels":{"kubernetes.io/service-name":"%s"}},"addressType":"FQDN","ports":[{"name":"%s","port":8443}],"endpoints":[{"addresses":["127.0.0.%d"],"nodeName":"n%d","conditions":{"ready":%s}}]}`,
			namespace, name, i, name, m.one("https", "https", "http"), i+1, m.IntN(2), m.one("true", "true", "false")))
	}
	for i := range m.IntN(3) {
		out = append(out, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"%s","name":"%s-%d","labels":{"app":"%s"}},"spec":{"nodeName":"n%d","containers":[{"name":"a","image":"a","ports":[{"name":"https","containerPort":8443}]}]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"%s"}]}}`,
			namespace, name, i, m.one(name, name, "x"), m.IntN(2), m.one("True", "True", "False")))
	}
	around := map[string]string{
		"apps/v1 Deployment":                 fmt.Sprintf(`"replicas":%s,"selector":{"matchLabels":{"app":"%s"}},"template":%s`, m.one("0", "1", "2"), name, strings.Replace(pod, `"app":"x"`, fmt.Sprintf(`"app":"%s"`, name), 1)),
		"apps/v1 DaemonSet":                  fmt.Sprintf(`"selector":{"matchLabels":{"app":"%s"}},"template":%s`, name, strings.Replace(pod, `"app":"x"`, fmt.Sprintf(`"app":"%s"`, name), 1)),
		"policy/v1 PodDisruptionBudget":      fmt.Sprintf(`"minAvailable":%s,"selector":{"matchLabels":{"app":"%s"}}`, m.one("0", "1", "2"), m.one(name, "x")),
		"networking.k8s.io/v1 NetworkPolicy": fmt.Sprintf(`"podSelector":{"matchLabels":{"app":"%s"}},"policyTypes":["Ingress"]%s`, m.one(name, "x"), m.some(map[string][]string{"ingress": {`[{"from":[{"podSelector":{}}]}]`, `[{"ports":[{"port":8443}]}]`}})),
	}
	for _, name := range slices.Sorted(maps.Keys(around)) {
		if version, kind, _ := strings.Cut(name, " "); m.IntN(3) == 0 {
			out = append(out, fmt.Sprintf(`{"apiVersion":"%s","kind":"%s","metadata":{%s},"spec":{%s}}`, version, kind, meta, around[name]))
		}
	}
	return out
}

// objects are those of a cluster, what intercepts requests last: one webhook at least, as files
// without any are an error.
func (m clusterMaker) objects() []string {
	var out []string
	for _, namespace := range []string{"shop", "infra", "legacy"} {
		if m.IntN(4) == 0 {
			continue
		}
		out = append(out, fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s"%s}}`, namespace, m.some(map[string][]string{"labels": {`{"team":"shop"}`, `{"team":"infra","tier":"a"}`, `{"control-plane":"x"}`}})))
		for _, name := range []string{"web", "api"} {
			if m.IntN(3) > 0 {
				out = append(out, m.backend(namespace, name)...)
			}
		}
	}
	for _, plural := range []string{"widgets", "gadgets"} {
		if m.IntN(2) == 0 {
			conversion := m.one(`{"strategy":"None"}`, `{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":`+m.client()+`}}`)
			out = append(out, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.shop.example.com"},"spec":{"group":"shop.example.com","scope":"%s","names":{"plural":"%s","singular":"%s","kind":"%s"},"conversion":%s,"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":%s,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
				plural, m.one("Namespaced", "Cluster"), plural, strings.TrimSuffix(plural, "s"), strings.ToUpper(plural[:1])+strings.TrimSuffix(plural[1:], "s"), conversion, m.one("true", "false")))
		}
	}
	if m.IntN(3) == 0 {
		out = append(out, fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.metrics.example.com"},"spec":{"group":"metrics.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"namespace":"%s","name":"web","port":443}}}`, m.one("shop", "infra")))
	}
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"} {
		for _, name := range []string{"a", "b"} {
			switch {
			case m.IntN(2) == 0:
			case strings.HasSuffix(kind, "Configuration"):
				out = append(out, m.registration(kind, name))
			case strings.HasSuffix(kind, "Binding"):
				out = append(out, m.binding(kind, name))
			default:
				out = append(out, m.policy(kind, name))
			}
		}
	}
	if !strings.Contains(strings.Join(out, ""), "clientConfig") {
		out = append(out, m.registration("ValidatingWebhookConfiguration", "a"))
	}
	return out
}

func (m clusterMaker) requests() []string {
	out := []string{"delete namespaces shop", "create pods -n shop", "create pods -n nowhere", "create gadgets.shop.example.com -n infra", "create gagdets"}
	for range 6 {
		out = append(out, fmt.Sprintf("%s %s%s%s", m.one("create", "update", "delete", "patch"), m.one("pods web-0", "deployments.apps web", "widgets.shop.example.com x", "secrets x", "services web", "gone.gone.example.com x"), m.one("", " -n shop", " -n infra", " -n legacy", " -n kube-system"), m.one("", "", " --labels=app=web", " --labels=")))
	}
	return append(out, m.one("update namespaces infra", "create namespaces new", "connect pods/exec web-0 -n shop", "scale deployments.apps web -n shop", "delete pods web-0 -n shop"))
}
