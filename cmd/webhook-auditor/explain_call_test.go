package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// hooks are webhooks of a Service, by path: each answers as its handler does.
type hooks map[string]http.HandlerFunc

// patching allows the request with the patch, and with a warning.
func patching(patch, warning string) http.HandlerFunc {
	return responding(admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: new(admissionv1.PatchTypeJSONPatch), Warnings: slices.DeleteFunc([]string{warning}, func(w string) bool { return w == "" })})
}

func denying(message string) http.HandlerFunc {
	return responding(admissionv1.AdmissionResponse{Result: &metav1.Status{Message: message}})
}

func responding(response admissionv1.AdmissionResponse) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		own := response
		own.UID = review.Request.UID
		review.Request, review.Response = nil, &own
		writeJSON(w, review)
	}
}

// calledCluster is an API server that lets every dry run pass, with webhooks behind its
// proxy of Services; url is one by URL.
type calledCluster struct {
	kubeconfig string
	calls      atomic.Int64
	// watched is closed once the webhooks are watched.
	watched chan struct{}
}

func newCalledCluster(t *testing.T, behaviors hooks, byURL http.HandlerFunc) *calledCluster {
	t.Helper()
	c := &calledCluster{watched: make(chan struct{})}
	outside := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.calls.Add(1)
		byURL(w, r)
	}))
	t.Cleanup(outside.Close)
	rule := kubetest.Rule("*", "*", registrationv1.OperationAll)
	var webhooks []registrationv1.MutatingWebhook
	for _, name := range slices.Sorted(maps.Keys(behaviors)) {
		client := kubetest.Client("hooks", "hook")
		client.Service.Path = new("/" + name)
		webhooks = append(webhooks, kubetest.Reinvoked(kubetest.Webhook(name+".example.com", client, rule)))
		webhooks[len(webhooks)-1].ReinvocationPolicy = nil
	}
	if byURL != nil {
		outer := kubetest.Reinvoked(kubetest.Webhook("url.example.com", registrationv1.WebhookClientConfig{URL: new(outside.URL + "/x"), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: outside.Certificate().Raw})}, rule))
		webhooks = append(webhooks, outer)
	}
	if byURL != nil {
		broken := webhooks[len(webhooks)-1]
		broken.Name, broken.ClientConfig.CABundle, broken.FailurePolicy = "roots.example.com", []byte("none"), new(registrationv1.Ignore)
		webhooks = append(webhooks, broken)
	}
	list := registrationv1.MutatingWebhookConfigurationList{Items: []registrationv1.MutatingWebhookConfiguration{*kubetest.Mutating("m", webhooks...)}}
	list.SetGroupVersionKind(registrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfigurationList"))
	list.ResourceVersion = "1"
	c.serve(t, behaviors, list)
	return c
}

func (c *calledCluster) serve(t *testing.T, behaviors hooks, webhooks registrationv1.MutatingWebhookConfigurationList) {
	t.Helper()
	watched := sync.OnceFunc(func() { close(c.watched) })
	answers := map[string]any{
		"/version": map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.1"},
		"/api":     discovered("", resourceOf("", "pods", "Pod"), resourceOf("", "secrets", "Secret")),
		"/apis":    discovered("apps", resourceOf("apps", "deployments", "Deployment"), resourceOf("apps", "cronjobs", "CronJob")),
		"/apis/authentication.k8s.io/v1/selfsubjectreviews":                   map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": map[string]any{"userInfo": map[string]any{"username": "zoe"}}},
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": webhooks,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		location, isCall := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/hooks/services/https:hook:443/proxy/")
		answer, ok := answers[r.URL.Path]
		switch {
		case isCall:
			c.calls.Add(1)
			behaviors[location](w, r)
		case r.URL.Query().Get("dryRun") != "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.Copy(w, r.Body)
		case r.URL.Query().Get("watch") != "":
			if ok {
				watched()
			}
			<-r.Context().Done()
		case ok:
			w.Header().Set("Content-Type", "application/json")
			if strings.HasPrefix(r.URL.Path, "/api") && strings.Count(r.URL.Path, "/") == 1 {
				w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			}
			_ = json.NewEncoder(w).Encode(answer)
		default:
			writeJSON(w, map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]string{"resourceVersion": "1"}, "items": []string{}})
		}
	}))
	t.Cleanup(api.Close)
	c.kubeconfig = must.File(t, "kubeconfig", fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\n"+
		"contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n", api.URL))
}

// discovered is aggregated discovery of a group in v1.
func discovered(group string, resources ...any) map[string]any {
	version := map[string]any{"version": "v1", "freshness": "Current", "resources": resources}
	return map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []any{
		map[string]any{"metadata": map[string]string{"name": group}, "versions": []any{version}},
	}}
}

// resourceOf is a resource of namespaces, in discovery.
func resourceOf(group, name, kind string) any {
	return map[string]any{
		"resource": name, "singularResource": strings.ToLower(kind), "scope": "Namespaced", "verbs": []string{"create"},
		"responseKind": map[string]string{"group": group, "kind": kind, "version": "v1"},
	}
}

// calledPod is a Pod with a value of env, which may not be printed.
const calledPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","labels":{"a/b":"c"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"PASSWORD","value":"hunter22"}]}]}}`

// TestCalledWebhooks: what is printed of calls.
func TestCalledWebhooks(t *testing.T) {
	const image = `[{"op":"replace","path":"/spec/containers/0/image","value":"mirror/i"}]`
	large := func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		patching(image, "")(recorder, r)
		_, _ = io.WriteString(w, strings.Repeat(" ", 11<<20)+recorder.Body.String())
	}
	for name, c := range map[string]struct {
		behaviors hooks
		byURL     http.HandlerFunc
		flags     string
		want      []string
	}{
		"by URL":      {hooks{}, patching(image, ""), "", []string{"at 0 webhooks: let pass", "not called url.example.com it is registered by URL, which --call-urls calls from here"}},
		"--call-urls": {hooks{}, patching(image, ""), "--call-urls", []string{"at 2 webhooks: let pass", "ms url.example.com allowed mutating", "ms roots.example.com failed, and is ignored: failed calling webhook", "unable to load root certificates", `replace /spec/containers/0/image "i" → "mirror/i"`}},
		"redirected": {hooks{"a": http.RedirectHandler("https://other.example.com/b?c=d", http.StatusTemporaryRedirect).ServeHTTP}, nil, "", []string{
			"at 0 webhooks: let pass", "not called a.example.com it redirects to https://other.example.com/b?c=d, which API servers follow",
		}},
		"11 MB": {hooks{"a": large}, nil, "", []string{"ms a.example.com allowed"}},
		"fights": {hooks{"a": patching(image, ""), "b": patching(strings.ReplaceAll(image, "mirror", "other"), "")}, nil, "", []string{
			"fight /spec/containers/0/image a.example.com sets it, and b.example.com sets it otherwise", `"i" → "mirror/i" (overwritten by b.example.com)`,
		}},
		"--ignore-differences": {hooks{"a": patching(`[{"op":"add","path":"/metadata/labels/x~1y~0z","value":"v"},{"op":"add","path":"/metadata/annotations","value":{"p/q":"r"}},`+image[1:], "")}, nil, "--ignore-differences", []string{
			"ignoreDifferences: - group: \"\" jqPathExpressions: - .\"spec\".\"containers\"[] | select(.name == \"c\") | .\"image\" jsonPointers",
			"jsonPointers: - /metadata/annotations/p~1q - /metadata/labels/x~1y~0z kind: Pod syncPolicy: syncOptions: - RespectIgnoreDifferences=true",
			"driftDetection: ignore: - paths: - /metadata/annotations/p~1q - /metadata/labels/x~1y~0z - /spec/containers/0/image target: kind: Pod mode: enabled",
		}},
		"Markdown": {hooks{"a": patching(image, "mind")}, nil, "-o markdown", []string{"### CREATE pods web in shop, as a dry run at 1 webhook: let pass", "ms **a.example.com** allowed", "- warning mind"}},
		"JSON":     {hooks{"a": patching(image, "mind")}, nil, "-o json", []string{`"outcome": "allowed"`, `"warnings": [ "mind" ]`, `"path": "/spec/containers/0/image", "value": "mirror/i", "old": "i"`}},
	} {
		target := newCalledCluster(t, c.behaviors, c.byURL)
		got := execute(t, calledPod, append([]string{"explain", "-f", "-", "--call", "--kubeconfig", target.kubeconfig}, strings.Fields(c.flags)...)...)
		for _, want := range c.want {
			if got.code != exitOK || !strings.Contains(squeezed(got.out), want) {
				t.Errorf("%s: exit code %d, %s, no %q in\n%s", name, got.code, got.err, want, got.out)
			}
		}
	}
}

// TestSecretsAreHidden: no output has a value of env or of a Secret, by whatever way a webhook hands it on.
func TestSecretsAreHidden(t *testing.T) {
	const secret, encoded = "hunter22", "aHVudGVyMjI="
	env := `[{"name":"PASSWORD","value":"hunter22"}]`
	podSpec := `{"containers":[{"name":"c","image":"i","env":` + env + `}]}`
	objects := map[string]string{
		"pods":        `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":` + podSpec + `}`,
		"secrets":     `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"web","namespace":"shop"},"stringData":{"a":"hunter22"},"data":{"b":"aHVudGVyMjI="}}`,
		"deployments": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"template":{"spec":` + podSpec + `}}}`,
		"cronjobs":    `{"apiVersion":"apps/v1","kind":"CronJob","metadata":{"name":"web","namespace":"shop"},"spec":{"jobTemplate":{"spec":{"template":{"spec":` + podSpec + `}}}}}`,
	}
	for name, c := range map[string]struct{ resource, patch, message string }{
		"the whole object":    {"pods", `{"op":"replace","path":"","value":` + objects["pods"] + `}`, "no"},
		"an added value":      {"pods", `{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"B","value":"hunter22"}}`, "no"},
		"a removed value":     {"pods", `{"op":"remove","path":"/spec/containers/0/env/0/value"}`, "no"},
		"a removed container": {"pods", `{"op":"remove","path":"/spec/containers/0"}`, "no"},
		"a copied value":      {"pods", `{"op":"copy","from":"/spec/containers/0/env/0/value","path":"/metadata/name"},{"op":"replace","path":"/metadata/name","value":"x"}`, "no"},
		"an annotation":       {"pods", `{"op":"add","path":"/metadata/annotations","value":{"kubectl.kubernetes.io/last-applied-configuration":"{\"value\":\"hunter22\"}","hash":"of hunter22"}}`, "no"},
		"a Secret":            {"secrets", `{"op":"replace","path":"","value":` + objects["secrets"] + `}`, "no"},
		"stringData":          {"secrets", `{"op":"add","path":"/stringData","value":{"a":"hunter22"}}`, "no"},
		"a Deployment":        {"deployments", `{"op":"replace","path":"/spec/template","value":{"spec":` + podSpec + `}}`, "no"},
		"a CronJob":           {"cronjobs", `{"op":"remove","path":"/spec/jobTemplate"}`, "no"},
		"a message":           {"pods", `{"op":"add","path":"/spec/x","value":1}`, "the password hunter22 is weak"},
		"a JSON patch":        {"pods", `{"op":"add","path":"/spec/y","value":1}`, "value hunter22 is weak"},
		"an encoded message":  {"secrets", `{"op":"add","path":"/metadata/x","value":1}`, "aHVudGVyMjI= is too short, as is hunter22"},
	} {
		object := objects[c.resource]
		log := auditLine("shop", "zoe", strings.Replace(mutatingCalls("0 0 a "+c.patch), `{"code":201}`, fmt.Sprintf(`{"code":403,"message":"admission webhook \"b\" denied the request: %s"}`, c.message), 1)+`,"requestObject":`+object)
		if name == "a JSON patch" {
			log = strings.NewReplacer(object, `[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"hunter22"}]`, `"verb":"create"`, `"verb":"patch"`).Replace(log)
		}
		log = strings.Replace(log, `"resource":"pods"`, fmt.Sprintf(`"resource":%q`, c.resource), 1)
		target := newCalledCluster(t, hooks{"a": patching("["+c.patch+"]", c.message), "b": denying(c.message)}, nil)
		var outputs []result
		for _, format := range []string{"text", "markdown", "json"} {
			outputs = append(outputs, execute(t, log, "explain", "--audit-log", "-", "--request-id", "36dc0368", "--from", "testdata/webhooks.yaml", "-v", "-o", format),
				execute(t, object, "explain", "create", "-f", "-", "--call", "--ignore-differences", "--kubeconfig", target.kubeconfig, "-v", "-o", format))
		}
		outputs = append(outputs, execute(t, log, "top", "--audit-log", "-", "--from", "testdata/webhooks.yaml", "-o", "json", "-v"))
		for i, got := range outputs {
			if text := got.out + got.err; strings.Contains(text, secret) || strings.Contains(text, encoded) || !strings.Contains(text, "a") || got.out == "" {
				t.Errorf("%s, %d: exit code %d, %s", name, i, got.code, text)
			}
		}
	}
}

// TestOnlyExplainCalls: "run" and its page, and mcp call no webhook, whatever they are asked.
func TestOnlyExplainCalls(t *testing.T) {
	target := newCalledCluster(t, hooks{"a": patching("[]", "")}, patching("[]", ""))
	agent := session(t, "--kubeconfig", target.kubeconfig)
	for _, tool := range must.Get(agent.ListTools(t.Context(), nil))(t).Tools {
		for _, arguments := range []map[string]any{
			{},
			{"call": true},
			{"operation": "create", "resource": "pods", "namespace": "shop", "object": calledPod},
			{"configuration": "m"},
			{"operation": "create --call", "resource": "pods"},
			{"error": `failed calling webhook "a.example.com": no`},
			{"manifests": calledPod},
		} {
			_, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: arguments})
			must.Succeed(t, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- run(ctx, []string{"run", "--kubeconfig", target.kubeconfig, "--web.listen-address=127.0.0.1:0"}, streams{err: io.Discard})
	}()
	<-target.watched
	stop()
	<-ended
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	read := source{access: registerCluster(flags), input: &input{}}
	must.Succeed(t, flags.Set("kubeconfig", target.kubeconfig))
	o, d := &operatorFlags{}, newTestDaemon(&bytes.Buffer{})
	d.publish(t.Context(), admission.New(must.Get(read.snapshot(t.Context(), streams{err: io.Discard}))(t)))
	page := o.web.handler(d)
	for _, path := range []string{"/", "/webhooks", "/webhooks/mutating/m/a.example.com", "/changes", "/bootstrap", "/ask?text=create+pods", "/metrics"} {
		page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	for _, text := range []string{calledPod, "create pods -n shop --call", "explain create -f - --call", `failed calling webhook "a.example.com": no`} {
		asked := httptest.NewRequest(http.MethodPost, "/ask", strings.NewReader(url.Values{"text": {text}, "call": {"true"}}.Encode()))
		asked.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer := httptest.NewRecorder()
		if page.ServeHTTP(answer, asked); !strings.Contains(answer.Body.String(), "a.example.com") && text == calledPod {
			t.Errorf("no chain: %s", answer.Body)
		}
	}
	if n := target.calls.Load(); n > 0 {
		t.Errorf("%d calls", n)
	}
	execute(t, calledPod, "explain", "create", "-f", "-", "--call", "--call-urls", "--kubeconfig", target.kubeconfig)
	if n := target.calls.Load(); n != 2 {
		t.Errorf("explain --call makes %d calls, not 2", n)
	}
}
