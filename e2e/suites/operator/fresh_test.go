package operator

import (
	"fmt"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

const (
	snapshotTimestamp = auditor.Prefix + "snapshot_timestamp_seconds"
	evaluations       = auditor.Prefix + "evaluation_duration_seconds" // a histogram: its count
)

// TestFreshCluster watches a cluster as it comes, without a single webhook: nothing is
// found, nothing is asked for, nothing is computed, nothing is logged.
func TestFreshCluster(t *testing.T) {
	t.Parallel()
	w := testenv.New(t, cluster.Options{})
	d, result := testenv.Report(t, "--kubeconfig="+w.Plane.Kubeconfig())
	if result.Code != 0 || result.Stderr != "" || len(d.Webhooks)+len(d.Findings)+len(d.Errors) != 0 {
		t.Errorf("want an empty report and exit code 0, have %+v", result)
	}
	scraper := w.Scraper(t)
	scraper.Await("no webhook", metrics.Absent(testenv.WebhookInfo, nil))
	scraper.Await("no finding", metrics.Absent(testenv.Finding, nil))

	before, begun := settled(t, scraper, w), time.Now()
	time.Sleep(5 * time.Second) // idle, on purpose
	after := activityOf(t, scraper, w)
	// What nothing changed is published again every minute.
	most := 1 + time.Since(begun).Minutes()
	if n := after.evaluations - before.evaluations; n > most {
		t.Errorf("%v evaluations of nothing new", n)
	}
	// Once a minute, one object of each kind shows the resource version.
	const kinds = 3
	if after.reads-before.reads > kinds*most || after.log != before.log {
		t.Errorf("an idle auditor listed %v times and logged %q", after.reads-before.reads, after.log[len(before.log):])
	}
	if after.errors != 0 {
		t.Errorf("%v watch errors", after.errors)
	}
}

// activity is what an auditor has done so far.
type activity struct {
	evaluations, reads, errors float64
	snapshot                   time.Time
	log                        string
}

func activityOf(t *testing.T, scraper testenv.Scraper, w *testenv.Env) activity {
	t.Helper()
	scrape := testenv.Get(scraper.Scrape(t.Context()))(t)
	return activity{
		evaluations: scrape.Select(evaluations, nil).Sum(),
		reads:       countReads(w.APIServerMetrics(t, "apiserver_request_total")),
		errors:      scrape.Select(auditor.Prefix+"watch_errors_total", nil).Sum(),
		snapshot:    time.UnixMilli(int64(1000 * scrape.Select(snapshotTimestamp, nil).Sum())),
		log:         scraper.Output(),
	}
}

// settled waits until two looks in a row see the same: a fresh control plane
// goes on making things for a while.
func settled(t *testing.T, scraper testenv.Scraper, w *testenv.Env) activity {
	t.Helper()
	last := activityOf(t, scraper, w)
	testenv.Eventually(t, func() error {
		time.Sleep(2 * time.Second)
		before := last
		if last = activityOf(t, scraper, w); last != before {
			return fmt.Errorf("the cluster is not quiet: %+v, then %+v", before, last)
		}
		return nil
	})
	return last
}

// countReads counts the reads of what only the auditor watches and nothing else in
// the control plane reads again.
func countReads(scrape metrics.Metrics) float64 {
	sum := 0.0
	for _, resource := range []string{"customresourcedefinitions", "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "endpointslices"} {
		for _, verb := range []string{"LIST", "GET"} {
			sum += scrape.Select("apiserver_request_total", metrics.Labels{"resource": resource, "verb": verb}).Sum()
		}
	}
	return sum
}
