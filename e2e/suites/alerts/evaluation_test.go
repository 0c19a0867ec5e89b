package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// dense makes a scrape a second as dense in the windows as one every half a
// minute is in those of production.
const dense = 1.0 / 30

// chunk is how many values of a series Prometheus stores together. Reading the
// last of them costs the less, the fewer stand before it.
const chunk = 120

// BenchmarkEvaluation reports how long Prometheus takes for each group of
// alerts with a thousand webhooks that are called, once all windows up to six hours
// are full; their sum, and what they take on average in each interval of
// evaluation. First it reports what Prometheus says of itself, while it scrapes and
// evaluates 30 times as often as in production, then what evaluating alone takes. It
// takes 15 minutes, and the numbers are those of the rules on an idle machine only.
func BenchmarkEvaluation(b *testing.B) {
	const configurations, each = 100, 10
	b.Setenv("GOMAXPROCS", strconv.Itoa(runtime.GOMAXPROCS(0))) // nothing else runs
	w := newEnvironment(b, cluster.Options{})
	s := newScenario(b, w, "many")
	for n := range configurations {
		testenv.Must(b, s.register(b.Context(), s.several(n, each)))
	}
	auditors, stop := w.auditors(b)
	stack := w.watch(b, dense, monitoring.Targets{Auditors: auditors}, "")
	for b.Loop() {
		calling, stop := context.WithCancel(b.Context())
		go s.callEach(calling, configurations)
		for stack.knows(b.Context(), configurations*each) != nil {
			time.Sleep(time.Second)
		}
		stop()
	}
	busy := map[string][]float64{}
	for range chunk {
		for group, took := range stack.ofGroups(b, "prometheus_rule_group_last_duration_seconds") {
			busy[group] = append(busy[group], 1000*took)
		}
		time.Sleep(time.Second)
	}
	intervals := stack.ofGroups(b, "prometheus_rule_group_interval_seconds")
	rules, until := stack.rules(b), time.Now()
	testenv.Must(b, stack.Rest(b.Context()))
	stop()
	report(b, "busy-ms", busy, intervals)
	report(b, "ms", stack.evaluated(b, rules, until), intervals)
}

// report reports the medians of each group, their sum, and what the groups take in
// the shortest interval.
func report(b *testing.B, unit string, durations map[string][]float64, intervals map[string]float64) {
	b.Helper()
	once, perInterval := 0.0, 0.0
	shortest := slices.Min(slices.Collect(maps.Values(intervals)))
	for group, took := range durations {
		median := median(took)
		b.ReportMetric(median, unit+"/"+group)
		once += median
		perInterval += median * shortest / intervals[group]
	}
	b.ReportMetric(once, unit+"/all")
	b.ReportMetric(perInterval, unit+"/interval")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// rules are the expressions of each group.
func (s alerting) rules(b *testing.B) map[string][]string {
	b.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Name  string
				Rules []struct{ Query string }
			}
		}
	}
	testenv.Must(b, monitoring.Get(b.Context(), s.Prometheus+"/api/v1/rules", &answer))
	out := map[string][]string{}
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			out[group.Name] = append(out[group.Name], rule.Query)
		}
	}
	return out
}

// evaluated is how many milliseconds all expressions of a group take, at times
// that have all numbers of values before them in the last chunk: the median of
// three, so that what else the machine does is left out.
func (s alerting) evaluated(b *testing.B, rules map[string][]string, until time.Time) map[string][]float64 {
	b.Helper()
	out := map[string][]float64{}
	for before := range chunk / 10 {
		at := until.Add(-time.Duration(10*before) * time.Second)
		for group, exprs := range rules {
			sum := 0.0
			for _, expr := range exprs {
				sum += median([]float64{s.evaluation(b, expr, at), s.evaluation(b, expr, at), s.evaluation(b, expr, at)})
			}
			out[group] = append(out[group], sum)
		}
	}
	return out
}

// evaluation is how many milliseconds Prometheus says that it took for an
// expression.
func (s alerting) evaluation(b *testing.B, expr string, at time.Time) float64 {
	b.Helper()
	response, err := http.PostForm(s.Prometheus+"/api/v1/query", url.Values{
		"query": {expr}, "time": {strconv.FormatInt(at.Unix(), 10)}, "stats": {"all"},
	})
	testenv.Must(b, err)
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Stats struct {
				Timings struct{ EvalTotalTime float64 }
			}
		}
	}
	testenv.Must(b, json.NewDecoder(response.Body).Decode(&answer))
	if took := answer.Data.Stats.Timings.EvalTotalTime; took > 0 {
		return 1000 * took
	}
	b.Fatalf("Prometheus does not say how long %s takes", expr)
	return 0
}

// ofGroups are the values that Prometheus reports of each group, in seconds.
func (s alerting) ofGroups(b *testing.B, name string) map[string]float64 {
	b.Helper()
	response, err := http.Get(s.Prometheus + "/metrics")
	testenv.Must(b, err)
	defer response.Body.Close()
	scrape, err := metrics.Parse(response.Body)
	testenv.Must(b, err)
	values := map[string]float64{}
	for _, series := range scrape.Select(name, nil) {
		_, group, _ := strings.Cut(series.Labels["rule_group"], ";")
		values[group] = series.Value
	}
	return values
}

// batch is the label of the ConfigMaps that a configuration's webhooks are called for.
const batch = "batch"

// several is a configuration of so many webhooks on ConfigMaps of its own.
func (s scenario) several(number, webhooks int) *admissionv1.ValidatingWebhookConfiguration {
	c := s.configuration(configMaps)
	c.Name = fmt.Sprintf("%s-%d", s.name, number)
	one := c.Webhooks[0]
	one.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{batch: strconv.Itoa(number)}}
	c.Webhooks = nil
	for i := range webhooks {
		one.Name = fmt.Sprintf("w%d.%s.alerts.example.com", i, c.Name)
		c.Webhooks = append(c.Webhooks, one)
	}
	return c
}

// callEach has the webhooks of one configuration after the other called, each every
// 15 seconds. All at once would be slow, and none would be as in a cluster.
func (s scenario) callEach(ctx context.Context, configurations int) {
	for n := 0; ctx.Err() == nil; n = (n + 1) % configurations {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-", Labels: map[string]string{batch: strconv.Itoa(n)}}}
		// The API server counts the result.
		_, _ = s.Kube.CoreV1().ConfigMaps(s.users()).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		select {
		case <-ctx.Done():
		case <-time.After(15 * time.Second / time.Duration(configurations)):
		}
	}
}

// knows wants six hours, as the alerts count, of series about so many webhooks.
func (s alerting) knows(ctx context.Context, webhooks int) error {
	found, err := s.Query(ctx, fmt.Sprintf(`
		count(count_over_time(webhook_auditor_webhook_latency_threshold_seconds[740s]) > 720) >= 2 * %[1]d
		and count(count by (name) (count_over_time(apiserver_admission_webhook_request_total[740s]) > 700)) >= %[1]d`, webhooks))
	if err == nil && len(found) == 0 {
		return errors.New("not all webhooks are known and called")
	}
	return err
}
