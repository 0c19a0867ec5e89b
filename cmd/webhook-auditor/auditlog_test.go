package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// auditLine is a line of an audit log: a request of the user for a Pod.
func auditLine(namespace, user, fields string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"36dc0368","stage":"ResponseComplete","verb":"create","user":{"username":%q},`+
		`"objectRef":{"resource":"pods","namespace":%q,"name":"pod-of-zoe","apiVersion":"v1"},"stageTimestamp":"2026-11-23T10:02:00Z",%s}`+"\n", user, namespace, fields)
}

// denial is a refusal of testdata/webhooks.yaml.
func denial(namespace, user string) string {
	return auditLine(namespace, user, `"responseStatus":{"code":403,"message":"admission webhook \"images.policy.example.com\" denied the request: zoe may not use image x:1 in payroll"}`)
}

const controller = "system:serviceaccount:kube-system:zeta-controller"

// auditLogFile has three denials by the webhook of testdata/webhooks.yaml, a webhook
// that nothing registers, a change, and a broken line.
func auditLogFile(t *testing.T) string {
	t.Helper()
	text := denial("payroll", controller) + denial("payroll", controller) + denial("laboratory", controller) + "broken\n" +
		auditLine("payroll", "zoe", `"responseStatus":{"code":201},"annotations":{"failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"ghost.example.com"}`) +
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"update","user":{"username":"zoe"},"objectRef":{"resource":"validatingwebhookconfigurations","name":"policy"},"stageTimestamp":"2026-11-23T10:03:00Z","responseStatus":{"code":200}}` + "\n"
	return must.File(t, "audit.log", text)
}

// TestTopAuditLog: what is shown of requests, by what.
func TestTopAuditLog(t *testing.T) {
	log := auditLogFile(t)
	top := []string{"top", "--audit-log", log, "--from", "testdata/webhooks.yaml"}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"webhooks": {nil, []string{
			"images.policy.example.com validating 3 0 3 0 0 0 2026-11-23T10:02:00Z policy",
			"ghost.example.com validating 1 0 0 0 1 0 2026-11-23T10:02:00Z -",
			"3 denied images.policy.example.com: zoe may not use image … in payroll",
			"; no audit event, or not all of it can be read: 1 line: " + log + ":4: it is no JSON object",
		}},
		"by user":      {[]string{"--by", "user"}, []string{"images.policy.example.com validating zeta-controller 3 "}},
		"by namespace": {[]string{"--by", "namespace"}, []string{"images.policy.example.com validating payroll 2 ", "images.policy.example.com validating laboratory 1 "}},
		"by resource":  {[]string{"--by", "resource"}, []string{"images.policy.example.com validating CREATE pods 3 "}},
		"selected":     {[]string{"-n", "policy"}, []string{"images.policy.example.com validating 3 "}},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", append(top, c.args...)...)
			for _, want := range c.want {
				if r.code != exitOK || !strings.Contains(squeezed(r.out), want) {
					t.Errorf("exit code %d, %s, no %q in\n%s", r.code, r.err, want, r.out)
				}
			}
			if name == "selected" && strings.Contains(r.out, "ghost.example.com   ") {
				t.Errorf("it shows other webhooks:\n%s", r.out)
			}
			expect.Equal(t, "", r.err) // no progress line without a terminal
		})
	}
	var document report.AuditTop
	r := execute(t, "", append(top, "-o", "json")...)
	must.Succeed(t, json.Unmarshal([]byte(r.out), &document))
	l := document.AuditLog
	if l.Lines != 6 || l.Broken != 1 || len(l.Requests) != 2 || l.Requests[0].Denied != 3 || len(l.Notes) < 2 || l.Messages[0].Requests != 3 {
		t.Errorf("%+v", l)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	if r := execute(t, denial("a", "b"), "top", "--audit-log", "-"); r.code != exitOK || !strings.Contains(squeezed(r.out), "images.policy.example.com validating 1 ") {
		t.Errorf("without a cluster: %+v", r)
	}
}

// TestAuditLogIsBoundedInText: a table has the first lines, the JSON all.
func TestAuditLogIsBoundedInText(t *testing.T) {
	var text bytes.Buffer
	for i := range 60 {
		text.WriteString(denial(fmt.Sprintf("n%02d", i), "zoe"))
	}
	r := execute(t, text.String(), "top", "--audit-log", "-", "--from", "testdata/webhooks.yaml", "--by", "namespace")
	if strings.Count(r.out, "  validating  ") != 50 || !strings.Contains(r.out, "… and 10 more\n") {
		t.Errorf("%s", r.out)
	}
}

// mutatingCalls are annotations of calls, each as "ROUND INDEX WEBHOOK PATCH", in which /
// is a Metadata level's missing patch.
func mutatingCalls(calls ...string) string {
	annotations := map[string]string{}
	for _, call := range calls {
		words := strings.SplitN(call, " ", 4)
		place := ".webhook.admission.k8s.io/round_" + words[0] + "_index_" + words[1]
		annotations["mutation"+place] = fmt.Sprintf(`{"configuration":"c","webhook":%q,"mutated":true}`, words[2])
		if len(words) == 4 {
			annotations["patch"+place] = fmt.Sprintf(`{"configuration":"c","webhook":%q,"patch":[%s],"patchType":"JSONPatch"}`, words[2], words[3])
		}
	}
	text, _ := json.Marshal(annotations)
	return `"responseStatus":{"code":201},"annotations":` + string(text)
}

//go:embed testdata/mutating-policies.yaml
var mutatingPolicies string

// TestWhoChanged: the calls in their order, each with its patch, and what a later one
// overwrote; the fields by webhook, and what is written again and again.
func TestWhoChanged(t *testing.T) {
	policies := must.File(t, "policies.yaml", mutatingPolicies)
	patched := mutatingCalls(`1 2 first `+`{"op":"replace","path":"/metadata/labels/a~1b","value":"2"}`,
		`0 10 last {"op":"add","path":"/spec/containers/-","value":{"name":"proxy","env":[{"name":"A","value":"TOPSECRET"}]}}`,
		`0 2 first {"op":"replace","path":"/metadata/labels/a~1b","value":"1"}`)
	object := `,"requestObject":{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"x":"y"}},"spec":{"containers":[{"name":"c"}]}}`
	for name, c := range map[string]struct {
		text  string
		flags []string
		want  []string
	}{
		"in order": {auditLine("shop", "zoe", patched+object), []string{"-v"}, []string{
			`owner.example.com mutating policy: recorded: nothing; called by what is registered: yes (a log records no mutating policy)`,
			`add /metadata/labels/a~1b "policy" (overwritten by first) add /spec/priorityClassName "policy" first mutating, round 0, index 2: mutated`,
			`replace /metadata/labels/a~1b "policy" → "1" (overwritten by first) last mutating, round 0, index 10: mutated`,
			`add /spec/containers/1 {"env":"(hidden)","name":"proxy"} first mutating, round 1, index 2: mutated`,
			`replace /metadata/labels/a~1b "1" → "2"`,
		}},
		"without values": {auditLine("shop", "zoe", patched+object), nil, []string{`replace /metadata/labels/a~1b (overwritten by first)`}},
		"copied from a JSON patch": {
			strings.Replace(auditLine("shop", "zoe", mutatingCalls(`0 0 first {"op":"add","path":"/metadata/annotations","value":{"copy":"TOPSECRET"}},{"op":"remove","path":"/spec/nodeName"}`)+`,"requestObject":[{"op":"add","path":"/spec/containers/0/env/0/value","value":"TOPSECRET"}]`), `"create"`, `"patch"`, 1),
			[]string{"-v"},
			[]string{`add /metadata/annotations {"copy":"(hidden)"} remove /spec/nodeName`, "patch pods"},
		},
		"applied": {strings.Replace(auditLine("shop", "zoe", mutatingCalls("0 0 first")+object), `"create"`, `"patch"`, 1), nil, []string{
			"owner.example.com mutating policy: recorded: nothing; called by what is registered: yes (a log records no mutating policy) add /metadata/labels",
		}},
		"several objects": {strings.Replace(auditLine("shop", "zoe", mutatingCalls("0 0 first")), `"create"`, `"deletecollection"`, 1), nil, []string{"it deletes many objects, and the log holds the calls of one of them"}},
		"Metadata": {auditLine("shop", "zoe", mutatingCalls("0 0 first")), nil, []string{
			"first mutating, round 0, index 0: mutated", "this log, of level Metadata, has no patch: which fields were changed needs level Request for pods in the audit policy",
			"owner.example.com mutating policy: recorded: nothing; called by what is registered: yes (a log records no mutating policy; its changes are not known: the object is not known)",
		}},
	} {
		r := execute(t, c.text, append([]string{"explain", "--audit-log", "-", "--request-id", "36dc0368", "--from", policies}, c.flags...)...)
		for _, want := range c.want {
			if r.code != exitOK || !strings.Contains(squeezed(r.out), want) || strings.Contains(r.out, "TOPSECRET") {
				t.Errorf("%s: exit code %d, %s, no %q in\n%s", name, r.code, r.err, want, r.out)
			}
		}
	}
}

// deletion is a line of the delete of a Pod, some time after the first write.
func deletion(name, user string, after time.Duration) string {
	event := strings.NewReplacer("pod-of-zoe", name, `"create"`, `"delete"`).Replace(auditLine("shop", user, `"responseStatus":{"code":200}`))
	return strings.Replace(event, "2026-11-23T10:02:00Z", time.Date(2026, 11, 23, 10, 2, 0, 0, time.UTC).Add(after).Format(time.RFC3339Nano), 1)
}

// TestLoops: what is written again and again by a mutating webhook's doing, and what is written
// often for its own sake. Each write is repeated four times.
func TestLoops(t *testing.T) {
	const system = "system:serviceaccount:kube-system:"
	const image = ` {"op":"replace","path":"/spec/containers/0/image","value":"x"},{"op":"replace","path":"/spec/containers/1/image","value":"y"}`
	var all strings.Builder
	for name, c := range map[string]struct {
		user, request string
		pause         time.Duration
		patch, want   string
	}{
		"a Pod":                     {"operator", "create pods pg-1", time.Minute, image, "operator CREATE pods pg-1 in shop in 3m: /spec/containers/*/image replaced each time by images"},
		"an operator's Pods":        {"operator", "create pods pg-…owned", time.Minute, image, "operator CREATE pods pg-… in shop in 3m: /spec/containers/*/image replaced each time by images"},
		"Pods by number":            {"operator", "create pods pg-#", time.Minute, image, ""},
		"executors of Spark":        {"spark", "create pods app-exec-#owned", time.Minute, image, ""},
		"steps of a workflow":       {"argo", "create pods run-#-step-@owned", time.Second, image, ""},
		"Pods of TaskRuns":          {"tekton", "create pods taskrun-#…", time.Second, image, ""},
		"Pods of an owner each":     {"tekton", "create pods taskrun-…ownedby#", time.Second, image, ""},
		"a runner without an owner": {"runner", "create pods runner-…", time.Second, image, ""},
		"a batch":                   {"batch", "create pods night-…ownedkept", time.Second, image, ""},
		"a batch that ends":         {"batch", "create pods night-…ownedlate", time.Second, image, ""},
		"collected by another user": {"batch", "create pods night-…ownedgc", time.Second, image, ""},
		"nothing replaced":          {"batch", "create pods night-…owned", time.Second, ` {"op":"add","path":"/spec/nodeName","value":"x"}`, ""},
		"GitOps":                    {"system:serviceaccount:argocd:sync", "patch deployments.apps web", 30 * time.Minute, image, "argocd/sync UPDATE deployments.apps web in shop in 90m: "},
		"without patches":           {"gitops", "update pods web", time.Second, "", "gitops UPDATE pods web in shop in 3s: the object (level Request shows the fields) changed each time by images"},
		"Deployments rolled":        {"ci", "patch deployments.apps shop-~", time.Second, image, ""},
		"a Deployment released":     {"ci", "patch deployments.apps web", 24 * time.Hour, image, ""},
		"Pods of a Deployment":      {system + "replicaset-controller", "create pods web-6d4cf56db6-ab#cd", time.Second, image, ""},
		"a StatefulSet rolled":      {system + "statefulset-controller", "create pods web-0", time.Minute, image, ""},
		"Jobs of a CronJob":         {system + "cronjob-controller", "create jobs.batch backup-2900000#", time.Minute, image, ""},
		"Pods of Jobs":              {"system:kube-controller-manager", "create pods night-…", time.Second, image, ""},
		"a DaemonSet on new nodes":  {system + "daemonset-controller", "create pods logs-@", time.Second, image, ""},
		"scaled":                    {system + "horizontal-pod-autoscaler", "update deployments.apps/scale web", time.Minute, image, ""},
		"the status":                {"operator", "update foos.example.com/status web", time.Second, image, ""},
		"the lease of a node":       {"system:node:a", "update leases.coordination.k8s.io a", 10 * time.Second, image, ""},
		"the lease of an operator":  {"operator", "update leases.coordination.k8s.io operator", 2 * time.Second, "", ""},
		"names of words":            {"ci", "create pods app-v2-~", time.Second, image, ""},
		"dry runs":                  {"ci", "create pods web?dryRun=All", time.Second, image, ""},
		"what is there already":     {"operator", "update pods same", time.Second, image, ""},
	} {
		var text strings.Builder
		for i := range 4 {
			letter, word := string("bcdf"[i]), []string{"api", "worker", "page", "proxy"}[i]
			words := strings.Fields(strings.NewReplacer("#", fmt.Sprint(i), "@", "xk"+letter+"lm", "~", word).Replace(c.request))
			resource, subresource, _ := strings.Cut(words[1], "/")
			resource, group, _ := strings.Cut(resource, ".")
			object, owner, isOwned := strings.Cut(words[2], "owned")
			generated, owners := "", "[]"
			if prefix, ok := strings.CutSuffix(object, "…"); ok {
				object, generated = "", prefix
			}
			if isOwned {
				owners = fmt.Sprintf(`[{"uid":"u-%s"}]`, strings.TrimPrefix(owner, "by"))
			}
			event := auditLine("shop", c.user, mutatingCalls("0 0 images"+c.patch)+fmt.Sprintf(`,"requestObject":{"metadata":{"generateName":%q,"ownerReferences":%s}},"requestURI":%q`, generated, owners, object))
			text.WriteString(strings.NewReplacer(`"verb":"create"`, fmt.Sprintf(`"verb":%q`, words[0]), `"resource":"pods"`, fmt.Sprintf(`"resource":%q,"apiGroup":%q,"subresource":%q`, resource, group, subresource),
				`"code":201`, map[string]string{"create": `"code":201`, "update": `"code":200`, "patch": `"code":200`}[words[0]], "pod-of-zoe", object, "2026-11-23T10:02:00Z", time.Date(2026, 11, 23, 10, 2, 0, 0, time.UTC).Add(time.Duration(i)*c.pause).Format(time.RFC3339),
				`\"mutated\":true`, fmt.Sprintf(`\"mutated\":%t`, object != "same")).Replace(event))
			if words[0] == "create" && owner != "kept" {
				text.WriteString(deletion(cmp.Or(object, generated+"bcdf"+fmt.Sprint(i+5)), c.user+map[string]string{"gc": "-collector"}[owner], time.Duration(i)*c.pause+500*time.Millisecond+map[string]time.Duration{"late": time.Hour}[owner]))
			}
		}
		all.WriteString(text.String())
		r := execute(t, text.String(), "top", "--audit-log", "-", "--from", "testdata/webhooks.yaml")
		if got := squeezed(r.out); !strings.Contains(got, " images ") || strings.Contains(got, "4 times") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", name, r.code, c.want, r.out, r.err)
		}
	}
	r := execute(t, all.String(), "top", "--audit-log", "-", "--from", "testdata/webhooks.yaml")
	for _, want := range []string{"images pods replace /spec/containers/*/image 64", "Which fields were changed in 8 requests is not recorded"} {
		if !strings.Contains(squeezed(r.out), want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
}

// TestExplainRequestID: what the log records of a request, beside what is registered, and
// why the two differ.
func TestExplainRequestID(t *testing.T) {
	mutation := func(webhook string) string {
		return `"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"policy\",\"webhook\":\"` + webhook + `\",\"mutated\":true}"`
	}
	object := func(labels string) string {
		return `"requestObject":{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{` + labels + `}},"spec":{"containers":[{"securityContext":{"privileged":true}}]}}`
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"denied, as registered": {
			auditLine("shop", "zoe", `"responseStatus":{"code":403,"message":"admission webhook \"images.policy.example.com\" denied the request: no"},`+object(`"team":"a"`)),
			[]string{"create pods pod-of-zoe in namespace shop by zoe: 403 admission webhook", " images.policy.example.com validating: denied"},
		},
		"let pass": {
			auditLine("shop", "zoe", `"responseStatus":{"code":201},`+object(`"team":"a"`)),
			[]string{"recorded: nothing; called by what is registered: yes (a log records no validating webhook"},
		},
		"denied, and would be skipped": {
			auditLine("shop", "zoe", `"responseStatus":{"code":403,"message":"admission webhook \"images.policy.example.com\" denied the request: no"},`+object(`"team":"b"`)),
			[]string{"DIFFERS images.policy.example.com validating: recorded: denied; called by what is registered: no (it would be skipped now (objectSelector"},
		},
		"nothing registers it": {
			auditLine("shop", "zoe", `"responseStatus":{"code":201},"annotations":{`+mutation("ghost.example.com")+`}`),
			[]string{"ghost.example.com mutating, round 0, index 0: mutated", "the log does not hold the object"},
		},
		"static": {
			auditLine("shop", "zoe", `"responseStatus":{"code":201},"annotations":{`+mutation("x.static.k8s.io")+`}`),
			[]string{"DIFFERS x.static.k8s.io mutating, round 0, index 0: recorded: mutated", "it comes from a file of the API server"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, c.text, "explain", "--audit-log", "-", "--request-id", "36dc0368", "--from", "testdata/webhooks.yaml")
			for _, want := range c.want {
				if r.code != exitOK || !strings.Contains(squeezed(r.out), want) {
					t.Errorf("exit code %d, %s, no %q in\n%s", r.code, r.err, want, r.out)
				}
			}
		})
	}
	for want, args := range map[string][]string{
		"begun.log: the request is there, and its answer is not: it hangs": {"--audit-log", must.File(t, "begun.log", strings.Replace(denial("shop", "zoe"), "ResponseComplete", "RequestReceived", 1)), "--request-id", "36dc0368", "--from", "testdata/webhooks.yaml"},
		"no answer to a request with the auditID none in 1 line of -":      {"--audit-log", "-", "--request-id", "none", "--from", "testdata/webhooks.yaml"},
		"reading a PATH that is empty: no such file":                       {"--audit-log", "", "--request-id", "none"},
		"[audit-log request-id] are set they must all":                     {"--request-id", "none"},
		"must be given without a request":                                  {"create", "pods", "--audit-log", "-", "--request-id", "none"},
	} {
		if r := execute(t, denial("shop", "zoe"), append([]string{"explain"}, args...)...); r.code == exitOK || !strings.Contains(r.err, want) {
			t.Errorf("%v: exit code %d, no %q in %s", args, r.code, want, r.err)
		}
	}
}

// TestAuditLogForms: an event is found however a log is written, and its answer needs no
// cluster.
func TestAuditLogForms(t *testing.T) {
	event := auditLine("shop", "zoe", `"responseStatus":{"code":201},"annotations":{"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"c\",\"webhook\":\"ghost.example.com\",\"mutated\":true}"}`)
	list := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + strings.TrimSpace(event) + `]}`
	cut := strings.Replace(event, `"annotations":{`, `"annotations":{"patch.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":",`, 1)
	indented := func(text string) string {
		var out bytes.Buffer
		must.Succeed(t, json.Indent(&out, []byte(text), "", "  "))
		return out.String()
	}
	none := filepath.Join(t.TempDir(), "no-kubeconfig")
	for name, c := range map[string]struct {
		log  string
		args []string
		code int
	}{
		"a line":                         {event, nil, exitOK},
		"an object of jq":                {indented(event), nil, exitOK},
		"objects of jq":                  {indented(event) + "\n" + indented(strings.ReplaceAll(denial("shop", "zoe"), "36dc0368", "other")), nil, exitOK},
		"an array of jq":                 {indented("[" + event + "]"), nil, exitOK},
		"a list on a line":               {list, nil, exitOK},
		"a list of jq":                   {indented(list), nil, exitOK},
		"a patch that is cut off":        {cut, nil, exitOK},
		"a cluster that is not there":    {event, []string{"--kubeconfig", none}, exitError},
		"files that register other ones": {event, []string{"--from", "testdata/webhooks.yaml"}, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			for want, command := range map[string][]string{
				"ghost.example.com mutating, round 0, index 0: mutated": {"explain", "--request-id", "36dc0368"},
				"ghost.example.com mutating 1 1":                        {"top"},
			} {
				r := execute(t, c.log, slices.Concat(command, []string{"--audit-log", "-"}, c.args)...)
				if r.code != c.code || !strings.Contains(squeezed(r.out), want) {
					t.Errorf("exit code %d, no %q in\n%s%s", r.code, want, r.out, r.err)
				}
			}
		})
	}
}
