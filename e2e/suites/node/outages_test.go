//go:build linux && node

package node

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// outage is one way in which a webhook breaks.
type outage struct {
	name          string
	breaks, heals func(testing.TB, hook)
	answer        string // of the API server, once it refuses; empty where it may go on an open connection
	check         string
	condition     string // its reason, where there is one
	explained     string // by explain --error; empty: the check
	said          string // by the page of the replicas, which probe
	typed         string // the command that explain prints and that heals; NAME is the webhook's
}

var outages = []outage{
	{
		name:   "the Deployment is scaled to 0",
		breaks: func(t testing.TB, h hook) { do(t, "-n "+h.name+" scale deployment "+h.name+" --replicas=0") },
		heals:  func(t testing.TB, h hook) { do(t, "-n "+h.name+" scale deployment "+h.name+" --replicas=1") },
		answer: "failed calling webhook", check: "no-ready-endpoints", condition: "WebhookServiceNoEndpoints",
	},
	{
		name:   "the Service has a wrong targetPort",
		breaks: func(t testing.TB, h hook) { targetPort(t, h, "9999") },
		heals:  func(t testing.TB, h hook) { targetPort(t, h, `"https"`) },
		check:  "backend-unreachable",
	},
	{
		name:   "the container crashes every three seconds",
		breaks: func(t testing.TB, h hook) { environment(t, h, "CRASH=3s") },
		heals:  func(t testing.TB, h hook) { environment(t, h, "CRASH-") },
		answer: "failed calling webhook", check: "no-ready-endpoints", explained: "fix:", // between two crashes it is ready
	},
	{
		name:   "the serving certificate has expired",
		breaks: func(t testing.TB, h hook) { recertify(t, h, -time.Hour) },
		heals:  func(t testing.TB, h hook) { recertify(t, h, year) },
		answer: "certificate has expired", check: "serving-certificate", explained: "certificate-expired", said: "expired on",
	},
	{
		name: "the CA bundle is rotated before the certificate",
		breaks: func(t testing.TB, h hook) {
			authority := testenv.Get(ca.New(h.name))(t)
			h.trust(t, authority)
		},
		heals:  func(t testing.TB, h hook) { recertify(t, h, year) },
		answer: "unknown authority", check: "serving-certificate", explained: "unknown-authority",
	},
	{
		name:   "a NetworkPolicy closes the port",
		breaks: closePort, heals: openPort,
		answer: "context deadline exceeded", check: "network-policy",
	},
	{
		name:   "the namespace is deleted",
		breaks: func(t testing.TB, h hook) { do(t, "delete namespace "+h.name) },
		typed:  "kubectl delete validatingwebhookconfiguration NAME",
		answer: "not found", check: "service-missing", condition: "WebhookServiceNotFound",
	},
}

// TestOutages breaks webhooks in each way, one after the other.
func TestOutages(t *testing.T) {
	for i, o := range outages {
		t.Run(o.name, func(t *testing.T) { o.run(t, hook{name: fmt.Sprintf("outage-%d", i)}) })
	}
}

func (o outage) run(t *testing.T, h hook) {
	h.start(t)
	o.breaks(t, h)
	r := row{broken: o.name, answer: "admits all the while", finding: "`" + o.check + "`"}
	refusal := make(chan error, 1)
	go func() {
		var err error
		if o.answer != "" {
			r.answer, r.refused, err = h.refused(t.Context(), o.answer)
		}
		refusal <- err
	}()
	r.found = awaitFinding(t, sought{check: o.check, configuration: h.name})
	testenv.Must(t, <-refusal)
	o.isSaid(t, h, r.answer)
	if o.typed == "" {
		o.heals(t, h)
	} else {
		shell(t, h.render(o.typed))
	}
	r.healed = h.admitted(t)
	r.resolved = awaitFinding(t, sought{check: o.check, configuration: h.name, gone: true}) + r.healed
	r.answer = cmp.Or(o.answer, "admits all the while")
	measured.outages = append(measured.outages, r)
}

// isSaid wants page, condition, explain and impact to say the same.
func (o outage) isSaid(t *testing.T, h hook, answer string) {
	t.Helper()
	testenv.EventuallyWithin(t, patience, func() error { // of whichever replica
		page, err := ask(t.Context(), "/")
		if err == nil && (!strings.Contains(page, h.name+".example.com") || !strings.Contains(page, o.said)) {
			err = fmt.Errorf("the status page does not have the webhook and %q: %.3000s", o.said, page[strings.Index(page, "<main"):])
		}
		return err
	})
	awaitPrinted(t, "get webhookaudit cluster -o jsonpath={.status.conditions}", o.condition)
	contains(t, "impact --down", says(t, "impact", "--down", h.name+"/"+h.name), "requests to 1 webhook are refused", h.name+".example.com")
	if o.answer == "" {
		return
	}
	explained := says(t, "explain", "--error", answer)
	contains(t, "explain --error", explained, h.name+".example.com", cmp.Or(o.explained, o.check), h.render(o.typed))
	if first := firstFinding.FindStringSubmatch(explained); o.explained == "" && (first == nil || first[1] != o.check) {
		t.Errorf("the first finding that explain --error prints is not %s:\n%s", o.check, explained)
	}
	if o.condition != "" { // its calls fail by what the API server itself knows
		contains(t, "impact --down", says(t, "impact", "--down", h.name+"/"+h.name), "requests to 1 webhook are refused already")
		contains(t, "explain create", says(t, "explain", "create", "configmaps", "-n", h.name+"-used"), "refused now, as "+h.name+".example.com cannot be called")
	}
	h.breaksGlass(t, explained)
}

// firstFinding is the one that explains the error.
var firstFinding = regexp.MustCompile(`finding:\s+\w+ ([a-z-]+):`)

// glass is what explain prints to let requests through meanwhile.
var glass = regexp.MustCompile(`kubectl get \S+ \S+ -o yaml .*> (\S+\.yaml) && kubectl delete \S+ \S+`)

// breaksGlass types that, where it is printed: requests pass. Then it restores what was
// deleted, as the runbooks have it; "kubectl apply" of what follows works by that backup.
func (h hook) breaksGlass(t *testing.T, explained string) {
	t.Helper()
	found := glass.FindStringSubmatch(explained)
	if found == nil {
		return
	}
	folder := shell(t, found[0])
	h.admitted(t)
	do(t, "create -f "+filepath.Join(folder, found[1]))
}

// shell types a command line in a folder of its own, which it returns.
func shell(t testing.TB, line string) string {
	t.Helper()
	folder := t.TempDir()
	testenv.Get(run(t.Context(), "", "sh", "-ec", "cd "+folder+"\n"+line))(t)
	return folder
}

func targetPort(t testing.TB, h hook, port string) {
	t.Helper()
	testenv.Get(kubectl(context.Background(), "-n", h.name, "patch", "service", h.name, "-p", `{"spec":{"ports":[{"port":443,"targetPort":`+port+`}]}}`))(t)
}

func environment(t testing.TB, h hook, variable string) {
	t.Helper()
	do(t, "-n "+h.name+" set env deployment/"+h.name+" "+variable)
}

// recertify replaces CA and certificate, as rotations do, and starts the Pods anew.
func recertify(t testing.TB, h hook, lasts time.Duration) {
	t.Helper()
	authority := testenv.Get(ca.New(h.name))(t)
	h.certify(t, authority, lasts)
	h.trust(t, authority)
	do(t, "-n "+h.name+" rollout restart deployment/"+h.name)
	ready(t, h.name, h.name)
}

const closed = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: NAME}
spec: {podSelector: {}, policyTypes: [Ingress]}
`

// closePort makes a NetworkPolicy and does on the Pod's node what a network plugin does.
func closePort(t testing.TB, h hook) {
	t.Helper()
	apply(t, h.render(closed))
	enforce(t, h, "-I")
}

func openPort(t testing.TB, h hook) {
	t.Helper()
	do(t, "-n "+h.name+" delete networkpolicy closed")
	enforce(t, h, "-D")
}

func enforce(t testing.TB, h hook, change string) {
	t.Helper()
	pods := testenv.Get(real.Kube.CoreV1().Pods(h.name).List(t.Context(), metav1.ListOptions{}))(t)
	for _, pod := range pods.Items {
		testenv.Get(real.Node(pod.Spec.NodeName).Run(t.Context(), "iptables", change, "FORWARD", "-d", pod.Status.PodIP, "-j", "DROP"))(t)
	}
}

// TestSlow: what a slow webhook costs is measured by the API server and printed by top.
func TestSlow(t *testing.T) {
	h := hook{name: "slow"}
	h.start(t)
	environment(t, h, "DELAY=4s")
	ready(t, h.name, h.name)
	testenv.EventuallyWithin(t, patience, func() error {
		begun := time.Now()
		if err := h.call(t.Context()); err != nil || time.Since(begun) < 4*time.Second {
			return fmt.Errorf("a call took %s: %w", time.Since(begun), err)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			_ = h.call(ctx) // what top measures
		}
	}()
	seconds := regexp.MustCompile(`(?m)^.*` + h.name + `.* (?:[4-9][.\d]*|10) ?s`)
	testenv.EventuallyWithin(t, 2*patience, func() error { // the API server measures much, and takes its time to say so
		if top := says(t, "top", "--observe-for=15s"); !seconds.MatchString(top) {
			return fmt.Errorf("top does not have the seconds of the webhook:\n%s", top)
		}
		return nil
	})
}

// TestAggregatorRouting: an API server that dials endpoints itself refuses at once, and in
// other words; the finding and its explanation are the same.
func TestAggregatorRouting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	testenv.Must(t, real.APIServer(ctx, "--enable-aggregator-routing=true"))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		testenv.Must(t, real.APIServer(ctx))
	})
	scaled := outages[0]
	scaled.name, scaled.answer = scaled.name+", with `--enable-aggregator-routing`", "no endpoints available"
	scaled.run(t, hook{name: "routed"})
}
