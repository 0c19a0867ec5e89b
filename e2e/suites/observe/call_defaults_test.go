package observe

import (
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// refusedPod is the template of a Pod.
const refusedPod = `{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"POLICY","containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}`

// refusedObjects are objects that say as little as they may, or choose what changes the
// defaults, by the kind.
var refusedObjects = map[string][]string{
	"v1 Pod":                   {`"spec":{"containers":[{"name":"c","image":"i"}]}`},
	"v1 ConfigMap":             {`"data":{"a":"b"}`},
	"v1 Secret":                {`"stringData":{"a":"b"}`},
	"v1 ServiceAccount":        {`"secrets":[]`},
	"v1 Service":               {`"spec":{"ports":[{"port":80}]}`, `"spec":{"type":"NodePort","ports":[{"port":80,"targetPort":"web"}]}`, `"spec":{"type":"LoadBalancer","ports":[{"port":80}]}`, `"spec":{"type":"ExternalName","externalName":"a.example.com"}`},
	"v1 PersistentVolumeClaim": {`"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`},
	"apps/v1 Deployment":       {`"spec":{"selector":{"matchLabels":{"a":"b"}},"template":Always}`, `"spec":{"strategy":{"type":"Recreate"},"selector":{"matchLabels":{"a":"b"}},"template":Always}`, `"spec":{"strategy":{"rollingUpdate":{"maxSurge":1}},"selector":{"matchLabels":{"a":"b"}},"template":Always}`},
	"apps/v1 ReplicaSet":       {`"spec":{"selector":{"matchLabels":{"a":"b"}},"template":Always}`},
	"apps/v1 StatefulSet":      {`"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":Always}`, `"spec":{"updateStrategy":{"type":"OnDelete"},"selector":{"matchLabels":{"a":"b"}},"template":Always}`},
	"apps/v1 DaemonSet":        {`"spec":{"selector":{"matchLabels":{"a":"b"}},"template":Always}`, `"spec":{"updateStrategy":{"type":"OnDelete"},"selector":{"matchLabels":{"a":"b"}},"template":Always}`},
	"batch/v1 Job":             {`"spec":{"template":Never}`, `"spec":{"completions":3,"template":Never}`, `"spec":{"parallelism":2,"template":Never}`, `"spec":{"completions":3,"completionMode":"Indexed","backoffLimitPerIndex":1,"template":Never}`, `"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget"}]}]},"template":Never}`},
	"call.example.com/v1 Box": {
		`"extra":{"a":1}`, `"spec":{"size":null,"note":null,"mode":null,"bare":null,"unknown":true}`, `"spec":{"free":{"any":{"deep":1}},"port":"http","limits":{"cpu":"2"}}`,
		`"spec":{"items":[{"name":"a","x":1},{"name":"b","count":7,"tags":["t"]}],"weights":{"a":{},"b":{"weight":2,"gone":2}}}`,
	},
	"call.example.com/v2 Box": {`"extra":{"a":1}`, `"spec":{"size":null}`},
	"batch/v1 CronJob":        {`"spec":{"schedule":"0 0 * * *","jobTemplate":{"spec":{"template":Never}}}`},
}

// TestCallWithoutAnswer holds the review of a webhook that denies the request to that of the API
// server, whose answer then has no defaults to take over.
func TestCallWithoutAnswer(t *testing.T) {
	t.Parallel()
	w := environment{testenv.New(t, cluster.Options{WithoutControllers: true})}
	w.Install(t, testenv.Get(os.ReadFile("testdata/boxes.yaml"))(t))
	b := w.Backend(t, "call-refused")
	w.reachable(t, b)
	rule := testenv.Rule("*", "*")
	hook := testenv.Mutating(testenv.Hook(b, "/refused", rule))
	hook.FailurePolicy = new(admissionv1.Fail)
	w.Mutate(t, "refused", hook)
	w.Hooks.Behave("/refused", webhook.Behaviour{Deny: "because"})
	testenv.Eventually(t, func() error { return w.Refused(t, b.Namespace, "because") })
	for kind, bodies := range refusedObjects {
		for i, body := range bodies {
			for policy := range map[string]bool{"Always": true, "Never": true} {
				body = strings.ReplaceAll(body, `"template":`+policy, `"template":`+strings.Replace(refusedPod, "POLICY", policy, 1))
			}
			version, name, _ := strings.Cut(kind, " ")
			object := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"refused","namespace":"call-refused"},%s}`, version, name, body)
			w.Hooks.Forget()
			printed := testenv.Get(auditor.Piped(t.Context(), strings.NewReader(object), testenv.Binary(t), "explain", "create", "-f", "-", "--call", "-o", "json", "--kubeconfig", w.Plane.Kubeconfig()))(t)
			compared, unequal := w.unequalReviews(t, true)
			if calls := len(w.Hooks.CallsOf("/refused")); calls != 2 || compared != 1 {
				t.Errorf("%s %d: %d calls, want one of the API server and one of explain\n%s%s", kind, i, calls, printed.Stdout, printed.Stderr)
			}
			for _, diff := range unequal {
				t.Errorf("%s %d: %s", kind, i, diff)
			}
		}
	}
}
