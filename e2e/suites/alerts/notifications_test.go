package alerts

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/timeline"
)

type sent struct {
	labels map[string]string
	// suppressed says that another alert of the incident explains it.
	suppressed bool
}

// A routing is an incident of which Alertmanager gets all alerts at once, and
// the notifications that it must lead to, by receiver: each the names of its
// alerts.
type routing struct {
	name   string
	alerts []sent
	want   map[string][]string
}

// printedAlerts are the labels of all alerts as the auditor prints them, by the
// alert's name.
type printedAlerts map[string]map[string]string

func printAlerts(t *testing.T, args ...string) printedAlerts {
	t.Helper()
	printed := testenv.Command(t, append([]string{"print", "rules", "--form=prometheus"}, args...)...)
	var read struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Labels map[string]string
			}
		}
	}
	testenv.Must(t, yaml.Unmarshal([]byte(printed.Stdout), &read))
	out := printedAlerts{}
	for _, g := range read.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				out[r.Alert] = r.Labels
			}
		}
	}
	return out
}

// named is an alert of the name, with further labels as name and value.
func (p printedAlerts) named(name string, more ...string) sent {
	set := maps.Clone(p[name])
	if set == nil {
		set = map[string]string{} // it is none of ours
	}
	set["alertname"] = name
	for pair := range slices.Chunk(more, 2) {
		set[pair[0]] = pair[1]
	}
	return sent{labels: set}
}

// about is an alert about a webhook whose backend is in namespace policy.
func (p printedAlerts) about(webhook, alert string) sent {
	return p.named(alert, "type", "validating", "name", webhook, "namespace", "policy")
}

func (s sent) explained() sent { return sent{s.labels, true} }

// routings are the incidents. Each happens in a cluster of its own.
func routings(ours, enhancement printedAlerts) []routing {
	return []routing{
		{
			"refused requests explain the API server's errors",
			[]sent{ours.about("one", "WebhookFailingClosed"), ours.named("WebhookErrorsExplained"), ours.named("KubeAPIErrorBudgetBurn", "severity", "critical").explained()},
			map[string][]string{"page": {"WebhookFailingClosed"}, "none": {"WebhookErrorsExplained"}},
		},
		{
			"errors of the API server beside a webhook that fails",
			[]sent{ours.about("one", "WebhookFailingClosed"), ours.named("KubeAPIErrorBudgetBurn", "severity", "critical")},
			map[string][]string{"page": {"WebhookFailingClosed"}, "default": {"KubeAPIErrorBudgetBurn"}},
		},
		{
			"a CA bundle that expires soon",
			[]sent{ours.about("one", "WebhookCaBundleExpiresSoon"), ours.about("one", "WebhookCaBundleExpiring").explained()},
			map[string][]string{"ticket": {"WebhookCaBundleExpiresSoon"}},
		},
		{
			"a policy whose params are of a kind that is not served",
			[]sent{
				ours.named("WebhookPolicyParamKindMissing", "type", "validatingpolicy", "name", "one"), ours.named("WebhookPolicyConfigErrors", "plugin", "ValidatingAdmissionPolicy").explained(),
				ours.named("WebhookPolicyMutationsFailing", "policy", "two"),
			},
			map[string][]string{"ticket": {"WebhookPolicyMutationsFailing", "WebhookPolicyParamKindMissing"}},
		},
		{
			"a mutating one",
			[]sent{
				ours.named("WebhookPolicyParamKindMissing", "type", "mutatingpolicy", "name", "one"), ours.named("WebhookPolicyConfigErrors", "plugin", "MutatingAdmissionPolicy").explained(),
				ours.named("WebhookPolicyConfigErrors", "plugin", "ValidatingAdmissionPolicy"),
			},
			map[string][]string{"ticket": {"WebhookPolicyConfigErrors", "WebhookPolicyParamKindMissing"}},
		},
		{
			"a policy whose applyConfiguration has no type, and one that another plugin cannot evaluate",
			[]sent{
				ours.named("WebhookPolicyApplyWithoutType", "type", "mutatingpolicy", "name", "one", "severity", "critical"),
				ours.named("WebhookPolicyConfigErrors", "plugin", "MutatingAdmissionPolicy").explained(),
				ours.named("WebhookPolicyMutationsFailing", "policy", "one").explained(),
				ours.named("WebhookPolicyConfigErrors", "plugin", "ValidatingAdmissionPolicy"),
			},
			map[string][]string{"page": {"WebhookPolicyApplyWithoutType"}, "ticket": {"WebhookPolicyConfigErrors"}},
		},
		{
			"the auditor is away, and another target",
			[]sent{
				ours.named("WebhookAuditorDown"), ours.named("TargetDown", "job", "webhook-auditor").explained(), ours.named("TargetDown", "job", "other"),
			},
			map[string][]string{"ticket": {"WebhookAuditorDown"}, "default": {"TargetDown"}},
		},
		{
			"nothing watches",
			[]sent{ours.named("WebhookUnwatched"), ours.named("WebhookAuditorDown")},
			map[string][]string{"page": {"WebhookUnwatched"}, "ticket": {"WebhookAuditorDown"}},
		},
		{
			"the severities of the enhancement: one webhook, one page",
			[]sent{enhancement.about("one", "WebhookFailingClosed"), enhancement.about("one", "WebhookCallsFailing").explained(), enhancement.about("one", "WebhookSlow").explained()},
			map[string][]string{"page": {"WebhookFailingClosed"}},
		},
		{
			"the severities of the enhancement: a warning explains no critical alert",
			[]sent{enhancement.about("one", "WebhookCallsFailing"), enhancement.about("one", "WebhookBackendDownWarning"), enhancement.about("two", "WebhookFailingOpen")},
			map[string][]string{"page": {"WebhookCallsFailing WebhookFailingOpen"}, "ticket": {"WebhookBackendDownWarning"}},
		},
		{
			"a warning, and a finding with which products are shipped",
			[]sent{ours.about("two", "WebhookSlow"), ours.about("four", "WebhookControlPlanePath")},
			map[string][]string{"ticket": {"WebhookSlow"}, "digest": {"WebhookControlPlanePath"}},
		},
		{
			"two auditors that see nothing",
			[]sent{ours.named("WebhookAuditorStale", "namespace", "webhook-auditor", "instance", "a"), ours.named("WebhookAuditorStale", "namespace", "webhook-auditor", "instance", "b")},
			map[string][]string{"ticket": {"WebhookAuditorStale WebhookAuditorStale"}},
		},
		{
			"a file that two API servers cannot read",
			[]sent{ours.named("WebhookManifestsNotReloaded", "plugin", "x", "instance", "a"), ours.named("WebhookManifestsNotReloaded", "plugin", "x", "instance", "b")},
			map[string][]string{"ticket": {"WebhookManifestsNotReloaded WebhookManifestsNotReloaded"}},
		},
		{
			"news for the day",
			[]sent{ours.about("three", "WebhookNotInInventory")},
			map[string][]string{"digest": {"WebhookNotInInventory"}},
		},
		{
			"an alert of others whose name begins alike",
			[]sent{ours.named("WebhookDeliveryFailureHigh", "severity", "critical", "name", "orders")},
			map[string][]string{"default": {"WebhookDeliveryFailureHigh"}},
		},
	}
}

// A span is how long an alert fires.
type span struct {
	labels       map[string]string
	begins, ends time.Duration
}

// sendings are what Prometheus sends of alerts, each minute, in the order of the time.
func sendings(all []span) []timeline.Sending {
	var out []timeline.Sending
	for _, one := range all {
		for at := one.begins; at < one.ends; at += timeline.Resend {
			out = append(out, one.sent(at))
		}
		out = append(out, one.sent(one.ends))
	}
	slices.SortStableFunc(out, func(a, b timeline.Sending) int { return int(a.At - b.At) })
	return out
}

func (s span) sent(now time.Duration) timeline.Sending {
	of := func(d time.Duration) time.Time { return timeline.Begin.Add(d) }
	a := &rules.Alert{Labels: labels.FromMap(s.labels), FiredAt: of(s.begins), ValidUntil: of(now + 4*timeline.Resend)}
	if now == s.ends {
		a.ResolvedAt = of(now)
	}
	return timeline.Sending{At: now, Alert: a}
}

// TestNotifications sends alerts through Alertmanager's code with the shipped
// example of routes, and counts who is notified of what.
func TestNotifications(t *testing.T) {
	t.Parallel()
	ours, enhancement := printAlerts(t), printAlerts(t, "--severities=enhancement")
	all := routings(ours, enhancement)
	var fire []span
	for _, r := range all {
		for _, s := range r.alerts {
			of, ends := maps.Clone(s.labels), time.Hour
			if of["cluster"] = r.name; s.suppressed {
				ends -= time.Minute
			}
			fire = append(fire, span{of, 0, ends})
		}
	}
	got := timeline.Notifications(t, sendings(fire))
	for _, r := range all {
		testenv.Must(t, r.notified(got))
	}
}

// notified wants exactly the notifications that the incident must lead to, and the receivers to
// learn that it is over, except those of a digest.
func (r routing) notified(all []timeline.Notification) error {
	have, over := map[string][]string{}, map[string][]string{}
	of := func(all []model.LabelSet) []string {
		var names []string
		for _, a := range all {
			if string(a["cluster"]) == r.name {
				names = append(names, string(a[model.AlertNameLabel]))
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	for _, n := range all {
		if names := of(n.New); len(names) > 0 {
			have[n.Receiver] = append(have[n.Receiver], strings.Join(names, " "))
		}
		over[n.Receiver] = append(over[n.Receiver], of(n.Over)...)
	}
	for _, names := range have {
		slices.Sort(names)
	}
	if fmt.Sprint(have) != fmt.Sprint(r.want) {
		return fmt.Errorf("%s: notifications are %q, want %q", r.name, have, r.want)
	}
	for receiver, notifications := range r.want {
		want := slices.Sorted(strings.FieldsSeq(strings.Join(notifications, " ")))
		if receiver == "digest" {
			want = nil
		}
		if slices.Sort(over[receiver]); !slices.Equal(over[receiver], want) {
			return fmt.Errorf("%s: over are %q of %s, want %q", r.name, over[receiver], receiver, want)
		}
	}
	return nil
}

// TestOutages: an outage pages once and opens no ticket beside, whichever alerts fire in
// it and however long; what is notified again while it lasts is the same group.
func TestOutages(t *testing.T) {
	t.Parallel()
	text := testenv.Get(os.ReadFile("../../../rules/testdata/outages.json"))(t)
	var outages map[string][]struct {
		Labels   map[string]string
		From, To metav1.Duration
	}
	testenv.Must(t, json.Unmarshal(text, &outages))
	if len(outages) < 6 {
		t.Fatalf("%d outages", len(outages))
	}
	for name, notices := range outages {
		t.Run(name, func(t *testing.T) {
			var fire []span
			for _, n := range notices {
				fire = append(fire, span{n.Labels, n.From.Duration, n.To.Duration})
			}
			sent := timeline.Notifications(t, sendings(fire))
			opened := map[string]int{} // by receiver, how often a group of alerts began to fire that did not
			for _, n := range sent {
				if n.Begins {
					opened[n.Receiver]++
				}
			}
			if len(opened) != 1 || opened["page"] != 1 {
				t.Errorf("opened %v by %v", opened, sent)
			}
		})
	}
}

// An occurrence is what fires from a minute until another, and who receives it.
type occurrence struct {
	fires        []sent
	begins, ends time.Duration
	receivers    string
}

// occurrences are seven, and some that are over soon: of these, some join others, and one ends as a page begins.
func occurrences(ours printedAlerts) []occurrence {
	at := func(alert, name, namespace string) sent {
		return ours.named(alert, "type", "validating", "name", name, "namespace", namespace)
	}
	var dead []sent
	for _, name := range []string{"one", "two", "three"} {
		dead = append(dead, ours.about(name, "WebhookBackendDown"), ours.about(name, "WebhookFailingClosed").explained(), ours.about(name, "WebhookCallsFailing").explained())
	}
	hour := time.Hour
	return []occurrence{
		{dead, 0, hour, "page"},
		{[]sent{at("WebhookCriticalResourceSlow", "slow", "other")}, 0, hour, "page"},
		{[]sent{at("WebhookFailingOpen", "open", "third")}, 0, hour, "ticket"},
		{[]sent{at("WebhookCallsFailing", "odd", "fourth")}, 0, hour, "ticket"},
		{[]sent{ours.named("WebhookConversionBackendDown", "type", "conversion", "name", "crd", "namespace", "fifth")}, 0, hour, "ticket"},
		{[]sent{ours.named("WebhookPolicyConfigErrors", "plugin", "ValidatingAdmissionPolicy")}, 0, hour, "ticket"},
		{[]sent{ours.named("WebhookAuditorDown")}, 8 * time.Minute, 19 * time.Minute, "ticket"},
		{[]sent{at("WebhookSlow", "joins", "fourth")}, 8 * time.Minute, 19 * time.Minute, "ticket"},
		{[]sent{at("WebhookCallsFailing", "brief", "fourth")}, 23 * time.Minute, 26*time.Minute + 30*time.Second, "ticket"},
		{[]sent{at("WebhookFailingClosed", "short", "other")}, 23 * time.Minute, 26*time.Minute + 30*time.Second, "page"},
		{[]sent{at("WebhookFailingOpen", "hangs", "sixth")}, 10 * time.Minute, 16 * time.Minute, "ticket"},
		{[]sent{at("WebhookCriticalResourceSlow", "hangs", "sixth")}, 13 * time.Minute, hour, "page"},
		{[]sent{ours.named("WebhookUnwatched")}, 16 * time.Minute, 22 * time.Minute, "page"},
		{[]sent{at("WebhookOnVirtualResource", "installed", "seventh")}, 0, 10 * hour, "ticket"}, // until the night
		{[]sent{at("WebhookOrphanedConfiguration", "orphan", "fourth")}, 5 * time.Minute, 8*time.Minute + 30*time.Second, "ticket"},
		{[]sent{ours.named("WebhookInputMetricsMissing", "series", "x")}, 5 * time.Minute, 9 * time.Minute, "ticket"},
		{[]sent{ours.named("WebhookResourceLatencyHigh", "group", "", "resource", "pods", "verb", "POST", "webhooks", "admission")}, 6 * time.Minute, 10 * time.Minute, "ticket"},
		{[]sent{ours.named("WebhookPolicyFailingOpen", "policy", "one", "policy_binding", "one")}, 20 * time.Minute, 24 * time.Minute, "ticket"},
	}
}

// TestIncidents: at once or in turn, each alert is notified once as firing and once as over. Alerts
// that others explain are not.
func TestIncidents(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]time.Duration{"at once": 0, "in turn": 90 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			all := occurrences(printAlerts(t))
			var fire []span
			for i, one := range all {
				for _, s := range one.fires {
					from, ends := one.begins+time.Duration(i)*apart, one.ends+time.Duration(i)*apart
					if s.suppressed { // what explains it goes on for longer
						from, ends = from+time.Minute, ends-time.Minute
					}
					fire = append(fire, span{s.labels, from, ends})
				}
			}
			began, over := map[string]int{}, map[string]int{}
			for _, n := range timeline.Notifications(t, sendings(fire)) {
				for _, l := range n.New {
					began[n.Receiver+" "+string(l["alertname"])+" "+string(l["name"])]++
				}
				for _, l := range n.Over {
					over[n.Receiver+" "+string(l["alertname"])+" "+string(l["name"])]++
				}
			}
			want := map[string]int{}
			for _, one := range all {
				for _, s := range one.fires {
					if !s.suppressed {
						want[one.receivers+" "+s.labels["alertname"]+" "+s.labels["name"]] = 1
					}
				}
			}
			if !maps.Equal(began, want) || !maps.Equal(over, want) {
				t.Errorf("began %v, over %v, want %v of both", began, over, want)
			}
		})
	}
}

// TestExpiringCertificate: a CA bundle that expires in 30 days is a ticket each week, and each day in the last week.
func TestExpiringCertificate(t *testing.T) {
	t.Parallel()
	ours, day := printAlerts(t), 24*time.Hour
	var days []int
	for _, n := range timeline.Notifications(t, sendings([]span{
		{ours.about("one", "WebhookCaBundleExpiring").labels, 0, 30 * day}, {ours.about("one", "WebhookCaBundleExpiresSoon").labels, 23 * day, 30 * day},
	})) {
		if n.At < 30*day {
			days = append(days, int(n.At/day))
		}
	}
	if want := []int{0, 7, 14, 21, 23, 24, 25, 26, 27, 28, 29}; !slices.Equal(days, want) {
		t.Errorf("tickets on the days %v, want %v", days, want)
	}
}

// TestPagesByOption: an alert that an option makes a page is one, and explains what it explained.
func TestPagesByOption(t *testing.T) {
	t.Parallel()
	ours := printAlerts(t, "--critical=WebhookFailingOpen")
	var fire []span
	for i, name := range []string{"WebhookFailingOpen", "WebhookAllCallsFailing", "WebhookSlow"} {
		fire = append(fire, span{ours.about("one", name).labels, time.Duration(i) * time.Minute, time.Hour - time.Duration(i)*time.Minute})
	}
	var received []string
	for _, n := range timeline.Notifications(t, sendings(fire)) {
		for _, l := range n.New {
			received = append(received, n.Receiver+" "+string(l["alertname"]))
		}
	}
	if want := []string{"page WebhookFailingOpen"}; !slices.Equal(received, want) {
		t.Errorf("received %q, want %q", received, want)
	}
}

// TestTexts: a page says how severe it is, what it is about, and what to do; what is over is
// its webhook, not an alert that others explained, and no title.
func TestTexts(t *testing.T) {
	t.Parallel()
	failing := timeline.Notice{Labels: model.LabelSet{"alertname": "WebhookFailingClosed", "severity": "critical", "name": "one"}, Annotations: model.LabelSet{
		"summary": "Something is wrong.", "description": "start with kubectl", "runbook_url": "https://example.com/WebhookFailingClosed.md",
	}}
	down := timeline.Notice{Labels: model.LabelSet{"alertname": "WebhookBackendDown", "severity": "critical", "namespace": "policy", "name": "two"}, Annotations: model.LabelSet{"summary": "It was down."}, Over: true}
	explained := timeline.Notice{Labels: model.LabelSet{"alertname": "WebhookFailingClosed", "severity": "critical", "namespace": "policy", "name": "two"}, Annotations: model.LabelSet{"summary": "It failed."}, Over: true}
	third := down
	third.Labels = maps.Clone(third.Labels)
	third.Labels["name"] = "three"
	for text, wants := range map[string][]string{
		timeline.PageText(t, down, explained, failing): {"[FIRING 1] Something is wrong.\n", "WebhookFailingClosed (critical), webhook one", "Runbook: https://example.com/WebhookFailingClosed.md", "start with kubectl", "Resolved: webhook two\n"},
		timeline.PageText(t, explained, down):          {"[RESOLVED] webhook two\n", "Resolved: webhook two\n"},
		timeline.PageText(t, down, third):              {"[RESOLVED] WebhookBackendDown in policy\n", "Resolved: webhook two\n", "Resolved: webhook three\n"},
		timeline.PageText(t, explained, third):         {"[RESOLVED] webhooks in policy\n", "Resolved: webhook two\n", "Resolved: webhook three\n"},
	} {
		for _, want := range wants {
			if strings.Count(text, want) != 1 {
				t.Errorf("want %q once:\n%s", want, text)
			}
		}
		if strings.Contains(text, "It failed") || strings.Contains(text, "Resolved: WebhookFailingClosed") {
			t.Errorf("names an alert that was never notified:\n%s", text)
		}
	}
}
