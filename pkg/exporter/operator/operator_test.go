package operator

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

// replica is a Writer with its Tracker, on a clock that only the test moves.
type replica struct {
	*Writer
	tracker *Tracker
	clock   *clock
	// failed counts the writes that failed; failing are the outcomes, once "" where
	// nothing fails.
	failed  int
	failing []string
}

const version = "v2"

func newReplica(t *testing.T, a *apiServer, c *clock, identity string) *replica {
	t.Helper()
	r := &replica{clock: c, tracker: NewTracker(TrackerOptions{RollUp: RollUpOn, Inertia: 2 * time.Minute, Version: version})}
	config := &rest.Config{Host: a.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	d := must.Get(dynamic.NewForConfig(config))(t)
	core := must.Get(client.Group(config, nil, corev1.SchemeGroupVersion))(t)
	coordination := must.Get(client.Group(config, nil, coordinationv1.SchemeGroupVersion))(t)
	r.Writer = newWriter(clients{d, core, coordination}, Options{
		Identity: identity, Namespace: namespace, Version: version, Tracker: r.tracker, History: &impact.History{},
		Outcome: func(failed int, failing []error) {
			r.failed += failed
			now := ""
			if err := errors.Join(failing...); err != nil {
				now = err.Error()
			}
			if r.failing = append(r.failing, now); now == "" {
				r.failing = slices.Compact(r.failing)
			}
		},
	}, func() time.Time { return c.now })
	return r
}

// observes hands a Report over, as of now.
func (r *replica) observes(report *classify.Report) {
	r.tracker.Observe(served(report, r.clock.now))
	r.write(context.Background())
}

// served is a Report as of a time, of a cluster that serves both targets.
func served(report *classify.Report, snapshotTime time.Time) *classify.Report {
	moved := takenAt(report, snapshotTime)
	moved.Snapshot.Served = nil
	for _, t := range targets {
		moved.Snapshot.Served = append(moved.Snapshot.Served, inventory.Served{Resource: inventory.Resource{Group: t.Group, Name: t.Resource}, Version: t.Version})
	}
	return moved
}

// passes lets time pass, with the ticks of the lease.
func (r *replica) passes(d time.Duration, others ...*replica) {
	for end := r.clock.now.Add(d); r.clock.now.Before(end); {
		r.clock.pass(leaseInterval)
		for _, each := range append([]*replica{r}, others...) {
			each.elected = false
			each.write(context.Background())
		}
	}
}

func (r *replica) current() []metav1.Condition { return r.tracker.Current(r.clock.now).Conditions }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)} }

// statusesOf writes conditions as "Type=Status Reason since".
func statusesOf(conditions []metav1.Condition) []string {
	var out []string
	for _, c := range conditions {
		out = append(out, c.Type+"="+string(c.Status)+" "+c.Reason+" "+c.LastTransitionTime.UTC().Format(time.RFC3339))
	}
	return out
}

// TestOneHistory: the scrape and both targets say the same, at any time.
func TestOneHistory(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	r := newReplica(t, a, c, "a")
	for i, report := range []*classify.Report{up(), down(), down(), up(), down()} {
		r.observes(report)
		r.passes(time.Duration(i+1) * time.Minute)
		want := statusesOf(r.current())
		for _, path := range []string{clusterOperatorPath, webhookAuditPath} {
			if diff := cmp.Diff(want, statusesOf(a.conditions(t, path))); diff != "" {
				t.Errorf("after report %d: %s: -scrape +written\n%s", i, path, diff)
			}
		}
	}
	if !meta.IsStatusConditionTrue(r.current(), Degraded) {
		t.Errorf("not degraded: %v", statusesOf(r.current()))
	}
}

// TestRestartContinues: what the cluster says was so since before the restart
// is so in the first scrape after it.
func TestRestartContinues(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	r := newReplica(t, a, c, "a")
	r.observes(down())
	r.passes(10 * time.Minute)
	want := statusesOf(r.current())
	for name, unreadable := range map[string][]string{
		"both are readable":              nil,
		"no WebhookAudit is readable":    {"GET " + webhookAuditPath},
		"no ClusterOperator is readable": {"GET " + clusterOperatorPath},
	} {
		t.Run(name, func(t *testing.T) {
			a.refuse = forbid(unreadable...)
			restarted := newReplica(t, a, c, "b")
			restarted.Seed(t.Context())
			restarted.tracker.Observe(served(down(), c.now))
			expect.Equal(t, want, statusesOf(restarted.current())) // before and after the restart
		})
	}
}

// TestSeedAsksForWhatIsServed: without OpenShift's API, a replica that starts asks for no
// object of it.
func TestSeedAsksForWhatIsServed(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	for _, t := range targets {
		if t.kind == "ClusterOperator" {
			delete(a.objects, discoveryPath(t))
		}
	}
	newReplica(t, a, c, "a").Seed(t.Context())
	if a.calls["GET "+clusterOperatorPath] != 0 || a.calls["GET "+webhookAuditPath] != 1 {
		t.Errorf("calls: %v", a.calls)
	}
}

// TestTakeOverContinues: a replica that could read nothing when it started
// continues the history of the cluster before it writes.
func TestTakeOverContinues(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	r := newReplica(t, a, c, "a")
	r.observes(down())
	r.passes(10 * time.Minute)
	want := statusesOf(r.current())
	must.Succeed(t, r.lease.release(t.Context()))
	other := newReplica(t, a, c, "b")
	other.observes(down())
	for name, conditions := range map[string][]metav1.Condition{"scrape": other.current(), "cluster": a.conditions(t, webhookAuditPath)} {
		if diff := cmp.Diff(want, statusesOf(conditions)); diff != "" {
			t.Errorf("%s: -before +after\n%s", name, diff)
		}
	}
}

// TestUnreadableStatus: a replica that may not read what the cluster says
// begins a history of its own, and writes it.
func TestUnreadableStatus(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	a.refuse = forbid("GET "+clusterOperatorPath, "GET "+webhookAuditPath)
	r := newReplica(t, a, c, "a")
	r.Seed(t.Context())
	r.observes(down())
	if meta.IsStatusConditionTrue(r.current(), Degraded) {
		t.Error("degraded at once")
	}
	r.passes(3 * time.Minute)
	if !meta.IsStatusConditionTrue(r.current(), Degraded) || !meta.IsStatusConditionTrue(a.conditions(t, clusterOperatorPath), Degraded) {
		t.Errorf("not degraded: %v, written %v", statusesOf(r.current()), statusesOf(a.conditions(t, clusterOperatorPath)))
	}
	for _, failing := range r.failing {
		if !strings.Contains(failing, "reading ClusterOperator") {
			t.Errorf("reported %q, want that it cannot be read", failing)
		}
	}
}

// TestReplicasAgree: the one that does not write says what the other one does,
// also where it saw the error later, and of an upgrade that only one saw.
func TestReplicasAgree(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	leader, other := newReplica(t, a, c, "a"), newReplica(t, a, c, "b")
	leader.observes(down())
	leader.passes(90 * time.Second)
	other.observes(down())
	leader.passes(30*time.Second+followPeriod, other)
	if leader.leading == other.leading {
		t.Fatalf("leading: %v and %v", leader.leading, other.leading)
	}
	expect.Equal(t, statusesOf(leader.current()), statusesOf(other.current())) // of the leader and of the other
	if !meta.IsStatusConditionTrue(other.current(), Degraded) {
		t.Errorf("not degraded: %v", statusesOf(other.current()))
	}
}

// TestUpgradeIsKnownToBoth: a replica that called the cluster degraded before an
// upgrade goes by the one that writes and did not.
func TestUpgradeIsKnownToBoth(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	leader, other := newReplica(t, a, c, "a"), newReplica(t, a, c, "b")
	upgrading := down()
	upgrading.Snapshot.Upgrading = true
	leader.observes(upgrading)
	other.observes(down())
	leader.passes(3*time.Minute, other)
	if !meta.IsStatusConditionTrue(other.current(), Degraded) || meta.IsStatusConditionTrue(leader.current(), Degraded) {
		t.Fatalf("want only the replica degraded that knows of no upgrade: %v, %v", statusesOf(leader.current()), statusesOf(other.current()))
	}
	other.observes(upgrading)
	leader.passes(followPeriod, other)
	if meta.IsStatusConditionTrue(other.current(), Degraded) {
		t.Errorf("still degraded: %v", statusesOf(other.current()))
	}
}

// TestRolloutIsKnownToBoth: the scrape and the cluster say that another version
// takes over, and that it did.
func TestRolloutIsKnownToBoth(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	a.write(clusterOperatorPath, "v1", metav1.Condition{Type: Degraded, Status: metav1.ConditionFalse, Reason: asExpected, LastTransitionTime: metav1.NewTime(c.now.Add(-time.Hour))})
	r := newReplica(t, a, c, "a")
	r.Seed(t.Context())
	r.tracker.Observe(served(up(), c.now))
	if !meta.IsStatusConditionTrue(r.current(), Progressing) {
		t.Errorf("the scrape does not know of the rollout: %v", statusesOf(r.current()))
	}
	r.observes(up())
	if !meta.IsStatusConditionTrue(a.conditions(t, clusterOperatorPath), Progressing) {
		t.Errorf("the cluster does not know of the rollout: %v", statusesOf(a.conditions(t, clusterOperatorPath)))
	}
	r.passes(leaseInterval)
	for name, conditions := range map[string][]metav1.Condition{"scrape": r.current(), "cluster": a.conditions(t, clusterOperatorPath)} {
		if !meta.IsStatusConditionFalse(conditions, Progressing) {
			t.Errorf("%s: the rollout does not end: %v", name, statusesOf(conditions))
		}
	}
}

// TestOwner: an object that another client deletes is created again, with its owner.
func TestOwner(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	r := newReplica(t, a, c, "a")
	r.observes(up())
	r.passes(leaseInterval)
	for _, when := range []string{"at first", "deleted"} {
		for _, path := range []string{clusterOperatorPath, webhookAuditPath} {
			if a.owners(path) != 1 {
				t.Errorf("%s: %s has %d owners, want the namespace", when, path, a.owners(path))
			}
			delete(a.objects, path)
		}
		r.passes(resyncPeriod + leaseInterval)
	}
}

// TestFailuresAreReported: each attempt counts, and the end of it is reported
// once.
func TestFailuresAreReported(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	status := []string{"PATCH " + clusterOperatorPath + "/status", "PATCH " + webhookAuditPath + "/status"}
	a.refuse = forbid(status...)
	r := newReplica(t, a, c, "a")
	r.observes(down())
	r.passes(5 * time.Minute)
	if n := a.count(status...); r.failed != n || n > 2*(writeBurst+int(5*time.Minute/writeInterval)+1) {
		t.Errorf("%d failures counted of %d attempts", r.failed, n)
	}
	a.refuse = nil
	r.passes(time.Minute)
	ends := 0
	for _, failing := range r.failing {
		if failing == "" {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("reported %d times that nothing fails any more: %q", ends, r.failing)
	}
}

// TestFlappingIsBounded: a Service that comes and goes 138 times a minute costs
// no lease calls of its own, few writes, and the last state is written.
func TestFlappingIsBounded(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	r := newReplica(t, a, c, "a")
	const flaps, minutes = 138, 3
	r.observes(up())
	tick := c.now.Add(leaseInterval)
	reports := []*classify.Report{down(), up()}
	for i := range 2*flaps*minutes + 1 {
		c.pass(time.Minute / (2 * flaps))
		if !c.now.Before(tick) {
			r.elected = false
			r.write(t.Context())
			tick = tick.Add(leaseInterval)
		}
		r.observes(reports[i%2])
	}
	lease := leasesPath + "/" + manager
	calls := a.count("GET "+lease, "PUT "+lease, "POST "+leasesPath)
	if limit := 2 * (int(minutes*time.Minute/leaseInterval) + 2); calls > limit {
		t.Errorf("%d lease calls, want at most %d", calls, limit)
	}
	patches := a.count("PATCH "+clusterOperatorPath+"/status", "PATCH "+webhookAuditPath+"/status")
	// Of each target, five at once and then six a minute.
	if limit := 2 * (5 + 6*minutes + 1); patches > limit {
		t.Errorf("%d status patches, want at most %d", patches, limit)
	}
	posts, refused := a.count("POST "+eventsPath), a.count("conflict "+eventsPath)
	if posts > 2*(minutes+1) || refused > 0 {
		t.Errorf("%d Events posted, %d refused", posts, refused)
	}
	r.passes(2 * writeInterval)
	for _, path := range []string{clusterOperatorPath, webhookAuditPath} {
		if diff := cmp.Diff(statusesOf(r.current()), statusesOf(a.conditions(t, path))); diff != "" {
			t.Errorf("the last state is not written to %s: -want +got\n%s", path, diff)
		}
	}
}

// TestUnservedTarget: where there are no ClusterOperators, nothing fails.
func TestUnservedTarget(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	a.refuse = func(_, path string) (int, string) {
		if strings.HasPrefix(path, "/apis/config.openshift.io") {
			return http.StatusNotFound, "no such API"
		}
		return 0, ""
	}
	r := newReplica(t, a, c, "a")
	r.Seed(t.Context())
	r.observes(down())
	r.passes(time.Minute)
	if r.failed > 0 || len(a.conditions(t, webhookAuditPath)) == 0 {
		t.Errorf("%d failures %q, written %v", r.failed, r.failing, statusesOf(a.conditions(t, webhookAuditPath)))
	}
}

func TestBlocker(t *testing.T) {
	expect.Results(t, func(message string) string { return Blocker(errors.New(message)) }, map[string]string{
		`Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post "https://x.y.svc:443/": dial tcp: no route`: "a.example.com",
		`admission webhook "b.example.com" denied the request: no`:                                                                                 "b.example.com",
		`leases.coordination.k8s.io "x" is forbidden: User "u" cannot update resource`:                                                             "",
	})
	expect.Equal(t, "", Blocker(nil)) // no error, no webhook
}
