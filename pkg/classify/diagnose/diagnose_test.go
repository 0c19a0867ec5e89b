package diagnose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// call wraps an error as the API server does that calls an admission webhook.
func call(err string) string {
	return `Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "https://hook.policy.svc:443/validate?timeout=10s": ` + err
}

// called wraps an error that does not name the URL.
func called(err string) string {
	return `Error from server (InternalError): Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: ` + err
}

// TestUnnamedWebhooks are errors that name no webhook.
func TestUnnamedWebhooks(t *testing.T) {
	const prefix = "Error from server (InternalError): Internal error occurred: "
	for text, want := range map[string]Cause{
		"Error from server (Timeout): Timeout: request did not complete within requested timeout - context deadline exceeded": "request-timeout",
		"Error from server (Timeout): Timeout: request did not complete within the allotted timeout":                          "request-timeout",
		prefix + `add operation does not apply: doc is missing path: "/spec/x/y": missing value`:                              "patch-failed",
		prefix + `jsonpatch add operation does not apply: doc is missing path: "/spec/x/y": missing value`:                    "patch-failed",
		prefix + `replace operation does not apply: doc is missing key: /spec/x: missing value`:                               "patch-failed",
		prefix + `error in remove for path: '/spec/x': Unable to remove nonexistent key: x: missing value`:                    "patch-failed",
		prefix + `testing value /metadata/name failed: test failed`:                                                           "patch-failed",
		prefix + `Unexpected kind: frob`:                                                "patch-failed",
		`add operation does not apply: doc is missing path: "/spec/x/y": missing value`: "patch-failed",
	} {
		if got := Parse(text); len(got) != 1 || got[0].Cause != want || got[0].Webhook != "" {
			t.Errorf("%s\nis read as %+v, want %s", text, got, want)
		}
	}
	denied := `admission webhook "w.example.com" denied the request: Unexpected kind: frob, add operation does not apply`
	if got := Parse(denied); len(got) != 1 || got[0].Cause != causeDenied {
		t.Errorf("%s\nis read as %+v, want one denial", denied, got)
	}
}

// TestCauses are errors as API servers, from 1.19 on, have printed them, beside those of
// the corpus.
func TestCauses(t *testing.T) {
	for text, want := range map[string]Cause{
		call(`no service port 443 found for service "hook"`):                                          "service-port-missing",
		call(`endpoints "hook" not found`):                                                            causeNoEndpoints,
		call(`cannot route to service with ClusterIP "None"`):                                         "service-unroutable",
		call(`x509: certificate relies on legacy Common Name field, use SANs instead`):                causeName,
		call(`x509: cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs`): causeName,
		call(`dial tcp: lookup hooks.example.com on 10.0.0.2:53: no such host`):                       "dns",
		call(`dial tcp 10.0.0.1:9443: i/o timeout`):                                                   "connect-timeout",
		call(`net/http: request canceled (Client.Timeout exceeded while awaiting headers)`):           "timeout",
		call(`context canceled`):              "client-gone",
		call(`http2: client connection lost`): "cut-off",
		called("0-length response with status code: 200 and content type: application/json"):                                      "invalid-answer",
		called("0-length response with status code: 204 and content type: "):                                                      "invalid-answer",
		called("converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"):                                "invalid-answer",
		called("converting (v1.Status) to (v1.AdmissionReview): unknown conversion"):                                              "invalid-answer",
		called(`no kind "AdmissionReview" is registered for version "admission.k8s.io/v2" in scheme "pkg/runtime/scheme.go:110"`): "invalid-answer",
		called("json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool"):              "invalid-answer",
		called("stream error: stream ID 1; INTERNAL_ERROR; received from peer"):                                                   "cut-off",
		called("the server reported a conflict"):                                                                                  causeServerError,
		called(""):                                                                                                                causeServerError,
		call("stopped after 10 redirects"):                                                                                        "invalid-answer",
		call("dial tcp: lookup hook.policy.svc: Temporary failure in name resolution"):                                            "dns",
		call(`quantum tunnelling`):                                                                                                causeOther,
		`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: the body of the request was in an unknown format - accepted media types include: application/json`: causeServerError,
		`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: RBAC: access denied`:                                                                               "envoy",
		`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: <!DOCTYPE html><p>Sign in</p>`:                                                                     "html-page",
		`failed calling webhook "w.example.com": Webhook SideEffects is nil`:                                                                                                                         "invalid-registration",
		`failed calling webhook "w.example.com"; no further details available`:                                                                                                                       causeOther,
		`Internal error occurred: failed calling admission webhook "w.example.com": Post https://hook.policy.svc:443/validate?timeout=30s: dial tcp 10.96.7.7:443: connect: connection refused`:      causeRefused,
		`Error from server: error when creating "pod.yaml": admission webhook "w.example.com" denied the request: images must come from registry.example.com`:                                        causeDenied,
		`Error from server (Forbidden): admission webhook "w.example.com" denied the request without explanation`:                                                                                    causeDenied,
		`Error from server (BadRequest): admission webhook "w.example.com" does not support dry run`:                                                                                                 "dry-run",
		`Internal error occurred: admission webhook "w.example.com" attempted to modify the object, which is not supported for this operation`:                                                       "patch",
	} {
		got := Parse(text)
		if len(got) != 1 || got[0].Cause != want || got[0].Webhook != "w.example.com" {
			t.Errorf("%s\nis read as %+v, want %s", text, got, want)
		}
	}
}

func TestConversionCauses(t *testing.T) {
	for text, want := range map[string]Cause{
		`Error from server: conversion webhook for stable.example.com/v1, Kind=CronTab failed: Post "https://hook.policy.svc:443/convert?timeout=30s": service "hook" not found`:                                                                                                                                                                                 "service-missing",
		`Error from server (InternalError): StorageError: corrupt object, Code: 7, Key: /registry/stable.example.com/crontabs/default/a, ResourceVersion: 0, AdditionalErrorMsg: conversion webhook for stable.example.com/v1, Kind=CronTab failed: Post "https://hook.policy.svc:443/convert?timeout=30s": dial tcp 10.96.7.7:443: connect: connection refused`: causeRefused,
		`unable to decode an event from the watch stream: conversion webhook for stable.example.com/v1, Kind=CronTab failed: Post "https://hook.policy.svc:443/convert?timeout=30s": net/http: TLS handshake timeout`:                                                                                                                                            "connect-timeout",
		`conversion webhook for &{map[apiVersion:stable.example.com/v1 kind:CronTab metadata:map[name:a]]} failed: Post "https://hook.policy.svc:443/convert?timeout=30s": EOF`:                                                                                                                                                                                  "cut-off",
		`conversion webhook for stable.example.com/v1, Kind=CronTab failed: 0-length response with status code: 200 and content type: application/json`:                                                                                                                                                                                                          "invalid-answer",
		`conversion webhook for stable.example.com/v1, Kind=CronTab failed: converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion`:                                                                                                                                                                                                  "invalid-answer",
		`conversion webhook for stable.example.com/v1, Kind=CronTab failed: spec.schedule is required`:                                                                                                                                                                                                                                                           "conversion-refused",
		`conversion webhook for stable.example.com/v1, Kind=CronTab failed: no response provided`:                                                                                                                                                                                                                                                                "invalid-answer",
		`conversion webhook for stable.example.com/v1, Kind=CronTab returned invalid metadata: must have the same UID: a != b`:                                                                                                                                                                                                                                   "invalid-answer",
		`conversion webhook for stable.example.com/v1, Kind=CronTab returned 0 objects, expected 1`:                                                                                                                                                                                                                                                              "invalid-answer",
	} {
		got := Parse(text)
		if len(got) != 1 || got[0].Cause != want || got[0].Webhook != "" || got[0].Group != "stable.example.com" || got[0].Version != "v1" || got[0].Kind != "CronTab" {
			t.Errorf("%s\nis read as %+v, want %s", text, got, want)
		}
	}
}

// TestWrappers: the same error, carried about by others.
func TestWrappers(t *testing.T) {
	want := APIServerError{
		Webhook: "w.example.com", URL: "https://hook.policy.svc:443/validate", Cause: causeRefused,
	}
	refused := call(`dial tcp 10.96.7.7:443: connect: connection refused`)
	quoted := strings.ReplaceAll(refused, `"`, `\"`)
	for name, text := range map[string]string{
		"kubectl":      "Error from server (InternalError): error when creating \"deploy.yaml\": " + refused + "\n",
		"an Event":     "2m13s  Warning  FailedCreate  replicaset/web-6f  Error creating: " + refused,
		"klog":         `E1121 04:35:00.000000       1 controller.go:100] "Unhandled Error" err="` + quoted + `" logger="UnhandledError"`,
		"logr, JSON":   `{"level":"error","ts":"2026-11-21T04:35:00Z","msg":"Reconciler error","error":"` + quoted + `","stacktrace":"x\ny"}`,
		"JSON in JSON": `{"log":"{\"error\":\"` + strings.ReplaceAll(quoted, `\`, `\\`) + `\"}"}`,
		"a terminal":   strings.ReplaceAll(refused, " calling ", "\n  calling\n"),
		"a chat":       strings.Replace(strings.Replace(refused, `"`, "“", 1), `"`, "”", 1),
		"Helm":         "Error: INSTALLATION FAILED: 1 error occurred:\n\t* " + refused + "\n\n",
		"twice":        "E1121 1 a " + refused + "\nE1121 2 b " + refused + "\n",
	} {
		got := Parse(text)
		if len(got) != 1 || !got[0].same(want) {
			t.Errorf("%s: %s\nis read as %+v, want %+v", name, text, got, want)
		}
	}
}

func TestSeveralComplaints(t *testing.T) {
	text := "E1121 1 " + call(`service "hook" not found`) + "\nI1121 2 all is well\nE1121 3 " +
		`admission webhook "other.example.com" denied the request: no: failed calling webhook "quoted.example.com": EOF` + "\n" +
		`E1121 4 pods "x" is forbidden: expression 'object.spec.x > 1' resulted in error: no such key: x` + "\n" +
		"Error from server (Timeout): Timeout: request did not complete within requested timeout - context deadline exceeded"
	var got []string
	for _, c := range Parse(text) {
		got = append(got, string(c.Cause)+" "+c.Webhook+c.Expression)
		if strings.Contains(c.Detail, "all is well") {
			t.Errorf("detail %q has the next line in it", c.Detail)
		}
	}
	want := "service-missing w.example.com|denied other.example.com|match-condition object.spec.x > 1|request-timeout "
	if strings.Join(got, "|") != want {
		t.Errorf("read %q, want %q", strings.Join(got, "|"), want)
	}
}

func TestNoComplaint(t *testing.T) {
	for _, text := range []string{"", "connection refused", `pods "x" not found`, "StorageError: corrupt object, Code: 7", strings.Repeat(`\`, 1<<16)} {
		if got := Parse(text); len(got) != 0 {
			t.Errorf("%.50q is read as %+v", text, got)
		}
	}
}

func FuzzParseComplaints(f *testing.F) {
	f.Add(call(`service "hook" not found`))
	f.Add(`conversion webhook for a/v1, Kind=B failed: x`)
	f.Fuzz(func(t *testing.T, text string) {
		found := Parse(text)
		if len(found) > MaxErrors {
			t.Errorf("%d parsed", len(found))
		}
		for _, c := range found {
			if len([]rune(c.Detail)) > maxDetail || advices[c.Cause].Meaning == "" {
				t.Errorf("unbounded, or of no cause: %+v", c)
			}
		}
	})
}

// TestAdvice: each cause has words, and a text that shows it.
func TestAdvice(t *testing.T) {
	for _, c := range callCauses {
		if advice := advices[c.Cause]; advice.Meaning == "" || advice.Fix == "" {
			t.Errorf("no advice for %s", c.Cause)
		}
	}
	for cause, advice := range advices {
		if strings.HasSuffix(advice.Meaning, ".") || strings.HasSuffix(advice.Fix, ".") || advice.Fix == "" {
			t.Errorf("%s: want a meaning and a fix without a full stop: %+v", cause, advice)
		}
	}
}

// TestAnswers looks parsed up in the fixtures of the checks.
func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		fixture, text string
		// registered counts the configurations; related is the first finding
		// with the cause; fix and note are parts of them.
		registered         int
		related, fix, note string
	}{
		"a finding has the way out":      {"service-missing", `failed calling webhook "closed.policy.example.com": service "gone" not found`, 1, "service-missing", "kubectl", ""},
		"a conversion":                   {"service-missing", `conversion webhook for example.com/v1beta1, Kind=Client failed: Post "https://gone.policy.svc:443/convert?timeout=30s": service "gone" not found`, 1, "service-missing", "kubectl patch crd clients.example.com", ""},
		"a conversion of no CRD":         {"no-ready-endpoints", `conversion webhook for stable.example.com/v1, Kind=CronTab failed: no endpoints available for service "x"`, 0, "", "", "No CRD of kind CronTab in group stable.example.com"},
		"nothing found, Fail":            {"backend-unreachable", `failed calling webhook "healthy.example.com": failed to call webhook: EOF`, 1, "", "kubectl delete validatingwebhookconfiguration policy", "has 2 ready endpoints"},
		"nothing found, Ignore":          {"backend-unreachable", `failed calling webhook "open.example.com": failed to call webhook: EOF`, 1, "", "Have them drain", "has 2 ready endpoints"},
		"the request went on":            {"backend-unreachable", `failed calling webhook "open.example.com": failed to call webhook: EOF`, 1, "", "", "failurePolicy is Ignore: the request went on"},
		"denied":                         {"backend-unreachable", `admission webhook "healthy.example.com" denied the request: no`, 1, "", "change the object", ""},
		"two configurations":             {"duplicate-name", `failed calling webhook "mjob.kb.io": EOF`, 3, "", "", "3 webhooks are registered that it may be about"},
		"a namespace":                    {"backend-unreachable", call(`no endpoints available for service "hook"`), 0, "", "kubectl get endpointslices,pods -n policy", ""},
		"a ghost":                        {"backend-unreachable", call(`EOF`), 0, "", "", "No configuration in the input registers webhook w.example.com"},
		"a ghost whose Service is there": {"backend-unreachable", `failed calling webhook "old.example.com": failed to call webhook: Post "https://policy.policy.svc:443/x": EOF`, 0, "", "", "is called by webhook refused.example.com"},
		"a static manifest":              {"backend-unreachable", `failed calling webhook "a.static.k8s.io": EOF`, 0, "", "", "staticManifestsDir"},
	} {
		t.Run(name, func(t *testing.T) {
			parsed := Parse(tc.text)
			if len(parsed) != 1 {
				t.Fatalf("read %+v", parsed)
			}
			a := Explain(evaluated(t, "../testdata/"+tc.fixture+".yaml"), parsed[0])
			related := ""
			if a.Related > 0 {
				related = a.Findings[0].Check.Name
			}
			if len(a.Profiles) != tc.registered || related != tc.related || !strings.Contains(a.Fix+" "+a.Look, tc.fix) || !strings.Contains(strings.Join(a.Notes, " "), tc.note) {
				t.Errorf("registered %d, related %q, fix %q, notes %q; want %+v", len(a.Profiles), related, a.Fix, a.Notes, tc)
			}
		})
	}
}

// evaluated is the Report on a fixture, read as a cluster that holds no more.
func evaluated(t *testing.T, file string) *classify.Report {
	t.Helper()
	o, _ := manifest.Read([]string{file}, manifest.Options{})
	o.NamespacesKnown, o.APIServicesKnown = true, true
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	return must.Get(classify.DefaultPolicy().Evaluate(t.Context(), o.Snapshot(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))))(t)
}

// TestChecksExist: a cause that names no check would never point at a finding.
func TestChecksExist(t *testing.T) {
	for cause, advice := range advices {
		for _, name := range advice.Checks {
			if !slices.ContainsFunc(classify.Checks, func(c *classify.Check) bool { return c.Name == name }) {
				t.Errorf("%s: no check is named %q", cause, name)
			}
		}
	}
}
