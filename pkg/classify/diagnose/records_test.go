package diagnose

import (
	"fmt"
	"strings"
	"testing"
)

const (
	slow    = `Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post "https://hook.policy.svc:443/v?timeout=10s": context deadline exceeded`
	refused = `Readiness probe failed: Get "http://10.0.0.9:8080/": dial tcp 10.0.0.9:8080: connect: connection refused`
	empty   = `Internal error occurred: failed calling webhook "b.example.com": failed to call webhook: Post "https://b.policy.svc:443/v?timeout=10s": no endpoints available for service "b"`
)

// summary is the causes of the errors in a text, with how often each stands there, and after a tab what
// each is of.
func summary(text string) string {
	var causes, subjects []string
	for _, c := range Parse(text) {
		cause := string(c.Cause)
		if c.Count > 1 {
			cause += fmt.Sprintf(" ×%d", c.Count)
		}
		if c.WentOn {
			cause += " and went on"
		}
		version := strings.Trim(c.Group+"/"+c.Version, "/")
		parts := []string{c.Webhook, c.Object, string(c.Policy.Type), c.Policy.Name, c.Binding, version, c.Kind}
		causes, subjects = append(causes, cause), append(subjects, strings.Join(strings.Fields(strings.Join(parts, " ")), " "))
	}
	return strings.Join(causes, ", ") + "\t" + strings.Join(subjects, ", ")
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
			want := "timeout\ta.example.com"
			if strings.Contains(text, "x12") {
				want = "timeout ×12\ta.example.com"
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
	if got, want := summary(text), "timeout ×4, no-ready-endpoints ×3\ta.example.com, b.example.com"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
