package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
)

const (
	snapshotTimestamp = auditor.Prefix + "snapshot_timestamp_seconds"
	evaluations       = auditor.Prefix + "evaluation_duration_seconds" // a histogram: its count
)

// TestFreshCluster follows a cluster of its own from its first minute to its
// last.
func TestFreshCluster(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, cluster.Options{})
	t.Run("is quiet", w.isQuiet)
	t.Run("loses its API server", w.losesItsAPIServer)
	t.Run("loses nothing else", w.losesNothing)
}

// isQuiet watches a cluster as it comes, without a single webhook: nothing is
// found, nothing is asked for, nothing is computed, nothing is said.
func (w *world) isQuiet(t *testing.T) {
	d, result := report(t, "--kubeconfig="+w.plane.Kubeconfig())
	if result.Code != 0 || result.Stderr != "" || len(d.Webhooks)+len(d.Findings)+len(d.Errors) != 0 {
		t.Errorf("want an empty report and exit code 0, have %+v", result)
	}
	watcher := w.watch(t)
	watcher.sees("no webhook", metrics.Absent(info, nil))
	watcher.sees("no finding", metrics.Absent(finding, nil))

	before := watcher.settled(t, w)
	time.Sleep(5 * time.Second) // idle, on purpose
	after := watcher.activity(t, w)
	// What nothing changed is published again every minute: once, at most.
	if n := after.evaluations - before.evaluations; n > 1 {
		t.Errorf("%v evaluations of nothing new", n)
	}
	// Once a minute, one object of each kind shows the resource version.
	const kinds = 3
	if after.asked-before.asked > kinds || after.log != before.log {
		t.Errorf("an idle auditor listed %v times and logged %q", after.asked-before.asked, after.log[len(before.log):])
	}
	if after.errors != 0 {
		t.Errorf("%v watch errors", after.errors)
	}
	if age := time.Since(after.snapshot); age > 65*time.Second {
		t.Errorf("the snapshot is %s old", age)
	}
}

// activity is what an auditor has done so far.
type activity struct {
	evaluations, asked, errors float64
	snapshot                   time.Time
	log                        string
}

func (w watcher) activity(t *testing.T, on *world) activity {
	t.Helper()
	scrape, err := w.Scrape(t.Context())
	must(t, err)
	return activity{
		evaluations: scrape.Select(evaluations, nil).Sum(),
		asked:       asked(on.apiServerMetrics(t, "apiserver_request_total")),
		errors:      scrape.Select(auditor.Prefix+"watch_errors_total", nil).Sum(),
		snapshot:    snapshotTime(scrape),
		log:         w.Output(),
	}
}

// snapshotTime is the moment of which the auditor tells.
func snapshotTime(scrape metrics.Metrics) time.Time {
	return time.UnixMilli(int64(1000 * scrape.Select(snapshotTimestamp, nil).Sum()))
}

func (w watcher) snapshotTime(t *testing.T) time.Time {
	t.Helper()
	scrape, err := w.Scrape(t.Context())
	must(t, err)
	return snapshotTime(scrape)
}

// settled waits until two looks in a row see the same: a fresh control plane
// goes on making things for a while.
func (w watcher) settled(t *testing.T, on *world) activity {
	t.Helper()
	last := w.activity(t, on)
	eventually(t, func() error {
		time.Sleep(2 * time.Second)
		before := last
		if last = w.activity(t, on); last != before {
			return fmt.Errorf("the cluster is not quiet: %+v, then %+v", before, last)
		}
		return nil
	})
	return last
}

// asked counts the reads of what only the auditor watches and nothing else in
// the control plane reads again.
func asked(scrape metrics.Metrics) float64 {
	sum := 0.0
	for _, resource := range []string{"customresourcedefinitions", "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "endpointslices"} {
		for _, verb := range []string{"LIST", "GET"} {
			sum += scrape.Select("apiserver_request_total", metrics.Labels{"resource": resource, "verb": verb}).Sum()
		}
	}
	return sum
}

// losesItsAPIServer: without it, the last good Snapshot is served, and its time
// stands still. The auditor goes on by itself once the server is back.
func (w *world) losesItsAPIServer(t *testing.T) {
	b := w.backend(t, "loss")
	must(t, b.DeleteService(t.Context()))
	h := hook(b, "/allow/loss", rule("", "configmaps"))
	w.validate(t, b.Namespace, h)
	labels := identity("validating", b.Namespace, h.Name)
	watcher := w.watch(t)
	watcher.finds("service-missing", "critical", labels)

	w.plane.APIServer.Kill()
	eventually(t, func() error {
		if !strings.Contains(watcher.Output(), "cannot read resource") {
			return fmt.Errorf("the loss is not logged:\n%s", watcher.Output())
		}
		return nil
	})
	lost := watcher.snapshotTime(t)
	time.Sleep(3 * time.Second) // nothing may move meanwhile
	if now := watcher.snapshotTime(t); !now.Equal(lost) {
		t.Errorf("the time of the snapshot moved on from %s to %s without an API server", lost, now)
	}
	watcher.finds("service-missing", "critical", labels)
	must(t, watcher.Ready(t.Context()))

	must(t, w.plane.APIServer.Start(t.Context()))
	must(t, b.CreateService(t.Context()))
	watcher.forgets("service-missing", labels)
	watcher.sees("time goes on", func(m metrics.Metrics) error {
		if now := snapshotTime(m); !now.After(lost) {
			return fmt.Errorf("it is still %s", now)
		}
		return nil
	})
	// The last watch to recover may be another than the one that was oldest.
	eventually(t, func() error {
		if output := watcher.Output(); !strings.Contains(output, "resource readable again") || strings.Contains(output, "panic") {
			return fmt.Errorf("the log does not tell of the recovery:\n%s", output)
		}
		return nil
	})
}

// losesNothing: what the API server stored outlives its end and that of etcd,
// and nothing of them is left once they are stopped.
func (w *world) losesNothing(t *testing.T) {
	_, err := w.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	must(t, err)
	read := func() error {
		_, err := w.kube.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{})
		return err
	}
	w.plane.APIServer.Kill()
	must(t, w.plane.APIServer.Start(t.Context()))
	must(t, read())
	w.plane.Etcd.Kill()
	must(t, w.plane.Etcd.Start(t.Context()))
	eventually(t, read)

	pids := []int{w.plane.Etcd.PID(), w.plane.APIServer.PID(), w.plane.Controllers.PID()}
	must(t, w.plane.Stop())
	nothingLeft(t, w.plane, pids)
}

// nothingLeft wants neither processes, nor files, nor listeners of a stopped
// control plane.
func nothingLeft(t *testing.T, plane *cluster.ControlPlane, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
	if _, err := os.Stat(filepath.Dir(plane.Kubeconfig())); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	address := strings.TrimPrefix(plane.Config().Host, "https://")
	if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		conn.Close()
		t.Errorf("somebody still listens on %s", address)
	}
}
