package diagnose

import (
	"html"
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

// TestWrappers: the same errors, carried about by others.
func TestWrappers(t *testing.T) {
	broken := func(text string, width int) string { // as a terminal breaks it, within words
		var out []string
		for ; len(text) > width; text = text[width:] {
			out = append(out, text[:width])
		}
		return strings.Join(append(out, text), "\n")
	}
	lines := func(text, begin, end string) string { // as mails and tables break it, between words
		width, out := 0, begin
		for word := range strings.FieldsSeq(text) {
			if width += len(word) + 1; width > 74 {
				width, out = len(word)+1, strings.TrimRight(out, " ")+end+"\n"+begin
			}
			out += word + " "
		}
		return strings.TrimRight(out, " ") + end
	}
	quoted := func(text string) string { return strings.ReplaceAll(text, `"`, `\"`) }
	doubled := func(text string) string { return strings.ReplaceAll(text, `"`, `""`) }
	for name, carried := range map[string]func(string) string{
		"kubectl":  func(s string) string { return "$ kubectl apply -f deploy.yaml\n" + s + "\n" },
		"an Event": func(s string) string { return "2m13s  Warning  FailedCreate  replicaset/web-6f  Error creating: " + s },
		"klog": func(s string) string {
			return `E1121 04:35:00.000000       1 controller.go:100] "Unhandled Error" err="` + quoted(s) + `" logger="UnhandledError"`
		},
		"logr, JSON": func(s string) string {
			return `{"level":"error","ts":"2026-11-21T04:35:00Z","msg":"Reconciler error","error":"` + quoted(s) + `","stacktrace":"x\ny"}`
		},
		"JSON in JSON": func(s string) string {
			return `{"log":"{\"error\":\"` + strings.ReplaceAll(quoted(s), `\`, `\\`) + `\"}"}`
		},
		"JSON, cut": func(s string) string { return `      "message": "` + quoted(s) + `",` + "\n      \"reason\": \"x\"," },
		"JSON for browsers": func(s string) string {
			return `"m":"` + strings.NewReplacer(`"`, `\u0022`, `'`, `\u0027`).Replace(s) + `"`
		},
		"YAML, cut": func(s string) string { return "  - message: '" + strings.ReplaceAll(s, "'", "''") + "'\n    reason: x" },
		"YAML, folded": func(s string) string {
			return "  - message: '" + strings.TrimSpace(lines(strings.ReplaceAll(s, "'", "''"), "      ", "")) + "'\n    reason: x"
		},
		"YAML, block": func(s string) string { return "  message: |\n" + lines(s, "    ", "") },
		"Python": func(s string) string {
			return `HTTP response body: b'{"kind":"Status","message":"` + strings.ReplaceAll(quoted(s), "'", `\'`) + `","code":500}\n'`
		},
		"a terminal": func(s string) string {
			return strings.ReplaceAll(strings.ReplaceAll(s, " calling ", "\n  calling\n"), " denied ", "\n  denied\n")
		},
		"a terminal of 80":  func(s string) string { return broken(s, 80) },
		"a terminal of 100": func(s string) string { return broken(s, 100) },
		"a terminal of 61":  func(s string) string { return broken(s, 61) },
		"a terminal of 132": func(s string) string { return "$ kubectl create -f x\n" + broken(s, 132) + "\n$" },
		"colors": func(s string) string {
			return "\x1b[31mError\x1b[0m: " + strings.NewReplacer("calling", "\x1b[1mcalling\x1b[0m", "denied", "\x1b[1mdenied\x1b[0m").Replace(s)
		},
		"a mail":   func(s string) string { return lines(s, "> > ", "") },
		"comments": func(s string) string { return lines(s, "# ", "") },
		"Windows":  func(s string) string { return lines(s, "", "\r") },
		"k9s":      func(s string) string { return lines(s, "│ ", " │") },
		"k9s, of a column": func(s string) string {
			return "│ " + strings.ReplaceAll(broken("  Failure   True   "+s, 80), "\n", " │\n│ ") + strings.Repeat(" ", 40) + " │"
		},
		"a table, of a column": func(s string) string {
			return "| " + strings.ReplaceAll(broken("     Failure   "+s, 60), "\n", " |\n| ") + " |"
		},
		"Terraform": func(s string) string {
			return "╷\n" + lines("Error: "+s, "│ ", "") + "\n│\n│   with helm_release.x,\n│   on main.tf line 1\n╵"
		},
		"a table":        func(s string) string { return "+---+---+\n" + lines(s, "|   | ", " |") + "\n+---+---+" },
		"Markdown":       func(s string) string { return "| when | what |\n|---|---|\n| 10:00 | " + s + " |\n| 10:01 | ok |" },
		"docker compose": func(s string) string { return lines(s, "app-1  | ", "") },
		"a chat":         func(s string) string { return strings.Replace(strings.Replace(s, `"`, "“", 1), `"`, "”", 1) },
		"a chat, single": func(s string) string { return strings.NewReplacer(`"`, "'").Replace(s) },
		"backticks":      func(s string) string { return strings.NewReplacer(`"`, "`").Replace(s) },
		"guillemets":     func(s string) string { return strings.NewReplacer(` "`, " «", `"`, "»").Replace(s) },
		"no quotes":      func(s string) string { return strings.NewReplacer(`"`, "").Replace(s) },
		"CSV":            func(s string) string { return `"10:00","` + doubled(s) + `","x"` },
		"HTML":           func(s string) string { return "<pre>" + html.EscapeString(s) + "</pre>" },
		"HTML in HTML":   func(s string) string { return html.EscapeString(html.EscapeString(s)) },
		"links": func(s string) string {
			return strings.ReplaceAll(s, "w.example.com", "[w.example.com](http://w.example.com/)")
		},
		"no-break spaces":   func(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") },
		"zero-width spaces": func(s string) string { return strings.ReplaceAll(s, ".", ".\u200b") },
		"Helm":              func(s string) string { return "Error: INSTALLATION FAILED: 1 error occurred:\n\t* " + s + "\n\n" },
		"Argo CD": func(s string) string {
			return "one or more objects failed to apply, reason: " + s + ". Retrying attempt #2 at 5:00AM."
		},
		"a question": func(s string) string {
			return "Hi,\n\nwe see this:\n\n```\n" + s + "\n```\nand connection refused in Grafana."
		},
		"another language": func(s string) string { return "创建失败:" + s + "。" },
		"beginning cut":    func(s string) string { return "…" + strings.TrimPrefix(s, "Internal error occurred: failed ") },
	} {
		for _, text := range []string{
			call(`dial tcp 10.96.7.7:443: connect: connection refused`),
			call(`no endpoints available for service "hook"`),
			call(`tls: failed to verify certificate: x509: certificate is valid for hook, hook.old.svc, not hook.policy.svc`),
			call(`tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of "crypto/rsa: verification error" while trying to verify candidate authority certificate "hook-ca")`),
			`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: an error on the server ("nil map") has prevented the request from succeeding`,
			`admission webhook "w.example.com" denied the request: images of registry.example.com only, got a web server of the public registry instead`,
			`The deployments "web" is invalid: : ValidatingAdmissionPolicy 'require-team' with binding 'require-team-all' denied request: label team is missing on the object`,
			`Error from server: conversion webhook for shop.example.com/v1beta1, Kind=Cart failed: Post "https://cart-webhook.shop.svc:443/convert?timeout=30s": service "cart-webhook" not found`,
		} {
			if got, want := summary(carried(text)), summary(text); got != want {
				t.Errorf("%s: %s\nis read as %q, want %q", name, carried(text), got, want)
			}
		}
	}
	refused := call(`dial tcp 10.96.7.7:443: connect: connection refused`)
	want := APIServerError{Webhook: "w.example.com", URL: "https://hook.policy.svc:443/validate", Cause: causeRefused}
	if got := Parse("E1121 1 a " + refused + "\nE1121 2 b " + refused + "\n"); len(got) != 1 || !got[0].same(want) || got[0].Count != 2 {
		t.Errorf("read as %+v, want %+v", got, want)
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
	for _, c := range conflictCauses { // a conflict of an apply refuses no request that a webhook is called for
		if !slices.Contains(answered, c.Cause) {
			t.Errorf("%s is none of those that are answered", c.Cause)
		}
	}
	for cause, advice := range advices {
		if strings.HasSuffix(advice.Meaning, ".") || strings.HasSuffix(advice.Fix, ".") || advice.Fix == "" {
			t.Errorf("%s: want a meaning and a fix without a full stop: %+v", cause, advice)
		}
	}
	var conversions []string
	for _, a := range advices {
		conversions = append(conversions, a.Conversion)
	}
	for _, s := range settings {
		conversions = append(conversions, s.Conversion)
	}
	for _, way := range conversions { // without its conversion, a version that differs loses fields
		if strings.Contains(way, "strategy to None") && !strings.Contains(way, "differ in name only") || strings.Contains(way, "delete the configuration") {
			t.Errorf("not of each conversion: %s", way)
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
		"a conversion of a list":         {"service-missing", `conversion webhook for example.com/v1beta1, Kind=ClientList failed: Post "https://gone.policy.svc:443/convert?timeout=30s": service "gone" not found`, 1, "service-missing", "kubectl patch crd clients.example.com", ""},
		"a conversion of no CRD":         {"no-ready-endpoints", `conversion webhook for stable.example.com/v1, Kind=CronTab failed: no endpoints available for service "x"`, 0, "", "", "No CRD of kind CronTab in group stable.example.com"},
		"nothing found, Fail":            {"backend-unreachable", `failed calling webhook "healthy.example.com": failed to call webhook: EOF`, 1, "", "kubectl delete validatingwebhookconfiguration policy", "has 2 ready endpoints"},
		"nothing found, Ignore":          {"backend-unreachable", `failed calling webhook "open.example.com": failed to call webhook: EOF`, 1, "", "Have them drain", "has 2 ready endpoints"},
		"the request went on":            {"backend-unreachable", `failed calling webhook "open.example.com": failed to call webhook: EOF`, 1, "", "", "failurePolicy is Ignore: the request went on"},
		"denied":                         {"backend-unreachable", `admission webhook "healthy.example.com" denied the request: no`, 1, "", "change the object", ""},
		"two configurations":             {"duplicate-name", `failed calling webhook "mjob.kb.io": EOF`, 3, "", "", "3 webhooks are registered that it may be about"},
		"a namespace":                    {"backend-unreachable", call(`no endpoints available for service "hook"`), 0, "", "kubectl get endpointslices,pods -n policy", ""},
		"a ghost":                        {"backend-unreachable", call(`EOF`), 0, "", "", "No configuration in the input registers webhook w.example.com"},
		"a ghost whose Service is there": {"backend-unreachable", `failed calling webhook "old.example.com": failed to call webhook: Post "https://policy.policy.svc:443/x": EOF`, 0, "", "", "is called by webhook refused.example.com"},
		"Google's":                       {"backend-unreachable", `failed calling webhook "warden-validating.common-webhooks.networking.gke.io": failed to call webhook: Post "https://localhost:5443/x": EOF`, 0, "", "report it to Google", "is Google's own"},
		"Google's software":              {"backend-unreachable", `failed calling webhook "v1.admission-webhook.configsync.gke.io": failed to call webhook: EOF`, 0, "", "look for restarts", "No configuration in the input registers webhook v1."},

		"a namespace that waits":         {"backend-unreachable", `NamespaceDeletionContentFailure: Failed to delete all resource types, 1 remaining: Internal error occurred: failed calling webhook "healthy.example.com": service "policy" not found`, 1, "", "then delete that: a namespace that is being deleted takes no new backend", "The deletion of a namespace waits"},
		"a namespace whose hook is back": {"backend-unreachable", `Failed to delete all resource types, 2 remaining: Internal error occurred: failed calling webhook "healthy.example.com": failed to call webhook: EOF`, 1, "", "Have them drain", "The deletion of a namespace waits"},
		"a namespace and a conversion":   {"backend-unreachable", `E1 namespace_controller.go:159] deletion of namespace shop failed: conversion webhook for a.example.com/v1, Kind=Cart failed: Post "https://h.shop.svc:443/c?timeout=30s": service "h" not found`, 0, "", "set its spec.conversion.strategy to None. Else bring its Service back", "The deletion of a namespace waits"},
		"OLM lists what exists":          {"backend-unreachable", `error validating existing CRs against new CRD's schema for "carts.a.example.com": error listing resources in GroupVersionResource schema.GroupVersionResource{Group:"a.example.com"}: conversion webhook for a.example.com/v1, Kind=Cart failed: Post "https://h.s.svc:443/c?timeout=30s": service "h" not found`, 0, "", "delete the failed InstallPlan", "installs nothing as long as"},
		"a start hook, called":           {"backend-unreachable", `E1 client_ca_hook.go:78] Internal error occurred: failed calling webhook "healthy.example.com": failed to call webhook: EOF`, 1, "", "an API server takes requests before it is ready", "makes this request as it starts"},
		"a start hook, denied":           {"backend-unreachable", `F1 hooks.go:203] PostStartHook "rbac/bootstrap-roles" failed: unable to initialize roles: admission webhook "healthy.example.com" denied the request: no`, 1, "", "then delete that: an API server", "makes this request as it starts"},
		"a start hook, of no name":       {"backend-unreachable", `F1203 18:10:28 11278 hooks.go:188] PostStartHook "ca-registration" failed: unable to initialize client CA configmap: timed out waiting for the condition`, 0, "", "webhook-auditor audit PATH", ""},

		"a finalizer":              {"backend-unreachable", `"failed to clear finalizers: admission webhook "healthy.example.com" denied the request: no updates are allowed"`, 1, "", "!has(object.metadata.deletionTimestamp)", "The object is being deleted"},
		"a finalizer, of a kind":   {"backend-unreachable", `Error: error removing cart finalizer: admission webhook "healthy.example.com" denied the request: immutable`, 1, "", "!has(object.metadata.deletionTimestamp)", "The object is being deleted"},
		"a finalizer, by its name": {"backend-unreachable", `could not remove the example.com/cleanup finalizer: admission webhook "healthy.example.com" denied the request: x`, 1, "", "!has(object.metadata.deletionTimestamp)", "The object is being deleted"},
		"a finalizer, updated":     {"backend-unreachable", `updating finalizers of cart a: admission webhook "healthy.example.com" denied the request: x`, 1, "", "!has(object.metadata.deletionTimestamp)", "The object is being deleted"},
		"a finalizer, no answer":   {"backend-unreachable", `unable to remove finalizer: failed calling webhook "healthy.example.com": failed to call webhook: EOF`, 1, "", "Have them drain", "The object is being deleted"},
		"a finalizer is added":     {"backend-unreachable", `failed to add finalizer: admission webhook "healthy.example.com" denied the request: x`, 1, "", "change the object", ""},
		"Velero restores":          {"backend-unreachable", `level=info msg="error restoring carts.shop.example.com: Internal error occurred: failed calling webhook \"healthy.example.com\": Post https://policy.policy.svc:443/m?timeout=30s: service \"policy\" not found"`, 1, "", "restore again once the Pods", "Velero waits for no Pod"},
		"OpenShift's operator":     {"backend-unreachable", `W1 degraded_webhook.go:135] failed to connect to webhook "healthy.example.com" via service "policy.policy.svc:443": EOF`, 1, "", "", "no request failed by it"},
		"OpenShift's, of a CRD":    {"service-missing", `W1 degraded_webhook.go:135] failed to connect to webhook "clients.example.com" via service "gone.policy.svc:443": dial tcp: lookup gone.policy.svc on 172.30.0.10:53: no such host`, 1, "", "", "no request failed by it"},

		"a static manifest": {"backend-unreachable", `failed calling webhook "a.static.k8s.io": EOF`, 0, "", "", "staticManifestsDir"},
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
