package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

const (
	slow    = `Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post "https://hook.policy.svc:443/v?timeout=10s": context deadline exceeded`
	refused = `Readiness probe failed: Get "http://10.0.0.9:8080/": dial tcp 10.0.0.9:8080: connect: connection refused`
	empty   = `Internal error occurred: failed calling webhook "b.example.com": failed to call webhook: Post "https://b.policy.svc:443/v?timeout=10s": no endpoints available for service "b"`
)

// summary is the causes, webhooks and counts of the errors in a text.
func summary(text string) string {
	var out []string
	for _, c := range Parse(text) {
		out = append(out, fmt.Sprintf("%s %s%s%s ×%d", c.Cause, c.Webhook, c.Object, c.Policy.Name, c.Count))
	}
	return strings.Join(out, ", ")
}

// TestMessages: an error ends with its line, its Event, its JSON string, its line of a log.
func TestMessages(t *testing.T) {
	quoted := func(s string) string { return strings.ReplaceAll(s, `"`, `\"`) }
	event := func(message string) string {
		return `{"kind":"Event","metadata":{"name":"e"},"count":1,"message":"` + quoted(message) + `"}`
	}
	for name, text := range map[string]string{
		"get events -A":     "NAMESPACE   LAST SEEN   TYPE      REASON         OBJECT           MESSAGE\nshop        5m          Warning   FailedCreate   replicaset/a     Error creating: " + slow + "\nshop        4m12s       Normal    Unhealthy      pod/web-1        " + refused + "\n",
		"get events":        "5m          Warning   FailedCreate   replicaset/a     Error creating: " + slow + "\n<unknown>   Warning   Unhealthy      pod/web-1        " + refused + "\n",
		"kubectl events":    "3s (x12 over 13s)   Warning   FailedCreate   ReplicaSet/a   Error creating: " + slow + "\n2s (x3 over 9s)  Warning  Unhealthy  Pod/web-1  " + refused,
		"describe":          "Events:\n  Type     Reason        Age                From                   Message\n  ----     ------        ----               ----                   -------\n  Warning  FailedCreate  3s (x12 over 13s)  replicaset-controller  Error creating: " + slow + "\n  Warning  Unhealthy  2s  kubelet  " + refused,
		"describe, wrapped": "  Warning  FailedCreate  3s  replicaset-controller  Error creating: " + strings.Replace(slow, " to call", "\nto call", 1) + "\n  Warning  Unhealthy  2s\n kubelet  " + refused,
		"conditions":        "Status:\n  Conditions:\n  ReplicaFailure  True  FailedCreate  " + slow + "\n  Ready           False  Unhealthy  " + refused,
		"JSON list":         `{"kind":"List","items":[` + event("Error creating: "+slow) + "," + event(refused) + "]}",
		"JSON, indented":    "{\n  \"items\": [\n    " + event("Error creating: "+slow) + ",\n    " + event(refused) + "\n  ]\n}\n",
		"JSON objects":      event(slow) + "\n" + event(refused) + "\n",
		"JSON log":          `{"level":"error","error":"` + quoted(slow) + `","msg":"x"}` + "\n" + `{"level":"error","error":"` + quoted(refused) + `"}`,
		"log with JSON":     "starting\n" + `{"level":"error","error":"` + quoted(slow) + `"}` + "\n" + refused,
		"YAML":              "apiVersion: v1\nitems:\n- kind: Event\n  message: '" + slow + "'\n- kind: Event\n  message: '" + refused + "'\n",
		"klog":              `E1121 04:35:00.000000       1 a.go:1] err="` + quoted(slow) + "\"\nE1121 04:35:01.000000       1 b.go:2] " + refused,
		"journal":           "Nov 21 04:35:00 node-1 kube-apiserver[7]: " + slow + "\nNov 21 04:35:01 node-1 kubelet[8]: " + refused,
		"two in a row":      slow + "\n" + refused + "\n",
		"kubectl and more":  "Error from server (InternalError): " + slow + "\nerror: " + refused,
	} {
		t.Run(name, func(t *testing.T) {
			want := "timeout a.example.com ×1"
			if strings.Contains(text, "x12") {
				want += "2"
			}
			if got := summary(text); got != want {
				t.Errorf("%s\nis read as %s, want %s", text, got, want)
			}
			for _, c := range Parse(text) {
				if strings.Contains(c.Detail, "Readiness") {
					t.Errorf("the detail %q goes on with the next message", c.Detail)
				}
			}
		})
	}
}

// TestCounts: an error that comes several times is one with its number.
func TestCounts(t *testing.T) {
	text := strings.Repeat("E1121 1 a "+slow+"\nE1121 2 b "+empty+"\n", 3) + "E1121 3 " + slow
	if got, want := summary(text), "timeout a.example.com ×4, no-ready-endpoints b.example.com ×3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFieldReports are errors that users reported and that were read wrongly or not at all.
func TestFieldReports(t *testing.T) {
	const denied = `configmaps "x" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'b' denied request: `
	const prefix = "Error from server (InternalError): Internal error occurred: "
	expect.Results(t, summary, map[string]string{
		`Error creating: Internal error occurred: admission plugin "MutatingAdmissionWebhook" failed to complete mutation in 13s`: "plugin-timeout  ×1",
		`admission plugin "ValidatingAdmissionWebhook" failed to complete validation in 13s`:                                      "plugin-timeout  ×1",

		call(`x509: certificate is valid for fargate-ip-10-0-1-5.eu-west-1.compute.internal, not hook.policy.svc`): "other-server w.example.com ×1",
		call(`x509: certificate is valid for ingress.local, not hook.policy.svc`):                                  "other-server w.example.com ×1",
		call(`x509: certificate is valid for kubernetes, kubernetes.default.svc.cluster.local, not hook.a.svc`):    "other-server w.example.com ×1",
		call(`x509: certificate is valid for hook.old.svc.cluster.local, not hook.policy.svc`):                     "certificate-name w.example.com ×1",
		call(`x509: certificate is valid for localhost, not hook.policy.svc`):                                      "certificate-name w.example.com ×1",
		call(`x509: certificate specifies an incompatible key usage`):                                              "key-usage w.example.com ×1",
		call(`tls: failed to parse certificate from server: x509: negative serial number`):                         "serial-number w.example.com ×1",

		called(`an error on the server ("upstream connect error or disconnect/reset before headers. reset reason: connection termination") has prevented the request from succeeding`): "envoy w.example.com ×1",
		called(`an error on the server ("no healthy upstream") has prevented the request from succeeding`):                                                                             "envoy w.example.com ×1",

		`I1121 04:35:00.1 1 trace.go:236] Trace[12]: "Call mutating webhook" configuration:c,webhook:m.example.com,resource:/v1, Resource=pods,subresource:,operation:CREATE,UID:u (21-Nov-2026 04:34:50.000) (total time: 9812ms):`: "slow-call m.example.com ×1",
		`Trace[12]: ["Call validating webhook" configuration:c,webhook:v.example.com,resource:/v1, Resource=pods 600ms (04:34:50.000)`:                                                                                               "slow-call v.example.com ×1",
		`Timeout: request did not complete within allowed duration`: "request-timeout  ×1",

		`admission webhook " gkepolicy.common-webhooks.networking.gke.io " denied the request: GKE Policy Controller: no`:                                                                                                         "gke-autopilot gkepolicy.common-webhooks.networking.gke.io ×1",
		`admission webhook "admissionwebhookcontroller.common-webhooks.networking.gke.io" denied the request: GKE Admission Webhook Controller: the following (group,resource) pairs are not allowed in webhook rules: ('*','*')`: "gke-rules admissionwebhookcontroller.common-webhooks.networking.gke.io ×1",

		`cannot patch "carts.shop.example.com" with kind CustomResourceDefinition: CustomResourceDefinition.apiextensions.k8s.io "carts.shop.example.com" is invalid: spec.conversion.webhookClientConfig.caBundle: Invalid value: []byte{0xa}: unable to load root certificates: unable to parse bytes as PEM block`: "refused-ca-bundle crd carts.shop.example.com ×1",
		`The ValidatingWebhookConfiguration "v" is invalid: webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots`:                                                                                                                                                "refused-by-api validatingwebhookconfiguration v ×1",
		`The ValidatingAdmissionPolicy "p" is invalid: spec.validations[0].expression: Invalid value: "x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'x'`:                                                                                                                                       "refused-expression validatingadmissionpolicy p ×1",
		`The CustomResourceDefinition "a.b.c" is invalid: spec.names.plural: Required value`:                                                                                                                                                                                                                          "",

		`Error: UPGRADE FAILED: conflict occurred while applying object /inject admissionregistration.k8s.io/v1, Kind=MutatingWebhookConfiguration: Apply failed with 1 conflict: conflict with "kube-webhook-certgen" using admissionregistration.k8s.io/v1: .webhooks[name="inject.meta.example.com"].clientConfig.caBundle`: "ca-bundle-conflict inject.meta.example.com ×1",
		"error: Apply failed with 2 conflicts: conflicts with \"cainjector\" using admissionregistration.k8s.io/v1:\n- .webhooks[name=\"a.example.com\"].clientConfig.caBundle\n- .webhooks[name=\"b.example.com\"].clientConfig.caBundle\nPlease review the fields above":                                                     "ca-bundle-conflict a.example.com, b.example.com ×1",
		`Apply failed with 1 conflict: conflict with "kubectl" using admissionregistration.k8s.io/v1: .webhooks[name="a.example.com"].failurePolicy`:                                                                                                                                                                           "apply-conflict a.example.com ×1",
		`Apply failed with 1 conflict: conflict with "cainjector" using apiextensions.k8s.io/v1: .spec.conversion.webhook.clientConfig.caBundle`:                                                                                                                                                                               "ca-bundle-conflict  ×1",

		denied + "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`":                                                "param-scope limits ×1",
		denied + `the Pod says: failed calling webhook "x.y.z": timeout`:                                                                                                "policy-denied limits ×1",
		prefix + `strict decoding error: unknown field "spec.foo"`:                                                                                                      "patch-failed  ×1",
		prefix + `json: cannot unmarshal number into Go struct field ConfigMap.data of type string`:                                                                     "patch-failed  ×1",
		prefix + `illegal base64 data at input byte 0`:                                                                                                                  "patch-failed  ×1",
		prefix + `no kind "Frob" is registered for version "v1" in scheme "pkg/runtime/scheme.go:110"`:                                                                  "patch-failed  ×1",
		`Error from server (BadRequest): error when creating "x.yaml": Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"`: "",
	})
	expect.Results(t, Unrecognized, map[string]string{
		`pods "x" is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "d"`: "RBAC refused the request, no webhook did",
		`pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`:              "Pod Security admission refused the request, no webhook did. What mutating webhooks add counts: webhook-auditor explain create pods",
		`pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`:         "a ResourceQuota refused the request, no webhook did. What mutating webhooks add counts: webhook-auditor explain create pods",
		`pods "x" is forbidden`: "RBAC or a built-in admission plugin refused the request, no webhook did",
	})
}
