package diagnose

import (
	"regexp"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// TestStamps: what CI systems put before each line of what a command prints.
func TestStamps(t *testing.T) {
	const printed = "The CustomResourceDefinition \"carts.shop.example.com\" is invalid: \n" +
		"* spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook\n" +
		"* spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook\n"
	want := map[string]string{
		"2024-05-01T10:00:00Z\tINFO\ta\n" + printed: "half-merged\tcrd carts.shop.example.com",
		"2024-05-01T10:00:00.1Z Error: admission webhook \"w.example.com\" denied the request: a\n2024-05-01T10:00:00.1Z b\n" +
			"2024-05-01T10:00:00.1Z ##[error]Process completed with exit code 1.\n2024-05-01T10:00:00.1Z Done": "denied\tw.example.com",
	}
	for _, stamp := range []string{
		"2024-05-01T10:00:00.1234567Z ", "\ufeff2024-05-01T10:00:00.1234567Z ", "2024-05-01T10:00:00.1234567Z ##[error]", "2024-05-01T10:00:00.123456Z 01O ",
		"[2024-05-01T10:00:00.123Z] ", "10:00:00  ", "2024-05-01 10:00:00,123 -   ",
	} {
		want[stamp+strings.ReplaceAll(strings.TrimSpace(printed), "\n", "\n"+stamp)] = "half-merged\tcrd carts.shop.example.com"
	}
	expect.Results(t, summary, want)
	if got := Parse("10:00:00 error: admission webhook \"w.example.com\" denied the request: a\n10:00:00 b\n10:00:00 Process completed with exit code 1.")[0].Detail; got != "a b" {
		t.Errorf("the words are %q", got)
	}
}

// TestDetails: what a backend answered, without what another program printed around it.
func TestDetails(t *testing.T) {
	const denied = `admission webhook "w.example.com" denied the request: no`
	const ruler = "\n-------------------------------------------------------------------------------\n"
	for _, text := range []string{ // a backend quotes another program, whose lines look like records
		`Error: admission webhook "w.example.com" denied the request: ` + ruler + "Error: exit status 1\n2026/10/15 10:30:28 [emerg] 2#2: the cause\nnginx: configuration file test failed" + ruler,
		`W0223 18:41:48.303065 1 dispatcher.go:141] rejected by webhook "w.example.com": &errors.StatusError{ErrStatus:v1.Status{Message:"admission webhook \"w.example.com\" denied the request: ` + ruler + "Error: signal: the cause\n" + ruler + `", Reason:"BadRequest", Details:(*v1.StatusDetails)(nil), Code:400}}`,
	} {
		if found := Parse(text); len(found) != 1 || !strings.Contains(found[0].Detail, "the cause") {
			t.Errorf("%s: %+v", text, found)
		}
	}
	const synced = "timed out waiting for dependency graph builder sync during GC sync (attempt 12)"
	if found := Parse("E1 garbagecollector.go:228] " + synced); len(found) != 1 || found[0].Detail != synced {
		t.Errorf("%+v", found)
	}
	const words = "no"
	for _, message := range []string{
		`HTTP response body: {"kind":"Status","apiVersion":"v1","status":"Failure","message":"admission webhook \"w.example.com\" denied the request: no","code":400}`,
		`ApiError: ` + denied + ` (ErrorResponse { status: "Failure", message: "x", reason: "", code: 400 })`,
		"Failure executing: POST at: https://10.0.0.1/api/v1/pods. Message: " + denied + ". Received status: Status(apiVersion=v1, code=400, message=x)",
		"Error: " + denied + "\n  with kubernetes_manifest.x,\n  on main.tf line 1",
		`unable to drain node "n1" due to error: [error when evicting pods/"a" -n "x": ` + denied + `, error when evicting pods/"b" -n "x": global timeout reached: 1m0s]`,
		"cannot evict pod shop/db-0: " + denied + "; cannot evict pod shop/db-1: " + denied,
	} {
		if found := Parse(message); len(found) != 1 || found[0].Detail != words {
			t.Errorf("%s: %+v", message, found)
		}
	}
}

// TestFixes: the first step depends on the words of a denial.
func TestFixes(t *testing.T) {
	for words, fix := range map[string]string{
		`unsupported webhook operation UPDATE`:                                     "look at the log",
		`no kind "Eviction" is registered for version "policy/v1" in scheme "x"`:   "look at the log",
		`Internal error occurred: failed calling webhook "x.y.z": EOF`:             "look at the log",
		`error: signal: killed`:                                                    "look at the log",
		`failed to list pods: context deadline exceeded`:                           "look at the log",
		`Namespace is not cached in OPA`:                                           "look at the log",
		`the cache is not started, can not read objects`:                           "look at the log",
		`informers not synced`:                                                     "look at the log",
		`policy cache not ready`:                                                   "look at the log",
		`could not reach the license server`:                                       "look at the log",
		`error looking up owner: the server could not find the requested resource`: "look at the log",
		`server is shutting down`:                                                  "look at the log",
		`pods "x" is forbidden: User "system:serviceaccount:a:a" cannot get resource "pods" in API group ""`: "look at the log",
		`unable to fetch Secret shop/x: secrets "x" not found`:                                               "change the object",
		`failed to get class: storageclasses "fast" not found`:                                               "change the object",
		`could not get the owner: it does not exist`:                                                         "change the object",
		`spec.storage cannot get smaller`:                                                                    "change the object",
		`the size of the cache has to be a quantity`:                                                         "change the object",
		`spec.template: Required value`:                                                                      "change the object",
	} {
		denied := Parse(`admission webhook "w.example.com" denied the request: ` + words)
		if a := FromMessage(denied[0]); !strings.HasPrefix(a.Fix, fix) {
			t.Errorf("%s: the first step is %q, want %q", words, a.Fix, fix)
		}
	}
}

// TestNeeded: texts of which one is in whatever an expression matches.
func TestNeeded(t *testing.T) {
	needs := func(expression string) string { return strings.Join(neededFor(regexp.MustCompile(expression)), "|") }
	expect.Results(t, needs, map[string]string{
		`calling webhook "([^"]+)"`: `calling webhook "`,
		`(?i)Owner(?:s|less)x?`:     "owner",
		`ab|cde`:                    "ab|cde",
		`ab?|`:                      "",
		`(?:ab)+\d(cdef)`:           "cdef",
		`x*[yz]`:                    "",
		`(?:a|bb) (?:ccc|dddd)`:     "ccc|dddd",
	})
}
