package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

func TestExpr(t *testing.T) {
	const text = `sum by (name) (rate(calls{code="200"}[5m] offset 1h)) / on (name) group_left (namespace) max(known) and on () up`
	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{"unchanged", Options{}, `sum by (name) (rate(calls{code="200"}[5m] offset 1h)) / on (name) group_left (namespace) max(known) and on () up`},
		{
			"cluster label",
			Options{ClusterLabel: "cluster"},
			`sum by (cluster, name) (rate(calls{code="200"}[5m] offset 1h)) / on (cluster, name) group_left (namespace) max by (cluster) (known) and on (cluster) up`,
		},
		{
			"time scale",
			Options{TimeScale: 0.01},
			`sum by (name) (rate(calls{code="200"}[3s] offset 36s)) / on (name) group_left (namespace) max(known) and on () up`,
		},
		{
			"selector",
			Options{Selector: `env!="test"`},
			`sum by (name) (rate(calls{code="200",env!="test"}[5m] offset 1h)) / on (name) group_left (namespace) max(known{env!="test"}) and on () up{env!="test"}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.options.expr(text)
			if err != nil {
				t.Fatal(err)
			}
			if got = strings.Join(strings.Fields(got), " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestRefusedOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"no label name":      {ClusterLabel: "a-b"},
		"label matchers":     {Selector: "prod"},
		"unknown severities": {Severities: "mine"},
		"above 0":            {TimeScale: -1},
	} {
		if _, err := Render(RuleFile, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one that says %q", o, err, want)
		}
	}
	if _, err := Render("html", Options{}); err == nil || !strings.Contains(err.Error(), "prometheusrule") {
		t.Errorf("error %v, want one that lists the forms", err)
	}
}

// TestClusters has two clusters in one store with webhooks of the same name.
// Only one of them fails, and only the other has an auditor.
func TestClusters(t *testing.T) {
	in := func(cluster string, series []string) []string {
		var out []string
		for _, s := range series {
			out = append(out, strings.Replace(s, "{", `{cluster="`+cluster+`",`, 1))
		}
		return out
	}
	p := play(t, Options{ClusterLabel: "cluster"}, slices.Concat(
		in("east", healthy(240)),
		in("west", slices.Concat(called("0+27x240"), failed("1+3x240"), inputs(240))),
	)...)
	var got []string
	for _, a := range p.until(30 * time.Minute) {
		got = append(got, a.Labels.Get("cluster")+" "+a.Labels.Get("alertname"))
	}
	if !slices.Equal(got, []string{"west WebhookFailingClosed"}) {
		t.Errorf("%q fire, want WebhookFailingClosed of cluster west alone", got)
	}
}

// TestTimeScale lets everything happen sixty times as fast.
func TestTimeScale(t *testing.T) {
	const speed = 60
	series := slices.Concat(called("0+27x240"), failed("1+3x240"), audited(240), inputs(240))
	p := playFile(t, ruleFile(t, Options{TimeScale: 1.0 / speed}), tick/speed, series)
	p.only("WebhookFailingClosed")
	slow := play(t, Options{}, series...)
	slow.only("WebhookFailingClosed")
	const alert = "WebhookFailingClosed"
	if got, want := p.first(alert, time.Hour/speed), slow.first(alert, time.Hour)/speed; got < 0 || got != want {
		t.Errorf("%s fires after %s, want %s", alert, got, want)
	}
}

func TestSeverities(t *testing.T) {
	milder := map[string]bool{}
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			if got := (Options{Severities: EnhancementSeverities}).severity(a); got != a.Severity {
				milder[a.Name] = got == classify.Critical
			}
		}
	}
	want := fmt.Sprint(map[string]bool{
		"WebhookFailingOpen": true, "WebhookAllCallsFailing": true, "WebhookSlow": true,
		"WebhookConversionFailing": true, "WebhookConversionSlow": true, "WebhookResourceLatencyHigh": true,
	})
	if got := fmt.Sprint(milder); got != want {
		t.Errorf("the enhancement makes critical %s, want %s", got, want)
	}
}
