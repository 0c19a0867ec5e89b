package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const clusterReportPath = "/apis/openreports.io/v1alpha1/clusterreports/webhook-auditor"

// newReportingReplica is a replica that writes a ClusterReport.
func newReportingReplica(t *testing.T, a *apiServer, c *clock, identity string) *replica {
	r := newReplica(t, a, c, identity)
	r.options.PolicyReports = OpenReports
	return r
}

// serving is the Report of a cluster that serves ClusterReports as well.
func serving(report *classify.Report) *classify.Report {
	r := served(report, report.Snapshot.Taken)
	t := policyReports[OpenReports]
	r.Snapshot.Served = append(r.Snapshot.Served, inventory.Served{Resource: inventory.Resource{Group: t.Group, Name: t.Resource}, Version: t.Version})
	return r
}

// finds hands a Report of a cluster that serves ClusterReports over.
func (r *replica) finds(report *classify.Report) {
	moved := serving(report)
	moved.Snapshot.Taken = r.clock.now
	r.tracker.Observe(moved)
	r.write(context.Background())
}

// listed are the results in the cluster as "policy result severity name".
func (a *apiServer) listed(path string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := []string{}
	list, _ := a.objects[path]["results"].([]any)
	for _, one := range list {
		r := one.(map[string]any)
		of := r["resources"].([]any)[0].(map[string]any)
		out = append(out, fmt.Sprintln(r["policy"], r["result"], r["severity"], of["kind"], of["name"], of["uid"]))
	}
	return out
}

// TestPolicyReport: findings appear in the report and go, and an unchanged
// report is not written again before the resync.
func TestPolicyReport(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	r := newReportingReplica(t, a, c, "a")
	writes := "PATCH " + clusterReportPath
	r.finds(down())
	want := []string{"service-missing fail critical ValidatingWebhookConfiguration policy 1234\n"}
	expect.Equal(t, want, a.listed(clusterReportPath))
	for range 10 {
		c.pass(writeInterval)
		r.finds(down())
	}
	if n := a.count(writes); n != 1 {
		t.Errorf("an unchanged report was written %d times", n)
	}
	r.finds(up())
	if got := a.listed(clusterReportPath); len(got) != 0 || a.count(writes) != 2 {
		t.Errorf("after the cure, written %d times: %q", a.count(writes), got)
	}
	a.mu.Lock()
	meta := a.objects[clusterReportPath]["metadata"].(map[string]any)
	a.mu.Unlock()
	if meta["labels"].(map[string]any)[managedBy] != manager || len(meta["ownerReferences"].([]any)) != 1 {
		t.Errorf("it is not owned: %v", meta)
	}
}

// TestOneReplicaWritesThePolicyReport: the replica that does not hold the lease
// writes none.
func TestOneReplicaWritesThePolicyReport(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	leader, other := newReportingReplica(t, a, c, "a"), newReportingReplica(t, a, c, "b")
	leader.finds(up())
	other.finds(down())
	if got := a.listed(clusterReportPath); other.leading || len(got) != 0 {
		t.Errorf("the other replica leads: %t, and wrote %q", other.leading, got)
	}
	must.Succeed(t, leader.lease.release(t.Context()))
	other.passes(leaseInterval)
	if got := a.listed(clusterReportPath); !other.leading || len(got) != 1 {
		t.Errorf("it took over: %t, and wrote %q", other.leading, got)
	}
}

// TestUnservedPolicyReport: a missing CustomResourceDefinition is reported with
// its cure, as rarely as an unchanged status is written, until it is there.
func TestUnservedPolicyReport(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	r := newReportingReplica(t, a, c, "a")
	r.observes(down())
	r.passes(2 * resyncPeriod)
	if r.failed < 2 || r.failed > 3 || !strings.Contains(r.failing[0], "openreports.io/v1alpha1 clusterreports: install") {
		t.Errorf("%d failures, %q", r.failed, r.failing)
	}
	if n := a.count("PATCH " + clusterReportPath); n != 0 {
		t.Errorf("written %d times where it is not served", n)
	}
	r.finds(down())
	if last := r.failing[len(r.failing)-1]; last != "" || len(a.listed(clusterReportPath)) != 1 {
		t.Errorf("served, and reported %q, written %q", last, a.listed(clusterReportPath))
	}
}

// TestRefusedPolicyReport: without the permission, the rest is written and the
// refusal is reported, with bounded attempts.
func TestRefusedPolicyReport(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	a.refuse = forbid("PATCH " + clusterReportPath)
	r := newReportingReplica(t, a, c, "a")
	r.finds(down())
	r.passes(time.Minute)
	if n := a.count("PATCH " + clusterReportPath); n < 2 || n > writeBurst+7 || r.failed != n {
		t.Errorf("%d attempts in a minute, %d failures", n, r.failed)
	}
	if len(a.conditions(t, webhookAuditPath)) == 0 {
		t.Error("the conditions are not written")
	}
}

// TestPolicyReportIsBounded: of more findings than the bounds allow the worst
// are listed, the rest is counted, and etcd takes the object.
func TestPolicyReportIsBounded(t *testing.T) {
	r := *down()
	one := r.Findings[0]
	one.Message, one.Fix = strings.Repeat("é", 4000), strings.Repeat("é", 4000)
	one.Webhook.Name, one.Webhook.Configuration = strings.Repeat("n", 253), strings.Repeat("c", 253)
	r.Findings = slices.Repeat([]*classify.Finding{one}, 2*maxResults)
	list := results(&r)
	written := must.Get(json.Marshal(list))(t)
	if len(list) != maxResults+1 || len(written) > 3<<19 {
		t.Errorf("%d results of %d bytes", len(list), len(written))
	}
	want := fmt.Sprintf("%d more findings, none of them worse, are left out; webhook-auditor audit lists all", maxResults)
	if last := list[len(list)-1].(map[string]any); last["message"] != want {
		t.Errorf("the last result is %v, want %q", last, want)
	}
	if got := summary(&r)["fail"]; got != int64(len(r.Findings)) {
		t.Errorf("the summary counts %v findings of %d", got, len(r.Findings))
	}
}

// TestOutcomes: what a finding is in terms of policy reports.
func TestOutcomes(t *testing.T) {
	for want, f := range map[string]*classify.Finding{
		"fail critical": {Problem: classify.Problem{Severity: classify.Critical}},
		"warn medium":   {Problem: classify.Problem{Severity: classify.Warning}},
		"warn info":     {Problem: classify.Problem{Severity: classify.Info}},
		"skip info":     {Problem: classify.Problem{Severity: classify.Info}, Acknowledged: true},
	} {
		f.Check = classify.Checks[0]
		if got := resultOf(f, ""); fmt.Sprint(got["result"], " ", got["severity"]) != want || got["scored"] != (got["result"] == "fail") {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
}
