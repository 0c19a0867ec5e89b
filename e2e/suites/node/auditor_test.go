//go:build linux && node

package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// readyPods are the Pods of a namespace that are ready and stay.
func readyPods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	pods, err := real.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	}), nil
}

// holder is the one of the auditor's Pods that holds the lease.
func holder(ctx context.Context, pods []corev1.Pod) (corev1.Pod, error) {
	by, err := kubectl(ctx, "-n", home, "get", "lease", "webhook-auditor", "-o", "jsonpath={.spec.holderIdentity}")
	if at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(by, p.Name) }); at >= 0 {
		return pods[at], err
	}
	return corev1.Pod{}, errors.Join(fmt.Errorf("the lease is held by %q, the Pods are %v", by, places(pods)), err)
}

// TestInstalled: install.yaml as it is runs under Pod Security, is served through
// kube-proxy of each node, and refuses callers without a token.
func TestInstalled(t *testing.T) {
	pods := apart(t)
	for _, pod := range pods {
		if pod.Status.ContainerStatuses[0].RestartCount > 0 {
			t.Errorf("Pod %s was restarted", pod.Name)
		}
	}
	for _, n := range real.Nodes {
		mode, err := n.Ask(t.Context(), "http://127.0.0.1:10249/proxyMode")
		if err != nil || mode != real.ProxyMode() {
			t.Errorf("kube-proxy of node %s runs in mode %q: %v", n.Name, mode, err)
		}
		text := testenv.Get(n.Ask(t.Context(), real.url+"/metrics", real.token))(t)
		contains(t, "/metrics through node "+n.Name, text, "webhook_auditor_findings")
		if _, err := n.Ask(t.Context(), real.url+"/metrics"); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("without a token: %v", err)
		}
	}
	testenv.Get(holder(t.Context(), pods))(t)
	contains(t, "kubectl get webhookaudit", do(t, "get webhookaudit"), "cluster")
	if said := says(t, "audit"); !strings.Contains(said, "0 critical") && !strings.Contains(said, "no webhooks") {
		t.Errorf("of a healthy cluster audit says\n%s", said)
	}
}

// apart are the auditor's Pods: two, on two nodes.
func apart(t testing.TB) []corev1.Pod {
	t.Helper()
	pods := testenv.Get(readyPods(t.Context(), home))(t)
	if len(pods) != 2 || pods[0].Spec.NodeName == pods[1].Spec.NodeName {
		t.Errorf("want two Pods on two nodes, have %v", places(pods))
	}
	return pods
}

func places(pods []corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name+" on "+pod.Spec.NodeName)
	}
	return out
}

// scrape fails where it is refused: on a machine under load answers may be late.
func scrape(ctx context.Context) error {
	_, err := ask(ctx, "/metrics")
	if ctx.Err() != nil || err != nil && strings.Contains(err.Error(), "Client.Timeout") {
		return nil
	}
	return err
}

// TestRollout: no scrape is refused, the lease has a holder, and the replicas are on two
// nodes.
func TestRollout(t *testing.T) {
	for range 4 {
		stop := failures(scrape)
		do(t, "-n "+home+" rollout restart deployment/webhook-auditor")
		awaitTwo(t)
		time.Sleep(8 * time.Second) // until the old Pods have ended
		if failed := stop(); len(failed) > 0 {
			t.Errorf("%d scrapes failed: %v", len(failed), failed)
		}
		apart(t)
	}
}

// awaitTwo waits until there are two replicas, one of which holds the lease.
func awaitTwo(t testing.TB) {
	t.Helper()
	ready(t, home, "webhook-auditor")
	testenv.EventuallyWithin(t, patience, func() error {
		pods, err := readyPods(t.Context(), home)
		if err != nil || len(pods) != 2 {
			return errors.Join(fmt.Errorf("want two Pods, have %v", places(pods)), err)
		}
		_, err = holder(t.Context(), pods)
		return err
	})
}

// TestKilledHolder kills the replica that writes: its container comes back, and findings
// are written on.
func TestKilledHolder(t *testing.T) {
	pods := testenv.Get(readyPods(t.Context(), home))(t)
	writer := testenv.Get(holder(t.Context(), pods))(t)
	n := real.Node(writer.Spec.NodeName)
	pid := testenv.Get(n.Run(t.Context(), "pidof", "webhook-auditor"))(t)
	testenv.Get(n.Run(t.Context(), append([]string{"kill", "-9"}, strings.Fields(pid)...)...))(t)
	const ready = ".status.containerStatuses[?(@.ready==true)]"
	awaitPrinted(t, "-n "+home+" get pod "+writer.Name+" -o jsonpath={"+ready+".lastState.terminated.exitCode}", "137")
	h := hook{name: "after-kill"}
	h.start(t)
	do(t, "-n "+h.name+" scale deployment "+h.name+" --replicas=0")
	awaitFinding(t, sought{check: "no-ready-endpoints", configuration: h.name})
	awaitPrinted(t, "get events -A", h.name)
}

// TestOutOfMemory: replicas that the kernel kills leave those of before to serve, which a
// rollback leaves alone.
func TestOutOfMemory(t *testing.T) {
	do(t, "-n "+home+" set resources deployment webhook-auditor --requests=memory=8Mi --limits=memory=8Mi")
	t.Cleanup(func() {
		do(t, "-n "+home+" rollout undo deployment/webhook-auditor")
		ready(t, home, "webhook-auditor")
	})
	awaitPrinted(t, "-n "+home+" get pods -o jsonpath={.items[*].status.containerStatuses}", "OOMKilled")
	pods := testenv.Get(readyPods(t.Context(), home))(t)
	testenv.Get(holder(t.Context(), pods))(t)
	text := testenv.Get(ask(t.Context(), "/metrics"))(t)
	contains(t, "/metrics of the replicas that are left", text, "webhook_auditor_findings")
}

// TestHelm has the chart take over what kubectl applied, as its README prints it, and
// runs "helm test": its Pod asks for the metrics by the Service's name.
func TestHelm(t *testing.T) {
	shell(t, "helm4 install webhook-auditor "+filepath.Join(real.root, "manifests", "chart")+" --namespace webhook-auditor --take-ownership --server-side=false")
	ready(t, home, "webhook-auditor")
	printed := testenv.Get(run(t.Context(), "", strings.Fields("helm4 test webhook-auditor --namespace webhook-auditor --logs --timeout=5m")...))(t)
	contains(t, "helm test", printed, "Succeeded", "webhooks; snapshot ")
}
