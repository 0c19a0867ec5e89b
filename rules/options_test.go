package rules

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

func TestExpr(t *testing.T) {
	const text = `sum by (name) (rate(calls{code="200"}[5m] offset 1h)) / on (name) group_left (namespace) max(known{cluster!=""}) and on () ALERTS`
	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{
			"unchanged",
			Options{},
			`sum by (cluster, name) (rate(calls{code="200"}[5m] offset 1h)) / on (cluster, name) group_left (namespace) max by (cluster) (known{cluster!=""}) and on (cluster) ALERTS`,
		},
		{
			"cluster label",
			Options{ClusterLabel: "fleet"},
			`sum by (fleet, name) (rate(calls{code="200"}[5m] offset 1h)) / on (fleet, name) group_left (namespace) max by (fleet) (known{fleet!=""}) and on (fleet) ALERTS`,
		},
		{
			"selector",
			Options{Selector: `env!="test"`},
			`sum by (cluster, name) (rate(calls{code="200",env!="test"}[5m] offset 1h)) / on (cluster, name) group_left (namespace) max by (cluster) (known{cluster!="",env!="test"}) and on (cluster) ALERTS`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := must.Get(test.options.expr(text))(t)
			if got = strings.Join(strings.Fields(got), " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestRefusedOptions holds that an error names the flag, what it must be, and what
// is wrong: the label, the selector or the alert.
func TestRefusedOptions(t *testing.T) {
	for want, o := range map[string]Options{
		`--cluster-label: must be a label name, as cluster is, not "a-b"`:                                         {ClusterLabel: "a-b"},
		`--selector: must be label matchers, as cluster="one", not "prod"`:                                        {Selector: "prod"},
		`--severities: must be one of default, enhancement, not "mine"`:                                           {Severities: "mine"},
		`--runbook-base-url: must be a URL with scheme and host, as https://example.com/runbooks, not "://x"`:     {RunbookBaseURL: "://x"},
		`--runbook-base-url: must be a URL with scheme and host, as https://example.com/runbooks, not "runbooks"`: {RunbookBaseURL: "runbooks"},
		`--page-url: must be a URL with scheme and host, as https://auditor.example.com, not "auditor.example"`:   {PageURL: "auditor.example"},
		`--labels: a b=c: must be a label, as release=prometheus`:                                                 {ObjectLabels: map[string]string{"a b": "c"}},
		`--alert-labels: "a-b": must be a label name, as team is`:                                                 {Labels: map[string]string{"a-b": "c"}},
		`--alert-labels: "severity": must be a name that the alerts do not have already`:                          {Labels: map[string]string{"severity": "page"}},
		`--signals: must be one of apiserver, auditor, not "prometheus"`:                                          {Signals: "prometheus"},
		`--disable: "WebhookNone": must be the name of an alert`:                                                  {Disabled: []string{"WebhookNone"}},
		`--disable: "webhookslow": must be the name of an alert, did you mean WebhookSlow?`:                       {Disabled: []string{"webhookslow"}},
		`--critical: "WebhookOpen": must be the name of an alert`:                                                 {Critical: []string{"WebhookOpen"}},
		`--threshold: "pageshare": must be one of WebhookFailingClosed, `:                                         {Thresholds: map[string]float64{"pageshare": 0.1}},
		`, did you mean pageShare?`: {Thresholds: map[string]float64{"pageshare": 0.1}},
		`--threshold: WebhookAuditorDown has none: must be one of WebhookFailingClosed, `:                     {Thresholds: map[string]float64{"WebhookAuditorDown": 0.1}},
		`--threshold: WebhookSlow=5: must be at least 0.01, the lowest that works, and at most 0.99`:          {Thresholds: map[string]float64{"WebhookSlow": 5}},
		`--threshold: WebhookSlow=NaN: must be at least 0.01, the lowest that works, and at most 0.99`:        {Thresholds: map[string]float64{"WebhookSlow": math.NaN()}},
		`--threshold: WebhookFailingOpen=0.3: must be at least 0.01, the lowest that works, and at most 0.2`:  {Thresholds: map[string]float64{"WebhookFailingOpen": 0.3}},
		`--threshold: WebhookFailingOpen=0.15: must be at least 0.01, the lowest that works, and at most 0.1`: {Thresholds: map[string]float64{"WebhookFailingOpen": 0.15, "pageShare": 0.1}},
		`--threshold: pageShare=0.05: must be at least 0.06, the lowest that works, and at most 0.99`:         {Thresholds: map[string]float64{"pageShare": 0.05}},
		`--threshold: pageShare=0.3: must be at least 0.4, the lowest that works, and at most 0.99`:           {Thresholds: map[string]float64{"pageShare": 0.3, "WebhookFailingClosed": 0.4}},
		`--threshold: pageSlots=90.5: must be at least 1, the lowest that works, and at most 90`:              {Thresholds: map[string]float64{"pageSlots": 90.5}},
		`--threshold: WebhookSlow=0.005: must be at least 0.01, the lowest that works, and at most 0.99`:      {Thresholds: map[string]float64{"WebhookSlow": 0.005}},
	} {
		if _, err := Render(RuleFile, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one that says %q", o, err, want)
		}
	}
	if _, err := Render("html", Options{}); err == nil || !strings.Contains(err.Error(), "prometheusrule") {
		t.Errorf("error %v, want one that lists the forms", err)
	}
}

// TestEachOption: an option changes what is printed, also beside a decision about an alert, or is refused.
func TestEachOption(t *testing.T) {
	one := []string{"WebhookErrorsExplained"}
	options := map[string]func(*Options){
		"--cluster-label":    func(o *Options) { o.ClusterLabel = "site" },
		"--selector":         func(o *Options) { o.Selector = `env="one"` },
		"--severities":       func(o *Options) { o.Severities = EnhancementSeverities },
		"--signals":          func(o *Options) { o.Signals = AuditorSignals },
		"--runbook-base-url": func(o *Options) { o.RunbookBaseURL = "https://example.com" },
		"--page-url":         func(o *Options) { o.PageURL = "https://example.com" },
		"--alert-labels":     func(o *Options) { o.Labels = map[string]string{"team": "one"} },
		"--namespace":        func(o *Options) { o.Namespace = "one" },
		"--labels":           func(o *Options) { o.ObjectLabels = map[string]string{"release": "one"} },
		"--disable":          func(o *Options) { o.Disabled = one },
		"--critical":         func(o *Options) { o.Critical = one },
		"--threshold":        func(o *Options) { o.Thresholds = map[string]float64{"explainedShare": 0.3} },
	}
	for form, write := range map[string]func(Options) ([]byte, error){
		"objects":   func(o Options) ([]byte, error) { return Render(PrometheusRule, o) },
		"a file":    func(o Options) ([]byte, error) { return Render(RuleFile, o) },
		"a table":   func(o Options) ([]byte, error) { return Render(Markdown, o) },
		"a summary": func(o Options) ([]byte, error) { return RenderSummary(RuleFile, o) },
		"a store":   func(o Options) ([]byte, error) { return RenderCentral(RuleFile, o) },
	} {
		printed := func(names ...string) string {
			var o Options
			for _, name := range names {
				options[name](&o)
			}
			out, err := write(o)
			if err != nil {
				return "refused"
			}
			return string(out)
		}
		alone := map[string]string{"": printed()}
		for name := range options {
			if alone[name] = printed(name); alone[name] == alone[""] {
				t.Errorf("%s: %s changes nothing", form, name)
			}
		}
		for _, first := range []string{"--severities", "--signals", "--disable", "--critical"} {
			for _, second := range []string{"--disable", "--critical", "--threshold"} {
				if got := printed(first, second); first != second && got != "refused" && (got == alone[first] || got == alone[second]) {
					t.Errorf("%s: %s or %s changes nothing beside the other", form, first, second)
				}
			}
		}
	}
}

// TestDecisions holds what an installation decides about single alerts.
func TestDecisions(t *testing.T) {
	out, err := Render(RuleFile, Options{
		Disabled:   []string{"WebhookNotInInventory"},
		Critical:   []string{"WebhookFailingOpen"},
		Thresholds: map[string]float64{"WebhookFailingOpen": 0.123},
		Labels:     map[string]string{"team": "platform"},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	_, open, _ := strings.Cut(text, "alert: WebhookFailingOpen")
	if open, _, _ = strings.Cut(open, "- alert:"); !strings.Contains(open, "severity: critical") || strings.Contains(text, "alert: WebhookNotInInventory") || !strings.Contains(text, " 0.123\n") ||
		strings.Count(text, "team: platform") != strings.Count(text, "alert: ") {
		t.Error("want no WebhookNotInInventory, a page more, another threshold and a label more")
	}
}

// TestDecidingNumbers holds that a number is taken for as long as anything that is printed depends on it.
func TestDecidingNumbers(t *testing.T) {
	for name, isTaken := range map[string]bool{"WebhookFailingClosed": true, "WebhookCallsFailing": true, "WebhookFailingOpen": false, "WebhookConversionFailing": false, "WebhookSlow": false} {
		o := Options{Disabled: []string{name}, Thresholds: map[string]float64{name: 0.08}}
		if _, err := Render(RuleFile, o); (err == nil) != isTaken {
			t.Errorf("%+v: error %v", o, err)
		}
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
		"WebhookCallsFailing": true, "WebhookFailingOpen": true, "WebhookAllCallsFailing": true, "WebhookSlow": true,
		"WebhookConversionFailing": true, "WebhookConversionSlow": true, "WebhookResourceLatencyHigh": true,
	})
	expect.Equal(t, want, fmt.Sprint(milder)) // the enhancement makes critical
}
