package observe

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

const (
	auditedLabel = "audit.example.com/meets"
	auditDomain  = ".audit.example.com"
	shop, web    = "audit-shop", "audit-web"
)

// auditHook is a webhook or a policy that is called for the objects whose label has
// its name.
type auditHook struct {
	name, kind string // kind is the type as the log's table has it
	outcome    string // the field of the table that counts its requests
	path       string
	dead       bool
	fails      admissionv1.FailurePolicyType
	refusal    string // text of the error that clients get; "" for none
}

var auditHooks = []auditHook{
	{"patch", "mutating", "mutated", "/patch/audit", false, admissionv1.Fail, ""},
	{"slow", "mutating", "unchanged", "/delay/700ms/audit", false, admissionv1.Fail, ""},
	{"skip", "mutating", "failedOpen", "/allow/audit", true, admissionv1.Ignore, ""},
	{"deny", "validating", "denied", "/deny/audit", false, admissionv1.Fail, "denied by the test webhook"},
	{"open", "validating", "failedOpen", "/allow/audit", true, admissionv1.Ignore, ""},
	{"dead", "validating", "failed", "/allow/audit", true, admissionv1.Fail, "failed calling webhook"},
	{"forbid", "validatingpolicy", "denied", "", false, "", "denied request: no"},
	{"record", "validatingpolicy", "audited", "", false, "", ""},
}

// auditPolicies are the policies among them.
//
//go:embed testdata/audit-policies.yaml
var auditPolicies string

// auditRequest is so many requests of the traffic.
type auditRequest struct {
	meets, verb, resource, namespace, user string
	times                                  int
}

// auditTraffic is what is sent while the log is watched.
var auditTraffic = []auditRequest{
	{"patch", "create", "configmaps", shop, "alice", 3},
	{"patch", "create", "secrets", shop, "bob", 2},
	{"patch", "update", "configmaps", shop, "alice", 1},
	{"slow", "create", "configmaps", shop, "alice", 1},
	{"skip", "create", "configmaps", web, "bob", 1},
	{"deny", "create", "configmaps", shop, "bob", 4},
	{"deny", "create", "configmaps", web, "bob", 1},
	{"deny", "create", "secrets", web, "alice", 2},
	{"open", "create", "configmaps", web, "alice", 2},
	{"dead", "create", "secrets", web, "bob", 3},
	{"forbid", "create", "configmaps", shop, "alice", 2},
	{"record", "create", "configmaps", web, "alice", 1},
	{"nothing", "create", "configmaps", web, "alice", 5},
}

// audited is an API server that writes an audit log, and what was sent to it.
type audited struct {
	environment
	level, log string
	config     *rest.Config
	// sent are the auditIDs of the requests, by what they meet.
	sent map[string][]string
	n    int
}

// newAudited starts an API server beside the one of the environment.
func newAudited(t *testing.T, w environment, level string) *audited {
	t.Helper()
	log, flags := auditFlags(t, level)
	a := &audited{environment: w, level: level, log: log, sent: map[string][]string{}}
	var err error
	a.config, err = w.Plane.Join(t.Context(), flags...)
	testenv.Must(t, err)
	return a
}

// auditFlags are those of an API server that writes an audit log, and its file.
func auditFlags(t *testing.T, level string) (log string, flags []string) {
	t.Helper()
	folder := t.TempDir()
	policy := filepath.Join(folder, "policy.yaml")
	log = filepath.Join(folder, "audit.log")
	testenv.Must(t, os.WriteFile(policy, fmt.Appendf(nil, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: %s}]\n", level), 0o600))
	return log, []string{"--audit-log-path=" + log, "--audit-policy-file=" + policy}
}

func (a *audited) clientOf(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	config := testenv.Get(a.Plane.As(user, "system:masters"))(t)
	config.Host = a.config.Host
	return testenv.Get(kubernetes.NewForConfig(config))(t)
}

// request sends one request with an auditID of its own, and returns that.
func (a *audited) request(t *testing.T, r auditRequest, options ...string) (id string, err error) {
	t.Helper()
	client := a.clientOf(t, r.user)
	a.n++
	id = fmt.Sprintf("%s-%s-%d", strings.ToLower(a.level), r.meets, a.n)
	meta := metav1.ObjectMeta{Name: id, Labels: map[string]string{auditedLabel: r.meets}}
	var object runtime.Object = &corev1.ConfigMap{ObjectMeta: meta}
	if r.resource == "secrets" {
		object = &corev1.Secret{ObjectMeta: meta}
	}
	send := client.CoreV1().RESTClient().Post()
	if r.verb == "update" {
		meta.Name = a.sent[r.meets][0]
		object = &corev1.ConfigMap{ObjectMeta: meta}
		send = client.CoreV1().RESTClient().Put().Name(meta.Name)
	}
	for _, name := range options {
		send = send.Param(name, metav1.DryRunAll)
	}
	return id, send.Namespace(r.namespace).Resource(r.resource).SetHeader("Audit-ID", id).Body(object).Do(t.Context()).Error()
}

// text is the log once it has the answer to each of the requests.
func (a *audited) text(t *testing.T, ids []string) []byte {
	t.Helper()
	var text []byte
	testenv.Eventually(t, func() error {
		var err error
		if text, err = os.ReadFile(a.log); err != nil {
			return err
		}
		for _, id := range ids {
			if !bytes.Contains(text, []byte(`"auditID":"`+id+`","stage":"ResponseComplete"`)) {
				return fmt.Errorf("%s has no answer to %s", a.log, id)
			}
		}
		return nil
	})
	return text
}

// run sends the traffic once the API server calls what is registered, and leaves the
// log of that traffic alone.
func (a *audited) run(t *testing.T, traffic []auditRequest) {
	t.Helper()
	var before []string
	for _, h := range auditHooks {
		testenv.Eventually(t, func() error {
			id, err := a.request(t, auditRequest{h.name, "create", "configmaps", shop, "before", 1}, "dryRun")
			before = append(before, id)
			return h.check(err)
		})
	}
	begin := len(a.text(t, before))
	var ids []string
	for _, r := range traffic {
		for range r.times {
			id, err := a.request(t, r)
			if i := slices.IndexFunc(auditHooks, func(h auditHook) bool { return h.name == r.meets }); i >= 0 {
				err = auditHooks[i].check(err)
			}
			testenv.Must(t, err)
			a.sent[r.meets] = append(a.sent[r.meets], id)
			ids = append(ids, id)
		}
	}
	ofTraffic := a.text(t, ids)[begin:]
	a.log = filepath.Join(t.TempDir(), "audit.log")
	testenv.Must(t, os.WriteFile(a.log, ofTraffic, 0o600))
}

// check holds an answer to what the webhook does.
func (h auditHook) check(err error) error {
	if h.refusal == "" || err == nil {
		if err == nil && h.refusal != "" {
			return fmt.Errorf("%s is not called", h.name)
		}
		return err
	}
	if !strings.Contains(err.Error(), h.refusal) {
		return err
	}
	return nil
}

// register registers the webhooks and policies: those of one type together, so that
// who calls one of them calls all.
func (w environment) registerAudited(t *testing.T) {
	t.Helper()
	alive, dead := w.Backend(t, shop), w.Backend(t, web)
	testenv.RefuseConnections(t, dead)
	var validating []admissionv1.ValidatingWebhook
	var mutating []admissionv1.MutatingWebhook
	for _, h := range auditHooks {
		if h.kind == "validatingpolicy" {
			actions := map[string]string{"denied": "Deny", "audited": "Audit, Warn"}[h.outcome]
			w.Install(t, []byte(strings.NewReplacer("NAME", h.name, "ACTIONS", actions).Replace(auditPolicies)))
			continue
		}
		backend := alive
		if h.dead {
			backend = dead
		}
		made := auditWebhook(h, backend)
		if h.kind == "validating" {
			validating = append(validating, made)
		} else {
			mutating = append(mutating, testenv.Mutating(made))
			mutating[len(mutating)-1].ObjectSelector = made.ObjectSelector
		}
	}
	w.Validate(t, "audit-validating", validating...)
	w.Mutate(t, "audit-mutating", mutating...)
}

func auditWebhook(h auditHook, b webhook.Backend) admissionv1.ValidatingWebhook {
	rule := testenv.Rule("", "configmaps")
	rule.Operations, rule.Resources = append(rule.Operations, admissionv1.Update), append(rule.Resources, "secrets")
	made := testenv.Hook(b, h.path, rule)
	made.Name, made.FailurePolicy, made.NamespaceSelector = h.name+auditDomain, &h.fails, nil
	made.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{auditedLabel: h.name}}
	return made
}

// auditTable is what "top --audit-log -o json" prints.
type auditTable struct {
	AuditLog struct {
		Files         []string
		Lines, Broken int
		Requests      []auditLine
		Notes         []string
	}
}

type auditLine struct {
	Type, Name, Registered, By                                        string
	Requests, Mutated, Unchanged, Denied, Failed, FailedOpen, Audited int
}

// auditDimensions are the values of --by, and what they make of a request.
var auditDimensions = map[string]func(auditRequest) string{
	"webhook":   func(auditRequest) string { return "" },
	"resource":  func(r auditRequest) string { return strings.ToUpper(r.verb) + " " + r.resource },
	"namespace": func(r auditRequest) string { return r.namespace },
	"user":      func(r auditRequest) string { return r.user },
}

// countTraffic are the counts of the traffic: by webhook, outcome and a dimension.
func countTraffic(traffic []auditRequest, keyOf func(auditRequest) string) map[string]int {
	out := map[string]int{}
	for _, r := range traffic {
		for _, h := range auditHooks {
			if h.name == r.meets {
				out[fmt.Sprintf("%s %s %s %s", h.kind, h.name+auditDomain, h.outcome, keyOf(r))] += r.times
			}
		}
	}
	return out
}

func (l auditTable) counts(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, line := range l.AuditLog.Requests {
		sum := 0
		for outcome, n := range map[string]int{
			"mutated": line.Mutated, "unchanged": line.Unchanged, "denied": line.Denied, "failed": line.Failed, "failedOpen": line.FailedOpen, "audited": line.Audited,
		} {
			if sum += n; n > 0 {
				out[fmt.Sprintf("%s %s %s %s", line.Type, line.Name, outcome, line.By)] += n
			}
		}
		if sum != line.Requests {
			t.Errorf("%s: %d requests, of which %d have an outcome", line.Name, line.Requests, sum)
		}
	}
	return out
}

// top holds the table of each dimension to the traffic.
func (a *audited) top(t *testing.T, args ...string) (table auditTable) {
	t.Helper()
	for by, dimension := range auditDimensions {
		printed := testenv.Command(t, append([]string{"top", "-o", "json", "--by", by}, args...)...)
		validate(t, "top-audit-log", printed.Stdout)
		table = auditTable{}
		if err := json.Unmarshal([]byte(printed.Stdout), &table); err != nil || printed.Code != 0 {
			t.Fatalf("exit code %d, %v: %s", printed.Code, err, printed.Stderr)
		}
		if want, got := countTraffic(auditTraffic, dimension), table.counts(t); !maps.Equal(got, want) {
			t.Errorf("%s by %s:\n%v\nwant\n%v", a.level, by, got, want)
		}
	}
	return table
}

// TestAuditLog holds what the auditor makes of the logs that API servers write at two
// levels to the traffic.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	w := environment{testenv.New(t, cluster.Options{WithoutControllers: true})}
	w.registerAudited(t)
	kubeconfig := "--kubeconfig=" + w.Plane.Kubeconfig()
	var a *audited
	for _, level := range []string{"Metadata", "RequestResponse"} {
		a = newAudited(t, w, level)
		a.run(t, auditTraffic)
		t.Run(level, func(t *testing.T) {
			table := a.top(t, "--audit-log", a.log, kubeconfig)
			a.details(t, table)
			a.explains(t, kubeconfig)
		})
	}
	a.ghosts(t, kubeconfig)
}

// ghosts: what the log names is deleted.
func (a *audited) ghosts(t *testing.T, kubeconfig string) {
	t.Helper()
	a.Unregister(t, "audit-validating")
	table := a.top(t, "--audit-log", a.log, kubeconfig)
	for _, line := range table.AuditLog.Requests {
		if want := map[string]string{"mutating": "yes", "validating": "no", "validatingpolicy": "unknown"}[line.Type]; line.Registered != want {
			t.Errorf("%s: registered: %s, want %s", line.Name, line.Registered, want)
		}
	}
}

// details are what the log says beside the counts.
func (a *audited) details(t *testing.T, table auditTable) {
	t.Helper()
	if table.AuditLog.Broken != 0 {
		t.Fatalf("%d broken lines", table.AuditLog.Broken)
	}
	for _, line := range table.AuditLog.Requests {
		if isRegistered := line.Type == "validatingpolicy" || line.Registered == "yes"; !isRegistered {
			t.Errorf("%s: registered: %s", line.Name, line.Registered)
		}
	}
}

// explains holds "explain --request-id" to requests of the traffic.
func (a *audited) explains(t *testing.T, kubeconfig string) {
	t.Helper()
	called := map[string]string{"Metadata": "maybe", "RequestResponse": "yes"}[a.level]
	for _, h := range auditHooks {
		printed := testenv.Command(t, "explain", "-o", "json", "--audit-log", a.log, "--request-id", a.sent[h.name][0], kubeconfig)
		validate(t, "explain-request-id", printed.Stdout)
		var answer struct {
			AuditID, User, Message string
			Code                   int
			Webhooks               []struct {
				Type, Name, Recorded, Called string
				Differs                      bool
			}
		}
		if err := json.Unmarshal([]byte(printed.Stdout), &answer); err != nil || printed.Code != 0 {
			t.Fatalf("exit code %d, %v: %s", printed.Code, err, printed.Stderr)
		}
		found := false
		for _, step := range answer.Webhooks {
			ours := step.Type == h.kind && step.Name == h.name+auditDomain
			found = found || ours && step.Recorded == h.outcome && !step.Differs && (step.Called == called || h.kind == "validatingpolicy")
		}
		if refused := answer.Code >= 400; !found || answer.AuditID != a.sent[h.name][0] || refused != (h.refusal != "") || !strings.Contains(answer.Message, h.refusal) {
			t.Errorf("%s: %+v", h.name, answer)
		}
	}
}
