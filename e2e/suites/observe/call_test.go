package observe

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

const (
	callSpace = "call-shop"
	callLabel = "call.example.com/"
	// hooksOfChain is how many webhooks a chain may have.
	hooksOfChain = 6
)

// callPatches are what webhooks do to an object: some do not apply to what others leave.
var callPatches = map[string][]string{
	"ConfigMap": {
		`{"op":"add","path":"/data/a","value":"A"}`, `{"op":"add","path":"/data/a","value":"B"}`, `{"op":"replace","path":"/data/k","value":"w"}`, `{"op":"remove","path":"/data/k"}`,
		`{"op":"add","path":"/metadata/annotations","value":{"e2e/x":"y"}}`, `{"op":"add","path":"/metadata/annotations/e2e~1x","value":"z"}`, `{"op":"copy","from":"/data/k","path":"/data/copied"}`,
		`{"op":"move","from":"/data/k","path":"/data/moved"}`, `{"op":"test","path":"/data/k","value":"v"},{"op":"add","path":"/data/tested","value":"yes"}`,
		`{"op":"replace","path":"/data","value":{}}`, `{"op":"add","path":"/data/k","value":"v"}`, `{"op":"add","path":"/immutable","value":false}`,
		`{"op":"add","path":"/data/none","value":null}`, `{"op":"add","path":"/data/number","value":5}`, `{"op":"add","path":"/data/un~0known~1key","value":"v"}`,
		`{"op":"replace","path":"","value":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","namespace":"call-shop"},"data":{"only":"this"}}}`,
		`{"op":"replace","path":"/nothing/there","value":1}`, `{"op":"add","path":"/metadata/labels","value":null}`, `{"op":"add","path":"/unknown","value":{"a":"b"}}`,
		`{"op":"unknown","path":"/data/k"}`, `{"op":"remove","path":"/data"}`, `{"op":"add","path":"/metadata/finalizers","value":["e2e.example.com/f"]}`,
		`{"op":"remove","path":"/metadata/labels/call.example.com~1SELF"}`, `{"op":"add","path":"/metadata/labels/call.example.com~1SELF","value":"none"}`,
		`{"op":"add","path":"/metadata/labels/call.example.com~13","value":"again"}`, `{"op":"add","path":"/metadata/generation","value":7.0}`,
		`{"op":"add","path":"/data/by-SELF","value":"1"},{"op":"add","path":"/metadata/annotations","value":{"e2e/x":"SELF"}}`,
	},
	"Pod": {
		`{"op":"add","path":"/spec/containers/-","value":{"name":"proxy","image":"proxy"}}`, `{"op":"add","path":"/spec/containers/0","value":{"name":"first","image":"first","ports":[{"containerPort":80}]}}`,
		`{"op":"replace","path":"/spec/containers/0/image","value":"mirror/i"}`, `{"op":"replace","path":"/spec/containers/0/imagePullPolicy","value":"Never"}`, `{"op":"remove","path":"/spec/containers/0/env"}`,
		`{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"A","value":"TOPSECRET"}}`, `{"op":"add","path":"/spec/containers/0/resources","value":{"limits":{"cpu":"1000m"}}}`,
		`{"op":"add","path":"/metadata/annotations","value":{"e2e/x":"y"}}`, `{"op":"add","path":"/spec/volumes","value":[{"name":"v","configMap":{"name":"c"}}]}`, `{"op":"replace","path":"/spec/restartPolicy","value":"Never"}`,
		`{"op":"remove","path":"/spec/containers/1"}`, `{"op":"replace","path":"/spec/containers/1/image","value":"mirror/proxy"}`, `{"op":"move","from":"/spec/containers/1","path":"/spec/containers/0"}`,
		`{"op":"add","path":"/spec/initContainers","value":[{"name":"init","image":"init","restartPolicy":"Always"}]}`, `{"op":"add","path":"/spec/tolerations/-","value":{"key":"e2e","operator":"Exists"}}`,
		`{"op":"add","path":"/spec/terminationGracePeriodSeconds","value":30.0}`, `{"op":"add","path":"/spec/terminationGracePeriodSeconds","value":3e1}`,
		`{"op":"add","path":"/metadata/labels","value":{"call.example.com/4":"never","call.example.com/0":"again","call.example.com/v":"yes"}}`,
		`{"op":"replace","path":"/spec/containers","value":[{"name":"only","image":"only"}]}`, `{"op":"replace","path":"/spec/containers/0/name","value":"renamed"}`,
		`{"op":"add","path":"/spec/nodeSelector","value":{"a/b":"c"}}`, `{"op":"add","path":"/spec/securityContext","value":{"runAsNonRoot":true}}`, `{"op":"add","path":"/spec/hostNetwork","value":"yes"}`,
	},
}

const (
	calledPod       = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"call-shop","labels":%s},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"E","value":"e"}],"resources":{"requests":{"cpu":"0.5"}}}]}}`
	calledConfigMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"call-shop","labels":%s},"data":{"k":"v"}}`
)

// answers are what webhooks answer that are no plain review: API servers take some, and
// refuse others. PATCH is a patch.
var answers = []string{
	`{}`, `null`, `[]`, `<html>`, ` `, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":null}`,
	review(`"uid":"another","allowed":true`), review(`"allowed":true`), review(`"uid":"UID"`), review(`"uid":"UID","allowed":"true"`), review(`"uid":"UID","allowed":true`) + "{",
	review(`"uid":"UID","allowed":true,"patch":null,"patchType":"JSONPatch"`), review(`"uid":"UID","allowed":true,"patch":"","patchType":"JSONPatch"`),
	review(`"uid":"UID","allowed":true,"patch":"bnVsbA==","patchType":"JSONPatch"`), review(`"uid":"UID","allowed":true,"patch":"W10=","patchType":"JSONPatch"`), // null, []
	review(`"uid":"UID","allowed":true,"patch":"e30=","patchType":"JSONPatch"`), review(`"uid":"UID","allowed":true,"patch":"%%%","patchType":"JSONPatch"`), // {}
	review(`"uid":"UID","allowed":true,"patch":"PATCH"`), review(`"uid":"UID","allowed":true,"patch":"PATCH","patchType":""`), review(`"uid":"UID","allowed":true,"patch":"PATCH","patchType":"MergePatch"`),
	review(`"uid":"UID","allowed":true,"patch":"PATCH","patchType":"JSONPatch","status":{"code":403,"message":"no"}`), review(`"uid":"UID","allowed":false,"patch":"PATCH","patchType":"JSONPatch"`),
	review(`"uid":"UID","allowed":false,"status":{"code":200,"status":"Success","message":"fine"}`), review(`"uid":"UID","allowed":false,"status":{"reason":"NotFound"}`),
	review(`"uid":"UID","allowed":false,"status":{"code":503,"message":"` + strings.Repeat("long ", 20_000) + `"}`), review(`"uid":"UID","allowed":true,"warnings":["` + strings.Repeat("long ", 1_000) + `",""]`),
	strings.Replace(review(`"uid":"UID","allowed":true`), "response", "Response", 1), review(`"UID":"UID","Allowed":true`), review(`"uid":"UID","allowed":true,"allowed":false`),
	"apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nresponse:\n  uid: UID\n  allowed: true\n", "# a comment\n" + review(`"uid":"UID","allowed":true`), "\ufeff" + review(`"uid":"UID","allowed":true`),
	review(`"uid":"UID","allowed":true,}`), review(`"uid":"UID","allowed":true,"auditAnnotations":{"a":5}`), `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no"}`,
	strings.Replace(review(`"uid":"UID","allowed":true`), "/v1", "/v1beta1", 1), strings.Replace(review(`"uid":"UID","allowed":true`), "Review", "Revue", 1),
}

// review is one with such a response.
func review(response string) string {
	patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/metadata/annotations","value":{"e2e/x":"y"}}]`))
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{` + strings.Replace(response, "PATCH", patch, 1) + "}}"
}

func behaviour(random *rand.Rand, kind, name, elsewhere string) webhook.Behaviour {
	patches := callPatches[kind]
	patch := "[" + strings.NewReplacer("NAME", name, "SELF", fmt.Sprint(random.IntN(hooksOfChain))).Replace(patches[random.IntN(len(patches))]) + "]"
	switch n := random.IntN(44); n {
	case 0, 1:
		return webhook.Behaviour{Deny: "because"}
	case 2:
		return webhook.Behaviour{Garbage: true}
	case 3:
		return webhook.Behaviour{FailEvery: 1}
	case 4:
		return webhook.Behaviour{Delay: 9 * time.Second}
	case 5:
		return webhook.Behaviour{Redirect: elsewhere}
	case 6:
		return webhook.Behaviour{Patch: "{"}
	case 7, 8, 9:
		return webhook.Behaviour{}
	case 10, 11, 12:
		return webhook.Behaviour{Patch: patch, Warn: "mind"}
	case 13, 14, 15, 16:
		return webhook.Behaviour{Answer: answers[random.IntN(len(answers))]}
	case 17:
		return webhook.Behaviour{Patch: patch, Padding: 11 << 20}
	case 18, 19:
		return webhook.Behaviour{Patch: patch, ContentType: []string{"text/plain; charset=utf-8", "text/html", "application/yaml", "application/json; =", "json"}[random.IntN(5)]}
	case 20:
		return webhook.Behaviour{Patch: patch, Again: true}
	}
	return webhook.Behaviour{Patch: patch}
}

// reachable makes the endpoint of the Service one of a Pod, as its proxy asks for.
func (w environment) reachable(t *testing.T, b webhook.Backend) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pods := w.Kube.CoreV1().Pods(b.Namespace)
	pod = testenv.Get(pods.Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	pod.Status.PodIP, pod.Status.PodIPs = "127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}}
	testenv.Get(pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))(t)
	testenv.Must(t, b.Change(t.Context(), func(slice *discoveryv1.EndpointSlice) {
		slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: b.Namespace, Name: "hook"}
	}))
}

// registerCalled registers the webhooks of the chains, each once for either reinvocationPolicy.
func (w environment) registerCalled(t *testing.T) {
	t.Helper()
	b := w.Backend(t, callSpace)
	w.reachable(t, b)
	rule := testenv.Rule("", "configmaps")
	rule.Operations, rule.Resources = []admissionv1.OperationType{"CREATE", "UPDATE", "DELETE"}, []string{"configmaps", "pods"}
	var hooks []admissionv1.MutatingWebhook
	for i := range hooksOfChain {
		for value, policy := range map[string]admissionv1.ReinvocationPolicyType{"again": "IfNeeded", "never": "Never"} {
			h := testenv.Mutating(testenv.Hook(b, fmt.Sprintf("/h%d", i), rule))
			h.Name, h.ReinvocationPolicy, h.TimeoutSeconds = fmt.Sprintf("h%d-%s.call.example.com", i, value), &policy, new(int32(7))
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprint(callLabel, i): value}}
			h.FailurePolicy = new([]admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}[i%2])
			hooks = append(hooks, h)
		}
	}
	w.Mutate(t, "call", hooks...)
	validating := testenv.Hook(b, "/v", rule)
	validating.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{callLabel + "v": "yes"}}
	w.Validate(t, "call", validating)
}

// calledAnswer is what "explain --call -o json" prints.
type calledAnswer struct {
	Refused string
	Server  struct {
		Code     int
		Message  string
		Warnings []string
	}
	Steps []struct {
		Type, Name, Outcome string
		Round               int
		Warnings            []string
		Patch               []struct{ Op, Path string }
	}
	Differences []struct{ Path, Webhook string }
}

func (a calledAnswer) patches() map[string]string {
	out := map[string]string{}
	for _, s := range a.Steps {
		for _, p := range s.Patch {
			out[fmt.Sprint(s.Round, " ", s.Name)] += p.Op + " " + p.Path + "\n"
		}
	}
	return out
}

// logged are the patches of the log, of the dry run of an object.
func (a *audited) logged(t *testing.T, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	testenv.Eventually(t, func() error {
		for line := range bytes.Lines(testenv.Get(os.ReadFile(a.log))(t)) {
			var event struct {
				Stage, Verb, RequestURI string
				ObjectRef               struct{ Name string }
				Annotations             map[string]string
			}
			isGenerated := bytes.Contains(line, []byte(`"generateName":"`+name+`-"`))
			if !isGenerated && !bytes.Contains(line, []byte(name)) { // nearly all
				continue
			}
			if json.Unmarshal(line, &event) != nil || event.ObjectRef.Name != name && !isGenerated || event.Stage != "ResponseComplete" {
				continue
			}
			if isDryRun := event.Verb == "delete" || strings.Contains(event.RequestURI, "dryRun=All"); !isDryRun { // the options of a delete are in its body
				continue
			}
			for key, value := range event.Annotations {
				place, ok := strings.CutPrefix(key, "patch.webhook.admission.k8s.io/round_")
				var patch struct {
					Webhook string
					Patch   []struct{ Op, Path string }
				}
				if !ok || json.Unmarshal([]byte(value), &patch) != nil {
					continue
				}
				for _, p := range patch.Patch {
					if p.Op != "test" {
						out[place[:1]+" "+patch.Webhook] += p.Op + " " + p.Path + "\n"
					}
				}
			}
			return nil
		}
		return fmt.Errorf("no dry run of %s in %s", name, a.log)
	})
	return out
}

// unequalReviews are the reviews of the API server, in its dry run, that webhooks did not get from
// "explain --call" as well; compared counts all. What is refused has none of the fields that its
// answer would have, and where a patch replaces the object, no managedFields are left of it.
func (w environment) unequalReviews(t *testing.T, isRefused, isReplaced bool) (compared int, out []string) {
	t.Helper()
	var own []string
	if isRefused || isReplaced {
		own = append(own, "managedFields")
	}
	if isRefused {
		own = append(own, "uid", "creationTimestamp", "generation")
	}
	byAdmission, byCall := map[string][]map[string]any{}, map[string][]map[string]any{}
	for _, call := range w.Hooks.Calls() {
		var review map[string]any
		testenv.Must(t, json.Unmarshal(call.Request, &review))
		if review["dryRun"] == false { // of a controller
			continue
		}
		if object, ok := review["object"].(map[string]any); ok {
			metadata := object["metadata"].(map[string]any)
			for _, field := range own {
				delete(metadata, field)
			}
			if spec, _ := object["spec"].(map[string]any); isRefused && spec["priorityClassName"] != nil {
				delete(spec, "priority")
				delete(spec, "preemptionPolicy")
			}
			generated, isGenerated := metadata["generateName"].(string)
			if name, _ := metadata["name"].(string); isRefused && isGenerated && strings.HasPrefix(name, generated) {
				metadata["name"], review["name"] = generated+"…", generated+"…" // each generates another one
			}
		}
		if call.ByAdmission {
			byAdmission[call.Path] = append(byAdmission[call.Path], review)
		} else {
			byCall[call.Path] = append(byCall[call.Path], review)
		}
	}
	for path, reviews := range byAdmission {
		compared += len(reviews)
		for _, review := range reviews {
			isSent := func(ours map[string]any) bool { return cmp.Equal(review, ours) }
			if !slices.ContainsFunc(byCall[path], isSent) {
				out = append(out, fmt.Sprintf("%s got another review (-want +got):\n%s", path, cmp.Diff([]map[string]any{review}, byCall[path])))
			}
		}
	}
	return compared, out
}

// TestCall holds "explain --call" to the API server's own dry run of the same request, and
// its patches to the audit log, over generated objects and chains. OBJECTS=300 is the
// whole, SEED another series.
func TestCall(t *testing.T) {
	t.Parallel()
	log, flags := auditFlags(t, "Request")
	w := environment{testenv.New(t, cluster.Options{WithoutControllers: true, APIServerFlags: flags})}
	w.registerCalled(t)
	a := &audited{environment: w, log: log}
	w.Hooks.Behave("/v", webhook.Behaviour{Deny: "ready"})
	testenv.Eventually(t, func() error { // the API server calls what is registered
		_, err := w.Kube.CoreV1().ConfigMaps(callSpace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "ready", Labels: map[string]string{callLabel + "v": "yes", callLabel + "0": "never"},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || len(w.Hooks.CallsOf("/h0")) == 0 || !strings.Contains(err.Error(), "ready") {
			return fmt.Errorf("not called yet: %w", err)
		}
		return nil
	})
	objects, _ := strconv.Atoi(os.Getenv("OBJECTS"))
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	random, outcomes := rand.New(rand.NewPCG(59, 59+seed)), map[string]int{}
	objects = max(objects, 16)
	for i := range objects {
		a.call(t, fmt.Sprint("o-", i), random, outcomes)
	}
	t.Logf("%v", outcomes)
	if outcomes["reviews"] < objects {
		t.Errorf("%d reviews of %d requests were compared, want one of each at least", outcomes["reviews"], objects)
	}
}

// call sends one object, and counts what became of it.
func (a *audited) call(t *testing.T, name string, random *rand.Rand, outcomes map[string]int) {
	t.Helper()
	kind, template := "ConfigMap", calledConfigMap
	operation := []string{"create", "create", "create", "update", "apply", "delete"}[random.IntN(6)]
	if operation == "create" && random.IntN(2) == 0 {
		kind, template = "Pod", calledPod
	}
	labels := map[string]string{}
	for i := range hooksOfChain {
		a.Hooks.Behave(fmt.Sprintf("/h%d", i), webhook.Behaviour{})
		if n := random.IntN(3); n > 0 {
			labels[fmt.Sprint(callLabel, i)] = []string{"", "never", "again"}[n]
		}
	}
	a.Hooks.Behave("/v", webhook.Behaviour{})
	if random.IntN(3) == 0 {
		labels[callLabel+"v"] = "yes"
	}
	object := fmt.Appendf(nil, template, name, testenv.Get(json.Marshal(labels))(t))
	if operation != "create" && (operation != "apply" || random.IntN(3) > 0) { // an apply may create
		stored := bytes.Replace(object, []byte(`"k":"v"`), []byte(`"k":"stored"`), 1)
		err := a.Kube.CoreV1().RESTClient().Post().Namespace(callSpace).Resource("configmaps").Body(stored).SetHeader("Content-Type", "application/json").Do(t.Context()).Error()
		if !apierrors.IsAlreadyExists(err) {
			testenv.Must(t, err)
		}
	}
	if operation == "create" && random.IntN(4) == 0 {
		object = bytes.Replace(object, fmt.Appendf(nil, `"name":%q,"namespace":"call-shop"`, name), fmt.Appendf(nil, `"generateName":%q`, name+"-"), 1)
	}
	described := []string{operation, kind}
	for i := range hooksOfChain {
		b := behaviour(random, kind, name, a.Hooks.URL("/followed"))
		if operation == "delete" && random.IntN(3) > 0 { // any patch refuses it
			b.Patch = ""
		}
		a.Hooks.Behave(fmt.Sprintf("/h%d", i), b)
		described = append(described, fmt.Sprintf("%s %.500s", labels[fmt.Sprint(callLabel, i)], fmt.Sprintf("%+v", b)))
	}
	a.Hooks.Behave("/followed", webhook.Behaviour{Patch: `[{"op":"add","path":"/metadata/annotations","value":{"e2e/followed":"y"}}]`})
	validating := webhook.Behaviour{Deny: []string{"", "", "never"}[random.IntN(3)], Warn: "valid"}
	if random.IntN(3) == 0 {
		validating = webhook.Behaviour{Answer: answers[random.IntN(len(answers))]}
	}
	a.Hooks.Behave("/v", validating)
	described = append(described, fmt.Sprintf("validating %s %.500s", labels[callLabel+"v"], fmt.Sprintf("%+v", validating)))
	a.Hooks.Forget()
	printed := testenv.Get(auditor.Piped(t.Context(), bytes.NewReader(object), testenv.Binary(t), "explain", operation, "-f", "-", "-n", callSpace, "--call", "-o", "json", "--kubeconfig", a.Plane.Kubeconfig()))(t)
	var got calledAnswer
	if err := json.Unmarshal([]byte(printed.Stdout), &got); err != nil || printed.Code != 0 {
		t.Fatalf("%s: exit code %d, %v: %s", name, printed.Code, err, printed.Stderr)
	}
	if name == "o-0" {
		validate(t, "explain-call", printed.Stdout)
	}
	outcomes[fmt.Sprint(operation, " ", kind, " refused ", got.Refused != "")]++
	if isFollowed := strings.Contains(printed.Stdout, "it redirects to"); isFollowed { // by the API server alone
		return
	}
	const invalid = 422 // what the API server refuses between mutating and validating webhooks
	differs := got.Server.Code != invalid && (got.Server.Code >= 400) != (got.Refused != "")
	if differs || len(got.Differences) > 0 || strings.Contains(printed.Stdout, "TOPSECRET") {
		t.Errorf("%s: %.8000s\nchain:\n%s", name, printed.Stdout, strings.Join(described, "\n"))
	}
	if strings.Contains(got.Refused, "denied the request") && got.Server.Message != got.Refused {
		t.Errorf("%s: refused with %q, by the API server with %q", name, got.Refused, got.Server.Message)
	}
	compared, unequal := a.unequalReviews(t, got.Server.Code >= 400, strings.Contains(strings.Join(described, ""), `"path":"",`))
	outcomes["reviews"] += compared
	for _, diff := range unequal {
		t.Errorf("%s: %s\n%s", name, diff, strings.Join(described, "\n"))
	}
	logged, ours := a.logged(t, name), got.patches()
	for key, patch := range logged {
		if slices.Equal(strings.Split(patch, "/-\n"), strings.Split(ours[key], "/-\n")) {
			continue
		}
		if before, ok := strings.CutSuffix(patch, "/-\n"); !ok || !strings.HasPrefix(ours[key], before+"/") {
			t.Errorf("%s: the log has %q of %s, not %q\n%s", name, patch, key, ours[key], strings.Join(described, "\n"))
		}
	}
	if len(logged) != len(ours) {
		t.Errorf("%s: the log has %v, not %v\n%s", name, slices.Sorted(maps.Keys(logged)), slices.Sorted(maps.Keys(ours)), strings.Join(described, "\n"))
	}
}
