package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// badCalls are a share of the calls that is slow, fails or is refused for some minutes, on one of
// several API servers.
type badCalls struct {
	mode      string
	share     float64
	perSecond float64
	minutes   int
	servers   int
	// registered is for how many minutes the webhook was called before; 0 is for all.
	registered int
}

func (s badCalls) String() string {
	return fmt.Sprintf("%s %g of %g/s for %d min, 1 of %d, registered %d", s.mode, s.share, s.perSecond, s.minutes, s.servers, s.registered)
}

// badSince is in seconds, as all times of counters.
const badSince = hour + 7

// badSeries are what an API server counts: all calls, good ones or bad ones.
var badSeries = map[string]map[string]string{
	"slow":             latencies("good", "all"),
	"hanging":          latencies("good", "good"),
	"failing":          {promql.Requests + `{HOOK,code="200",rejected="false"}`: "good", promql.Requests + `{HOOK,code="503",rejected="true"}`: "bad", promql.Rejections + `{HOOK,error_type="calling_webhook_error",rejection_code="503"}`: "bad"},
	"refusing":         {promql.Requests + `{HOOK,code="200",rejected="false"}`: "good", promql.Requests + `{HOOK,code="403",rejected="true"}`: "bad", promql.Rejections + `{HOOK,error_type="no_error",rejection_code="403"}`: "bad"},
	"failing open":     {promql.Requests + `{HOOK,code="200",rejected="false"}`: "good", promql.Requests + `{HOOK,code="503",rejected="false"}`: "bad", `apiserver_admission_webhook_fail_open_count{HOOK}`: "bad"},
	"conversions fail": {promql.ConversionSeconds + `_count{CRD,succeeded="true"}`: "good", promql.ConversionSeconds + `_count{CRD,succeeded="false"}`: "bad"},
	"conversions slow": {
		promql.ConversionSeconds + `_bucket{CRD,succeeded="true",le="0.512"}`: "good", promql.ConversionSeconds + `_bucket{CRD,succeeded="true",le="1.024"}`: "good",
		promql.ConversionSeconds + `_bucket{CRD,succeeded="true",le="2.048"}`: "all", promql.ConversionSeconds + `_bucket{CRD,succeeded="true",le="+Inf"}`: "all",
		promql.ConversionSeconds + `_count{CRD,succeeded="true"}`: "all",
	},
}

func latencies(oneSecond, quarter string) map[string]string {
	const hook = promql.WebhookSeconds + `_bucket{HOOK,rejected="false",le="`
	return map[string]string{
		hook + `0.5"}`: oneSecond, hook + `1"}`: oneSecond, hook + `2.5"}`: quarter, hook + `+Inf"}`: "all",
		promql.WebhookSeconds + `_count{HOOK,rejected="false"}`: "all", promql.Requests + `{HOOK,code="200",rejected="false"}`: "all",
	}
}

// lines are their series until the end, one value each scrape.
func (s badCalls) lines(scrape, end int) []string {
	random := rand.New(rand.NewPCG(7, uint64(len(s.String())*s.minutes)))
	begin, kind := 0, "validating"
	if s.registered > 0 {
		begin = badSince - 60*s.registered
	}
	var out []string
	for server := range s.servers {
		all, bad := make([]int, end+1), make([]int, end+1)
		for second := 1; second <= end; second++ {
			all[second], bad[second] = all[second-1], bad[second-1]
			for range 4 {
				if second < begin || random.Float64() >= s.perSecond/4 {
					continue
				}
				all[second]++
				if server == 0 && second > badSince && second <= badSince+60*s.minutes && random.Float64() < s.share {
					bad[second]++
				}
			}
		}
		counted := map[string]func(int) int{
			"all": func(minute int) int { return all[minute] }, "bad": func(minute int) int { return bad[minute] }, "good": func(minute int) int { return all[minute] - bad[minute] },
		}
		labels := strings.NewReplacer(
			"HOOK", fmt.Sprintf(`instance="s%d",name="w",type="validating",operation="CREATE"`, server),
			"CRD", fmt.Sprintf(`instance="s%d",crd_name="w",from_version="v1",to_version="v2"`, server),
		)
		for name, which := range badSeries[s.mode] {
			out = append(out, labels.Replace(name)+" "+counter(scrape, end, counted[which]))
		}
		out = append(out, fmt.Sprintf(`%s{instance="s%d"} 1+1x%d`, scraped, server, end/scrape))
	}
	if strings.HasPrefix(s.mode, "conversions") {
		kind = "conversion"
	} else {
		out = append(out, fmt.Sprintf(`webhook_auditor_webhook_reach{instance="x",pod="x",name="w",type="validating",configuration="c",class="critical",group="",resource="pods"} 1x%d`, end/scrape))
	}
	return append(
		out,
		fmt.Sprintf(`webhook_auditor_webhook_latency_threshold_seconds{instance="x",pod="x",name="w",type=%q,service_namespace="policy"} 0.5x%d`, kind, end/scrape),
		fmt.Sprintf(`webhook_auditor_snapshot_timestamp_seconds{instance="x",pod="x"} 0+%dx%d`, scrape, end/scrape),
	)
}

// allBadCalls are of each mode, weak and strong, and of all lengths around those that alerts wait for.
func allBadCalls() []badCalls {
	var out []badCalls
	for _, s := range []badCalls{
		{mode: "slow", share: 0.1, perSecond: 4},
		{mode: "slow", share: 0.03, perSecond: 2},
		{mode: "slow", share: 1, perSecond: 0.3},
		{mode: "hanging", share: 0.3, perSecond: 1},
		{mode: "hanging", share: 1, perSecond: 1},
		{mode: "failing", share: 0.1, perSecond: 2},
		{mode: "failing", share: 0.3, perSecond: 2},
		{mode: "failing", share: 1, perSecond: 0.1},
		{mode: "failing", share: 1, perSecond: 3, registered: 3},
		{mode: "failing", share: 0.15, perSecond: 2, registered: 10},
		{mode: "failing open", share: 0.5, perSecond: 2},
		{mode: "refusing", share: 0.5, perSecond: 4},
		{mode: "conversions fail", share: 0.4, perSecond: 1},
		{mode: "conversions fail", share: 1, perSecond: 0.2},
		{mode: "conversions slow", share: 0.1, perSecond: 3},
	} {
		for i, length := range []int{4, 6, 8, 9, 11, 13, 15, 17, 22, 30} {
			s.minutes, s.servers = length, 1+2*(i%3/2)
			out = append(out, s)
		}
	}
	return out
}

// TestNothingBeginsAfterItsCause: no alert on calls begins later than two scrapes after what it is
// about has ended, and each mode begins one where it lasts.
func TestNothingBeginsAfterItsCause(t *testing.T) {
	t.Parallel()
	const end = badSince + 50*60
	for _, scrape := range []int{60, 120} {
		t.Run(fmt.Sprintf("every %d s", scrape), func(t *testing.T) {
			t.Parallel()
			tick, series := time.Duration(scrape)*time.Second, map[string][]string{}
			for _, s := range allBadCalls() {
				series[s.String()] = s.lines(scrape, end)
			}
			const begin = (badSince - hour/3) * time.Second
			fires := evaluateFile(t, fileOf(t, strings.Fields(onCalls())...), tick, inClusters(series)).evaluateSpan(begin, end*time.Second, tick)
			begun := map[string]bool{}
			for _, s := range allBadCalls() {
				first, over := map[string]bool{}, badSince*time.Second+minutes(s.minutes)
				for at := begin; at <= end*time.Second; at += tick {
					for _, a := range fires(s.String(), at) {
						name := a.Labels.Get("alertname")
						if !first[name] && at > over+2*tick {
							t.Errorf("%s: %s begins %s after the end", s, name, at-over)
						}
						first[name], begun[s.mode] = true, true
					}
				}
			}
			for mode := range badSeries {
				if !begun[mode] {
					t.Errorf("no alert begins for %s", mode)
				}
			}
		})
	}
}
