//go:build linux && node

package node

import (
	"errors"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// departures are ways in which a webhook's only Pod leaves, and whether requests are
// refused meanwhile.
var departures = []struct {
	name, preStop string
	leaves        func(t testing.TB, h hook)
	refuses       bool
}{
	{name: "drained", leaves: drainUnderHook, refuses: true},
	{name: "drained-prestop", preStop: preStop, leaves: drainUnderHook},
	{name: "rollout-prestop", preStop: preStop, leaves: func(t testing.TB, h hook) {
		do(t, "-n "+h.name+" rollout restart deployment/"+h.name)
	}},
}

// preStop has the old Pod answer until the new one is ready.
const preStop = "preStop: {sleep: {seconds: 240}}"

// TestDeparture compares what "impact --down-node" says with what a drain does, and has a
// webhook's own rollout refuse nothing where its Pods have a preStop hook.
func TestDeparture(t *testing.T) {
	for _, d := range departures {
		t.Run(d.name, func(t *testing.T) {
			h := hook{name: d.name, preStop: d.preStop}
			h.start(t)
			stop := failures(h.call)
			d.leaves(t, h)
			ready(t, h.name, h.name)
			h.admitted(t)
			refused := stop()
			if d.refuses != (len(refused) > 0) {
				t.Errorf("refused while the Pod left: %v", refused)
			}
		})
	}
}

// drainUnderHook does what a drain does, and does not wait for the Pod to end.
func drainUnderHook(t testing.TB, h hook) {
	pods, err := real.Kube.CoreV1().Pods(h.name).List(t.Context(), metav1.ListOptions{})
	testenv.Must(t, err)
	pod, place := pods.Items[0].Name, pods.Items[0].Spec.NodeName
	contains(t, "impact --down-node", says(t, "impact", "--down-node", place), h.name)
	do(t, "cordon "+place)
	t.Cleanup(func() { do(t, "uncordon "+place) })
	testenv.Must(t, real.Kube.CoreV1().Pods(h.name).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod}}))
	testenv.EventuallyWithin(t, patience, func() error {
		if another, err := readyPods(t.Context(), h.name); err != nil || len(another) == 0 {
			return errors.Join(errors.New("there is no other Pod"), err)
		}
		return nil
	})
}

// drain empties a node until the end of the test.
func drain(t testing.TB, node string) {
	t.Helper()
	t.Cleanup(func() { do(t, "uncordon "+node) })
	do(t, "drain "+node+" --ignore-daemonsets --delete-emptydir-data --timeout=300s")
}

// TestDrainUnderAuditor drains each node on which the auditor runs: impact names what is
// evicted, /metrics is served meanwhile, and the lease finds a holder.
func TestDrainUnderAuditor(t *testing.T) {
	pods, err := readyPods(t.Context(), home)
	testenv.Must(t, err)
	for _, pod := range pods {
		t.Run(pod.Spec.NodeName, func(t *testing.T) {
			stop := failures(scrape)
			drain(t, pod.Spec.NodeName)
			awaitTwo(t)
			if failed := stop(); len(failed) > 0 {
				t.Errorf("%d scrapes failed: %v", len(failed), failed)
			}
		})
	}
}

// TestDeadlock: a webhook on Pods whose node is replaced does not come back, as impact
// says; with the commands that are printed it does.
func TestDeadlock(t *testing.T) {
	h := hook{name: "locked", resources: "pods", selector: "matchExpressions: []"}
	h.start(t)
	place := do(t, "-n "+h.name+" get pods -o jsonpath={.items[0].spec.nodeName}")
	predicted := says(t, "impact", "--down-node", place)
	contains(t, "impact --down-node", predicted, "kubectl delete validatingwebhookconfiguration "+h.name, "kubectl rollout restart deployment "+h.name)
	real.Node(place).PowerOff()
	t.Cleanup(func() { boot(t, real.Node(place)) })
	do(t, "delete node "+place)
	do(t, "-n "+h.name+" delete pods --all --force --grace-period=0") // as the garbage collector does a minute later
	awaitPrinted(t, "-n "+h.name+" get events", "FailedCreate")
	contains(t, "audit", says(t, "audit"), h.name+".example.com")
	shell(t, "kubectl delete validatingwebhookconfiguration "+h.name)
	do(t, "-n "+h.name+" rollout restart deployment "+h.name)
	ready(t, h.name, h.name)
}
