package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

func parsed(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if text != "" {
		must.Succeed(t, utiljson.Unmarshal([]byte(text), &object))
	}
	return object
}

// answers are what webhooks answer, by name: a patch, or words.
type answers map[string]string

func (a answers) send(_ context.Context, w *inventory.Webhook, body []byte) ([]byte, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || !*review.Request.DryRun {
		return nil, fmt.Errorf("no dry run: %s, %w", body, err)
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	switch text := a[w.Name]; {
	case text == "dead":
		return nil, errors.New("connection refused")
	case text == "redirect":
		return nil, fmt.Errorf("%w: it redirects", ErrNotCalled)
	case text == "garbage":
		return []byte("<html>"), nil
	case text == "cased":
		return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","Response":{"uid":"` + string(review.Request.UID) + `","allowed":true}}`), nil
	case text == "YAML":
		return []byte("apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nresponse: {allowed: true, uid: " + string(review.Request.UID) + "}"), nil
	case text == "another":
		response.UID = "x"
	case text == "deny":
		response.Allowed, response.Result = false, &metav1.Status{Message: "no"}
	case text == "untyped":
		response.Patch = []byte("[]")
	case text != "":
		response.Patch, response.PatchType = []byte(text), new(admissionv1.PatchTypeJSONPatch)
	}
	review.Request, review.Response = nil, response
	return json.Marshal(review)
}

// called writes the steps of the request at webhooks a (called again), b, c and v, each on a line, and why it is refused.
func called(t *testing.T, op admission.Operation, object, answer string, a answers) string {
	t.Helper()
	rule := kubetest.Rule("", "configmaps", registrationv1.OperationAll)
	var hooks []registrationv1.MutatingWebhook
	for _, name := range []string{"a", "b", "c"} {
		w := kubetest.Reinvoked(kubetest.Webhook(name, kubetest.Client("n", "s"), rule))
		if name != "a" {
			w.ReinvocationPolicy = nil
		}
		if a[name] == "ignored" {
			w.FailurePolicy = new(registrationv1.Ignore)
		}
		if hooks = append(hooks, w); strings.HasPrefix(a[name], "labelled") {
			hooks[len(hooks)-1].ObjectSelector = metav1.SetAsLabelSelector(labels.Set{"x": "y"})
		}
	}
	for name, text := range a {
		a[name] = map[string]string{"ignored": "dead", "labelled": ""}[text] + strings.TrimPrefix(strings.TrimPrefix(text, "ignored"), "labelled")
	}
	validating := kubetest.Webhook("v", kubetest.Client("n", "s"), rule)
	validating.ObjectSelector = metav1.SetAsLabelSelector(labels.Set{"by": "policy"})
	m := admission.New(inventory.Objects{
		Mutating:   []*registrationv1.MutatingWebhookConfiguration{kubetest.Mutating("m", hooks...)},
		Validating: []*registrationv1.ValidatingWebhookConfiguration{kubetest.Validating("v", validating)},
	}.Snapshot(time.Time{}))
	sent := parsed(t, object)
	request := must.Get(m.Request(op, inventory.Resource{Name: "configmaps"}, admission.Subject{Namespace: "shop", Object: sent}))(t)
	if op == admission.Delete {
		sent = nil
	}
	ofServer := Answer{Code: 422, Message: answer}
	if !strings.Contains(answer, "invalid") {
		ofServer = Answer{Object: parsed(t, answer)}
	}
	r := Call(t.Context(), m, Request{Request: request, Sent: sent, Stored: parsed(t, object), Answer: ofServer},
		Caller{Send: a.send, Skip: func(*inventory.Webhook) string { return "" }, Types: client.Scheme()})
	var out []string
	for _, s := range r.Steps {
		var line strings.Builder
		line.WriteString(fmt.Sprintf("%d%s %s", s.Round, s.Name, s.Outcome))
		for _, c := range s.Patch {
			line.WriteString(" " + c.Path)
		}
		if len(s.Again) > 0 {
			line.WriteString(" twice")
		}
		out = append(out, line.String())
	}
	for _, d := range r.Differences {
		out = append(out, "differs "+d.Path+" "+d.Webhook)
	}
	return strings.TrimSpace(strings.Join(append(out, r.Refused), "\n"))
}

const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o","namespace":"shop","finalizers":["x"]},"data":{"k":"v"}}`

// TestCall: the order, the reinvocation, and what refuses a request, as at an API server.
func TestCall(t *testing.T) {
	set := func(path, value string) string {
		return fmt.Sprintf(`[{"op":"add","path":%q,"value":%s}]`, path, value)
	}
	for name, c := range map[string]struct {
		op     admission.Operation
		answer string
		a      answers
		want   string
	}{
		"nothing":                 {admission.Create, "", answers{}, "0a allowed\n0b allowed\n0c allowed"},
		"called again":            {admission.Create, "", answers{"b": set("/data/b", `"1"`)}, "0a allowed\n0b allowed /data/b\n0c allowed\n1a allowed"},
		"its own change":          {admission.Create, "", answers{"a": set("/data/a", `"1"`)}, "0a allowed /data/a\n0b allowed\n0c allowed"},
		"without effect":          {admission.Create, "", answers{"b": set("/data/k", `"v"`)}, "0a allowed\n0b allowed /data/k\n0c allowed"},
		"selected by a change":    {admission.Create, "", answers{"b": set("/metadata/labels", `{"x":"y"}`), "c": "labelled"}, "0a allowed\n0b allowed /metadata/labels\n0c allowed\n1a allowed"},
		"selected no more":        {admission.Create, "", answers{"b": set("/metadata/labels", `{"x":"y"}`), "c": `labelled[{"op":"remove","path":"/metadata/labels"},{"op":"add","path":"/metadata/finalizers/-","value":"y"}]`}, "0a allowed\n0b allowed /metadata/labels\n0c allowed /metadata/labels /metadata/finalizers/1\n1a allowed"},
		"selected by a policy":    {admission.Create, strings.Replace(configMap, `"finalizers"`, `"labels":{"by":"policy"},"finalizers"`, 1), answers{}, "0a allowed\n0b allowed\n0c allowed\n0v allowed\ndiffers /metadata/labels/by"},
		"invalid":                 {admission.Create, `ConfigMap "o" is invalid: data: no`, answers{"a": set("/metadata/labels", `{"by":"policy"}`)}, "0a allowed /metadata/labels\n0b allowed\n0c allowed\n0v notCalled"},
		"denied as invalid":       {admission.Create, `admission webhook "v" denied the request: invalid`, answers{"a": set("/metadata/labels", `{"by":"policy"}`), "v": "deny"}, "0a allowed /metadata/labels\n0b allowed\n0c allowed\n0v denied\nadmission webhook \"v\" denied the request: no"},
		"keys in upper case":      {admission.Create, "", answers{"a": "cased"}, "0a failed\nfailed calling webhook \"a\": received invalid webhook response: webhook response was absent"},
		"YAML":                    {admission.Create, "", answers{"a": "YAML"}, "0a allowed\n0b allowed\n0c allowed"},
		"not selected":            {admission.Create, "", answers{"c": "labelled"}, "0a allowed\n0b allowed"},
		"not idempotent":          {admission.Create, "", answers{"c": set("/metadata/finalizers/-", `"y"`)}, "0a allowed\n0b allowed\n0c allowed /metadata/finalizers/1 twice\n1a allowed"},
		"another type":            {admission.Create, "", answers{"a": set("/data/n", "5")}, "0a refused\nits patch does not apply: json: cannot unmarshal number"},
		"no integer":              {admission.Create, "", answers{"a": set("/metadata/deletionGracePeriodSeconds", "3.0")}, "0a refused\nits patch does not apply: json: cannot unmarshal number"},
		"null":                    {admission.Create, "", answers{"b": set("/data/n", "null")}, "0a allowed\n0b allowed /data/n\n0c allowed\n1a allowed"},
		"null as a patch":         {admission.Delete, "", answers{"b": "null"}, "0a allowed\n0b allowed\n0c allowed"},
		"a redirect":              {admission.Create, "", answers{"b": "redirect"}, "0a allowed\n0b notCalled\n0c allowed"},
		"denied":                  {admission.Create, "", answers{"a": "deny"}, "0a denied\nadmission webhook \"a\" denied the request: no"},
		"dead":                    {admission.Create, "", answers{"a": "dead"}, "0a failed\nfailed calling webhook \"a\": failed to call webhook: connection refused"},
		"dead and ignored":        {admission.Create, "", answers{"a": "ignored"}, "0a failedOpen\n0b allowed\n0c allowed"},
		"no review":               {admission.Create, "", answers{"c": "garbage"}, "0a allowed\n0b allowed\n0c failed\nfailed calling webhook \"c\": failed to call webhook: json: cannot unmarshal string"},
		"another UID":             {admission.Create, "", answers{"a": "another"}, "0a failed\nfailed calling webhook \"a\": received invalid webhook response: response.uid must be"},
		"a patch without a type":  {admission.Create, "", answers{"a": "untyped"}, "0a failed\nfailed calling webhook \"a\": received invalid webhook response: webhook returned one of"},
		"no patch":                {admission.Create, "", answers{"a": `{`}, "0a failed\nfailed calling webhook \"a\": received undecodable patch"},
		"what is not there":       {admission.Create, "", answers{"a": `[{"op":"remove","path":"/data/z"}]`}, "0a refused\nits patch does not apply: "},
		"a patch on a delete":     {admission.Delete, "", answers{"a": set("/data/a", `"1"`)}, "0a refused\nadmission webhook \"a\" attempted to modify the object, which is not supported for this operation"},
		"a delete":                {admission.Delete, "", answers{}, "0a allowed\n0b allowed\n0c allowed"},
		"other at the API server": {admission.Create, strings.Replace(configMap, `"v"`, `"v","b":"2","c":"3"`, 1), answers{"b": set("/data/b", `"1"`)}, "0a allowed\n0b allowed /data/b\n0c allowed\n1a allowed\ndiffers /data/b b\ndiffers /data/c"},
	} {
		if got := called(t, c.op, configMap, c.answer, c.a); !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") != strings.Count(c.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// TestBase: what the first webhook gets has the defaults, and nothing that a webhook set.
func TestBase(t *testing.T) {
	const managed = `"managedFields":[{"fieldsV1":{"f:spec":{"f:restartPolicy":{},"f:tolerations":{},"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:image":{},"f:imagePullPolicy":{},"f:resources":{"f:limits":{"f:cpu":{}}}}}}}}]`
	const sent = `{"kind":"Pod","metadata":{"name":"o"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1000m"}}}],"tolerations":[{"key":"own"}]}}`
	const answer = `{"kind":"Pod","metadata":{"name":"o","uid":"u","labels":{"by":"webhook"},` + managed + `},"status":{"phase":"Pending"},"spec":{"restartPolicy":"Always","priority":0,
		"containers":[{"name":"first","image":"x"},{"name":"c","image":"mirror/i","imagePullPolicy":"Always","env":[],"resources":{"limits":{"cpu":"1"}}}],"tolerations":[{"key":"own"},{"key":"node.kubernetes.io/not-ready"}]}}`
	const want = `{"kind":"Pod","metadata":{"name":"o",` + managed + `},"spec":{"restartPolicy":"Always","priority":0,"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"schedulerName":"default-scheduler","terminationGracePeriodSeconds":30,
		"containers":[{"name":"c","image":"i","imagePullPolicy":"Always","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}],
		"tolerations":[{"key":"own"},{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}}`
	caller, matcher := Caller{Types: client.Scheme(), Apply: managedfields.NewDeducedTypeConverter()}, admission.New(inventory.Objects{}.Snapshot(time.Time{}))
	firstObject := func(kind, sent, answer string) map[string]any {
		r := Request{Request: admission.Request{Kind: admission.Kind{Version: "v1", Kind: kind}}, Sent: parsed(t, sent), Answer: Answer{Object: parsed(t, answer)}}
		return must.Get((&run{Request: r, Caller: caller, matcher: matcher}).firstObject())(t)
	}
	if got := inventory.Differences(firstObject("Pod", sent, answer), parsed(t, want)); len(got) > 0 {
		t.Errorf("differs at %v", got)
	}
	const generated = `{"kind":"ConfigMap","metadata":{"generateName":"o-"}}`
	if got := inventory.Differences(firstObject("ConfigMap", generated, `{"kind":"ConfigMap","metadata":{"generateName":"o-","name":"o-x2z","uid":"u"}}`), parsed(t, generated)); len(got) > 0 {
		t.Errorf("a generated name: %v", got)
	}
	for resources, class := range map[string]string{
		`{}`: "BestEffort", `{"limits":{"cpu":"1"}}`: "Burstable", `{"limits":{"cpu":"1000m","memory":"1Gi"}}`: "Guaranteed",
		`{"limits":{"cpu":"1","memory":"2"},"requests":{"cpu":"0.5"}}`: "Burstable", `{"requests":{"cpu":"0"},"limits":{"cpu":"0"}}`: "BestEffort",
	} {
		x := &run{Request: Request{Request: admission.Request{Kind: admission.Kind{Version: "v1", Kind: "Pod"}, Operation: admission.Create}}, Caller: caller, matcher: matcher}
		x.object = must.Get(x.decode(x.withDefaults(must.Get(x.decode(parsed(t, `{"metadata":{"generateName":"o-"},"spec":{"containers":[{"name":"c","resources":`+resources+`}]}}`)))(t))))(t)
		got := x.prepared()
		if status := mapAt(got, "status"); status["qosClass"] != class || status["phase"] != "Pending" || !strings.HasPrefix(fmt.Sprint(mapAt(got, "metadata")["name"]), "o-") {
			t.Errorf("%s: validated as %v", resources, got)
		}
	}
	stored := parsed(t, `{"kind":"ConfigMap","data":{"a":"b"}}`)
	x := &run{Request: Request{Sent: parsed(t, `{"kind":"ConfigMap","data":{"a":"c"}}`), Stored: stored}, Caller: caller}
	if got := must.Get(x.merged())(t); mapAt(got, "data")["a"] != "c" || mapAt(stored, "data")["a"] != "b" {
		t.Errorf("%v is applied to what was stored, which is %v then", got, stored)
	}
	volumes := func(names ...string) map[string]any {
		mounts := []any{}
		for i, name := range names {
			mounts = append(mounts, map[string]any{"name": name, "mountPath": fmt.Sprint("/", i)})
		}
		return map[string]any{"volumeMounts": mounts}
	}
	if got := inventory.Differences(volumes("data", "data"), volumes("data", "data", "token")); len(got) != 1 || got[0].Pointer != "/volumeMounts" {
		t.Errorf("a mount beside two of a volume: differs at %v", got)
	}
	if got := inventory.Differences(firstObject("Secret", `{"kind":"Secret","stringData":{"a":"b"}}`, ""), parsed(t, `{"kind":"Secret","type":"Opaque","data":{"a":"Yg=="}}`)); len(got) > 0 {
		t.Errorf("stringData: %v", got)
	}
}
