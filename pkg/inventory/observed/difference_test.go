package observed

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/prometheus/promql"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// scraped10s returns two scrapes, ten seconds apart.
func scraped10s(t *testing.T, before, after string) (*inventory.Observation, []inventory.Error) {
	t.Helper()
	return Difference([]Scrape{scrapedAt(t, noon, before)}, []Scrape{scrapedAt(t, noon.Add(10*time.Second), after)})
}

func scrapedAt(t *testing.T, now time.Time, text string) Scrape {
	t.Helper()
	e := must.Get(parse(strings.NewReader(text)))(t)
	return Scrape{address: "10.0.0.1:6443", scrapeTime: now, exposition: e}
}

func started(now time.Time) string {
	return fmt.Sprintf("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %d\n", now.Unix())
}

// TestRealExposition: what one API server served, taken as all that happened.
func TestRealExposition(t *testing.T) {
	text := must.Get(os.ReadFile("../../../dashboards/testdata/apiserver-metrics.txt"))(t)
	after := scrapedAt(t, noon.Add(10*time.Second), string(text))
	o, errs := Difference([]Scrape{{scrapeTime: noon, exposition: exposition{started: after.started}}}, []Scrape{after})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	got := map[string]string{}
	for series, b := range o.Webhooks {
		got[string(series.Type)+" "+series.Name] = fmt.Sprintf("%g calls, %g a second, %.2f failed %v, %.2f refused, %g open", b.Calls, b.CallsPerSecond, b.FailedShare(), b.Failures, b.RefusedShare(), b.FailedOpen)
	}
	want := map[string]string{
		"validating allow.example.com":       "15 calls, 1.5 a second, 0.00 failed map[], 0.00 refused, 0 open",
		"validating deny.example.com":        "5 calls, 0.5 a second, 0.00 failed map[], 1.00 refused, 0 open",
		"validating fail-closed.example.com": "5 calls, 0.5 a second, 1.00 failed map[calling_webhook_error:5], 0.00 refused, 0 open",
		"validating fail-open.example.com":   "15 calls, 1.5 a second, 1.00 failed map[], 0.00 refused, 15 open",
		"validating error.example.com":       "0 calls, 0 a second, 1.00 failed map[match_condition_error:15], 0.00 refused, 0 open",
		"admit patch.example.com":            "12 calls, 1.2 a second, 0.00 failed map[], 0.00 refused, 0 open",
		"conversion gadgets.example.com":     "5 calls, 0.5 a second, 1.00 failed map[conversion_failed:5], 0.00 refused, 0 open",
		"conversion widgets.example.com":     "19 calls, 1.9 a second, 0.00 failed map[], 0.00 refused, 0 open",
	}
	expect.Equal(t, want, got)
	denying, mutating := o.Policies[inventory.Series{Type: inventory.ValidatingPolicy, Name: "has-team"}], o.Policies[inventory.Series{Type: inventory.MutatingPolicy, Name: "map-p"}]
	if len(o.Policies) != 2 || denying.Refused != 2 || denying.Failed() != 0 || denying.P99.Seconds > 0.001 || mutating.Calls != 18 || mutating.Failed() != 0 {
		t.Errorf("of policies: %+v", o.Policies)
	}
	total := 0.0
	for series, b := range o.Webhooks {
		if series.Type != inventory.Conversion {
			total += o.Share(b)
		}
	}
	if math.Abs(total-1) > 1e-9 {
		t.Errorf("the shares of all admission webhooks add up to %g", total)
	}
}

const oneCall = `# TYPE apiserver_admission_webhook_request_total counter
apiserver_admission_webhook_request_total{code="200",name="a",operation="CREATE",rejected="false",type="validating"} %d
`

func TestDifference(t *testing.T) {
	boot := started(noon.Add(-time.Hour))
	for name, c := range map[string]struct {
		before, after string
		calls, rate   float64
	}{
		"grows":                 {boot + fmt.Sprintf(oneCall, 100), boot + fmt.Sprintf(oneCall, 120), 20, 2},
		"appears":               {boot, boot + fmt.Sprintf(oneCall, 30), 30, 3},
		"stands still":          {boot + fmt.Sprintf(oneCall, 7), boot + fmt.Sprintf(oneCall, 7), 0, 0},
		"disappears":            {boot + fmt.Sprintf(oneCall, 7), boot, 0, 0},
		"restarted 4 s ago":     {boot + fmt.Sprintf(oneCall, 100), started(noon.Add(6*time.Second)) + fmt.Sprintf(oneCall, 8), 8, 2},
		"counter starts anew":   {boot + fmt.Sprintf(oneCall, 100), boot + fmt.Sprintf(oneCall, 10), 10, 1},
		"says not when started": {fmt.Sprintf(oneCall, 100), fmt.Sprintf(oneCall, 110), 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o, errs := scraped10s(t, c.before, c.after)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			b := o.Webhooks[inventory.Series{Type: inventory.Validating, Name: "a"}]
			if b.Calls != c.calls || b.CallsPerSecond != c.rate {
				t.Errorf("%g calls, %g a second, want %g and %g", b.Calls, b.CallsPerSecond, c.calls, c.rate)
			}
			if restarted := strings.HasPrefix(name, "restarted"); o.Servers[0].Restarted != restarted {
				t.Errorf("restarted is %v", o.Servers[0].Restarted)
			}
		})
	}
}

// TestOtherServer: a load balancer chose another API server, whose counters have
// nothing to do with those of the first.
func TestOtherServer(t *testing.T) {
	o, errs := scraped10s(t, started(noon.Add(-time.Hour))+fmt.Sprintf(oneCall, 1), started(noon.Add(-2*time.Hour))+fmt.Sprintf(oneCall, 1000))
	if o != nil || len(errs) != 1 || !strings.Contains(errs[0].Message, "different API servers") {
		t.Errorf("got %v, %v", o, errs)
	}
}

// TestServersAddUp: each API server counts its own calls.
func TestServersAddUp(t *testing.T) {
	boot := started(noon.Add(-time.Hour))
	before := []Scrape{scrapedAt(t, noon, boot), scrapedAt(t, noon, boot+fmt.Sprintf(oneCall, 5))}
	after := []Scrape{
		scrapedAt(t, noon.Add(10*time.Second), boot+fmt.Sprintf(oneCall, 10)),
		scrapedAt(t, noon.Add(5*time.Second), boot+fmt.Sprintf(oneCall, 15)),
	}
	o, errs := Difference(before, after)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if b := o.Webhooks[inventory.Series{Type: inventory.Validating, Name: "a"}]; b.Calls != 20 || b.CallsPerSecond != 3 {
		t.Errorf("%g calls, %g a second, want 20 and 3", b.Calls, b.CallsPerSecond)
	}
}

// TestUnknownKindFails: an error_type that API servers do not have yet is a
// failure, not a refusal.
func TestUnknownKindFails(t *testing.T) {
	rejected := `# TYPE apiserver_admission_webhook_rejection_count counter
apiserver_admission_webhook_rejection_count{error_type="apiserver_internal_error",name="a",operation="CREATE",rejection_code="0",type="validating"} 1
apiserver_admission_webhook_rejection_count{error_type="out_of_quantum",name="a",operation="CREATE",rejection_code="500",type="validating"} 2
apiserver_admission_webhook_rejection_count{error_type="no_error",name="a",operation="CREATE",rejection_code="403",type="validating"} 4
`
	o, _ := scraped10s(t, "process_start_time_seconds 1\n", "process_start_time_seconds 1\n"+fmt.Sprintf(oneCall, 10)+rejected)
	b := o.Webhooks[inventory.Series{Type: inventory.Validating, Name: "a"}]
	want := map[string]float64{"apiserver_internal_error": 1, "out_of_quantum": 2}
	if diff := cmp.Diff(want, b.Failures); diff != "" || b.Refused != 4 || b.FailedShare() != 0.3 {
		t.Errorf("refused %g, failed %g: %s", b.Refused, b.FailedShare(), diff)
	}
}

// TestPolicyChecks: what of a policy's counters is a denial, a failure or neither.
func TestPolicyChecks(t *testing.T) {
	checks := `# TYPE apiserver_validating_admission_policy_check_total counter
apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="a",policy_binding="x"} 10
apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="a",policy_binding="y"} 20
apiserver_validating_admission_policy_check_total{enforcement_action="allow",error_type="out_of_budget",policy="a",policy_binding="x"} 4
apiserver_validating_admission_policy_check_total{enforcement_action="warn",error_type="invalid_error",policy="a",policy_binding="x"} 6
apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="",policy_binding="x"} 6
# TYPE apiserver_mutating_admission_policy_check_total counter
apiserver_mutating_admission_policy_check_total{error_type="no_error",policy="a",policy_binding="x"} 70
apiserver_mutating_admission_policy_check_total{error_type="invalid_error",policy="a",policy_binding="x"} 30
`
	o, _ := scraped10s(t, "process_start_time_seconds 1\n", "process_start_time_seconds 1\n"+checks)
	want := map[inventory.Series]inventory.Behavior{
		{Type: inventory.ValidatingPolicy, Name: "a"}: {Calls: 40, CallsPerSecond: 4, Refused: 30, FailedOpen: 4, Failures: map[string]float64{}},
		{Type: inventory.MutatingPolicy, Name: "a"}:   {Calls: 100, CallsPerSecond: 10, Failures: map[string]float64{"invalid_error": 30}},
	}
	if diff := cmp.Diff(want, o.Policies); diff != "" || len(o.Webhooks) > 0 || o.Seconds > 0 {
		t.Errorf("%s, and webhooks: %v", diff, o.Webhooks)
	}
}

// TestQuantile holds the quantiles to those of Prometheus.
func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	for _, buckets := range []map[float64]float64{
		{0.005: 10, 0.025: 20, 0.1: 90, 1: 100, inf: 100},
		{0.005: 0, 0.025: 0, 0.1: 1, inf: 1},
		{0.005: 0, 0.5: 0, 25: 0, inf: 3},
		{0.005: 5, 0.5: 4, inf: 10},
		{0.005: 0, inf: 0},
		{inf: 5},
		{0.1: 3, 1: 5},
	} {
		for _, q := range []float64{0.5, 0.99} {
			var theirs promql.Buckets
			for edge, count := range buckets {
				theirs = append(theirs, promql.Bucket{UpperBound: edge, Count: count})
			}
			want, _, _, _, _, _ := promql.BucketQuantile(q, theirs)
			got := quantile(q, buckets)
			if got.Known == math.IsNaN(want) || got.Known && !cmp.Equal(got.Seconds, want, cmpopts.EquateApprox(0, 1e-12)) {
				t.Errorf("quantile %g of %v is %+v, want %g", q, buckets, got, want)
			}
		}
	}
	if got := quantile(0.99, map[float64]float64{0.5: 1, 25: 1, inf: 3}); !got.Beyond || got.Seconds != 25 {
		t.Errorf("beyond the last edge: %+v", got)
	}
}

// TestEmptyBuckets: edges that no call came to in the span are edges still.
func TestEmptyBuckets(t *testing.T) {
	const h = `# TYPE apiserver_admission_webhook_admission_duration_seconds histogram
apiserver_admission_webhook_admission_duration_seconds_bucket{name="a",operation="CREATE",rejected="false",type="admit",le="0.5"} 0
apiserver_admission_webhook_admission_duration_seconds_bucket{name="a",operation="CREATE",rejected="false",type="admit",le="1"} 0
apiserver_admission_webhook_admission_duration_seconds_bucket{name="a",operation="CREATE",rejected="false",type="admit",le="2.5"} 4
apiserver_admission_webhook_admission_duration_seconds_bucket{name="a",operation="CREATE",rejected="false",type="admit",le="10"} 4
apiserver_admission_webhook_admission_duration_seconds_bucket{name="a",operation="CREATE",rejected="false",type="admit",le="25"} 5
apiserver_admission_webhook_admission_duration_seconds_bucket{name="a",operation="CREATE",rejected="false",type="admit",le="+Inf"} 5
apiserver_admission_webhook_admission_duration_seconds_sum{name="a",operation="CREATE",rejected="false",type="admit"} 28
apiserver_admission_webhook_admission_duration_seconds_count{name="a",operation="CREATE",rejected="false",type="admit"} 5
`
	calls := strings.ReplaceAll(fmt.Sprintf(oneCall, 4), "validating", "admit")
	o, _ := scraped10s(t, "process_start_time_seconds 1\n", "process_start_time_seconds 1\n"+calls+h)
	b := o.Webhooks[inventory.Series{Type: inventory.Mutating, Name: "a"}]
	if b.P50.Seconds != 1.9375 || b.Seconds != 28 {
		t.Errorf("p50 is %g of %g s, want 1.9375 of 28", b.P50.Seconds, b.Seconds)
	}
	if b.Enough.Seconds != 25 || math.Abs(b.Slow-0.2) > 1e-9 {
		t.Errorf("a timeout of %g s would be enough, and %g take longer than 10 s; want 25 and 0.2", b.Enough.Seconds, b.Slow)
	}
}

// TestTimeouts: what a timeout would have to be for nearly all calls, and how many took
// longer than the default.
func TestTimeouts(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		buckets map[float64]float64
		enough  inventory.Quantile
		slow    float64
	}{
		"fast":             {map[float64]float64{0.5: 10_000, 10: 10_000, inf: 10_000}, inventory.Quantile{Seconds: 0.5, Known: true}, 0},
		"one of ten":       {map[float64]float64{0.5: 9, 10: 9, 25: 10, inf: 10}, inventory.Quantile{Seconds: 25, Known: true}, 0.1},
		"one of thousands": {map[float64]float64{0.5: 9_999, 10: 9_999, 25: 10_000, inf: 10_000}, inventory.Quantile{Seconds: 0.5, Known: true}, 0.0001},
		"beyond all edges": {map[float64]float64{0.5: 1, 10: 1, inf: 2}, inventory.Quantile{Seconds: 10, Known: true, Beyond: true}, 0.5},
		"no edge of 10 s":  {map[float64]float64{2.5: 1, inf: 2}, inventory.Quantile{Seconds: 2.5, Known: true, Beyond: true}, 0},
		"no calls":         {map[float64]float64{0.5: 0, inf: 0}, inventory.Quantile{}, 0},
	} {
		if got, slow := enough(c.buckets), slowShare(c.buckets); got != c.enough || math.Abs(slow-c.slow) > 1e-9 {
			t.Errorf("%s: enough %+v, beyond 10 s %g; want %+v, %g", name, got, slow, c.enough, c.slow)
		}
	}
}

// FuzzParse reads anything as metrics of an API server. To minimize them takes all the
// time there is:
//
//	go test -fuzz=FuzzParse$ -fuzzminimizetime=1x ./pkg/inventory/observed
func FuzzParse(f *testing.F) {
	text := must.Get(os.ReadFile("../../../dashboards/testdata/apiserver-metrics.txt"))(f)
	f.Add(text)
	f.Add([]byte(started(noon) + fmt.Sprintf(oneCall, -1)))
	f.Add([]byte("apiserver_admission_webhook_request_total{name=\"a\",type=\"admit\"} NaN\n"))
	f.Add([]byte("apiserver_admission_webhook_request_total{name=\"a\",type=\"admit\"} +Inf\nprocess_start_time_seconds 1e300\n"))
	f.Add([]byte("<html>\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		target := inventory.MetricsServer{Fetch: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(string(text))), nil
		}}
		after := ScrapeAll(t.Context(), []inventory.MetricsServer{target})
		after[0].scrapeTime = noon.Add(time.Second)
		o, errs := Difference([]Scrape{{scrapeTime: noon, exposition: exposition{started: after[0].started}}}, after)
		if o == nil && len(errs) == 0 {
			t.Fatal("neither an observation nor an error")
		}
		if o == nil {
			return
		}
		for series, b := range o.Webhooks {
			for what, v := range map[string]float64{"calls": b.Calls, "rate": b.CallsPerSecond, "seconds": b.Seconds, "p99": b.P99.Seconds, "failed": b.FailedShare(), "refused": b.RefusedShare(), "share": o.Share(b)} {
				if math.IsNaN(v) || v < 0 && what != "p99" {
					t.Errorf("%v: %s is %g", series, what, v)
				}
			}
		}
	})
}
