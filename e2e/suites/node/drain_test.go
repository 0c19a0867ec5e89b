//go:build linux && node

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// departures are ways in which a webhook's only Pod leaves.
var departures = []struct {
	name, how, preStop string
	leaves             func(t testing.TB, h hook, pod corev1.Pod)
	said               string // by impact, of a drain of the Pod's node
	// refuses says whether requests are refused meanwhile; nil: by chance.
	refuses *bool
}{
	{name: "drained", how: "a drain", leaves: drainUnderHook, said: "requests to 1 webhook are refused.", refuses: new(true)},
	{
		name: "drained-prestop", how: "a drain, with a `preStop` hook", preStop: preStop, leaves: drainUnderHook,
		said: "refused once preStop hooks end, unless new Pods are ready by then", refuses: new(false),
	},
	{name: "rollout", how: "a rollout", leaves: rollOut, said: "no container of Deployment rollout/rollout has a preStop hook: unless its process waits by itself, a Pod that leaves is called after it has stopped"},
	{name: "rollout-prestop", how: "a rollout, with a `preStop` hook", preStop: preStop, leaves: rollOut, refuses: new(false)},
}

// preStop has the old Pod answer until the new one is ready.
const preStop = "preStop: {sleep: {seconds: 240}}"

// TestDeparture compares what impact says before a drain or a rollout with what happens
// then. Where Pods that leave still answer, no finding says that nothing does.
func TestDeparture(t *testing.T) {
	for _, d := range departures {
		t.Run(d.name, func(t *testing.T) {
			h := hook{name: d.name, preStop: d.preStop}
			h.start(t)
			stop := failures(h.call)
			alarmed := failures(func(ctx context.Context) error {
				if found, _ := finding(ctx, real.url, sought{check: "no-ready-endpoints", configuration: h.name, critical: true}); found {
					return errors.New("no-ready-endpoints is critical")
				}
				return nil
			})
			pods := testenv.Get(readyPods(t.Context(), h.name))(t)
			contains(t, "impact --down-node", says(t, "impact", "--down-node", pods[0].Spec.NodeName), d.said)
			d.leaves(t, h, pods[0])
			ready(t, h.name, h.name)
			h.admitted(t)
			refused, alarms := stop(), alarmed()
			if d.refuses != nil && *d.refuses != (len(refused) > 0) || d.preStop != "" && len(alarms) > 0 {
				t.Errorf("while the Pod left: %v, %v", refused, alarms)
			}
			measured.departures += fmt.Sprintf("| %s | %s | %d |\n", d.how, cmp.Or(d.said, "–"), len(refused))
		})
	}
}

// rollOut replaces the Pod.
func rollOut(t testing.TB, h hook, _ corev1.Pod) {
	t.Helper()
	do(t, "-n "+h.name+" rollout restart deployment/"+h.name)
}

// drainUnderHook does what a drain does, and does not wait for the Pod to end.
func drainUnderHook(t testing.TB, h hook, pod corev1.Pod) {
	t.Helper()
	do(t, "cordon "+pod.Spec.NodeName)
	t.Cleanup(func() { do(t, "uncordon "+pod.Spec.NodeName) })
	testenv.Must(t, real.Kube.CoreV1().Pods(h.name).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}))
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

// TestDrain drains each node. What impact says before is what happens to the Pods of a
// webhook; the auditor's /metrics is served meanwhile, and its lease finds a holder.
func TestDrain(t *testing.T) {
	h := hook{name: "everywhere", preStop: "preStop: {sleep: {seconds: 20}}"}
	h.start(t)
	do(t, "-n "+h.name+" scale deployment "+h.name+" --replicas=2")
	ready(t, h.name, h.name)
	for _, n := range real.Nodes {
		t.Run(n.Name, func(t *testing.T) {
			before := testenv.Get(readyPods(t.Context(), h.name))(t)
			said := predicted(t, "--down-node", n.Name)
			scrapes, calls := failures(scrape), failures(h.call)
			drain(t, n.Name)
			awaitTwo(t)
			ready(t, h.name, h.name)
			after := testenv.Get(readyPods(t.Context(), h.name))(t)
			var leave, left []string
			for _, e := range said.Evicted {
				leave = append(leave, fmt.Sprint(e.Workload, ": ", e.Pods))
			}
			if gone := slices.DeleteFunc(before, func(p corev1.Pod) bool {
				return slices.ContainsFunc(after, func(a corev1.Pod) bool { return a.Name == p.Name })
			}); len(gone) > 0 {
				left = []string{fmt.Sprint("Deployment ", h.name, "/", h.name, ": ", len(gone))}
			}
			if fmt.Sprint(leave) != fmt.Sprint(left) {
				t.Errorf("impact says that these leave: %q; left have %q", leave, left)
			}
			if refused := calls(); len(refused) > 0 && len(said.Effects) == 0 {
				t.Errorf("impact says that no request is refused; refused were %v", refused)
			}
			if failed := scrapes(); len(failed) > 0 {
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
