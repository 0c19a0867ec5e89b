//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// settling bounds how long it may take until all says the same.
const settling = 3 * time.Minute

// delay is how long a change may take to show in what claims to be current.
const delay = 5 * time.Second

var severities = []string{"critical", "warning", "info"}

// equalsAudit waits until everything that the auditors serve, and what one of them wrote, is
// what a fresh audit says.
func equalsAudit(t *testing.T, w *testenv.Env, auditors ...*auditor.Auditor) {
	t.Helper()
	begun := time.Now()
	testenv.EventuallyWithin(t, settling, func() error {
		want := audited(t, w.Plane.Kubeconfig())
		errs := []error{written(t.Context(), w, auditors[0], want)}
		for _, a := range auditors {
			errs = append(errs, serves(t.Context(), a, want), shows(t.Context(), a, want))
		}
		return errors.Join(errs...)
	})
	t.Logf("as a fresh audit says after %s", time.Since(begun).Round(time.Millisecond))
}

// audited is what a fresh audit says.
func audited(t *testing.T, kubeconfig string) testenv.Document {
	t.Helper()
	document, _ := testenv.Report(t, "--kubeconfig="+kubeconfig)
	return document
}

// servesOrIsOlder wants the metrics of an auditor to be what an audit reported, or to be older by
// what they say themselves.
func servesOrIsOlder(ctx context.Context, a *auditor.Auditor, want testenv.Document) error {
	differs := serves(ctx, a, want)
	if differs == nil {
		return nil
	}
	m, err := a.Scrape(ctx)
	if err != nil {
		return err
	}
	if at := snapshotTime(m); at.After(want.Taken.Add(delay)) {
		return fmt.Errorf("what claims to be current at %s is not what an audit reported at %s: %w", at, want.Taken, differs)
	}
	return nil
}

// snapshotTime is as of when the metrics claim to be.
func snapshotTime(m metrics.Metrics) time.Time {
	return time.Unix(int64(m.Select(timestamp, nil).Sum()), 0)
}

// serves wants the metrics of an auditor to be what an audit says.
func serves(ctx context.Context, a *auditor.Auditor, want testenv.Document) error {
	m, err := a.Scrape(ctx)
	if err != nil {
		return err
	}
	return agrees(m, want)
}

// agrees wants metrics to be what an audit says.
func agrees(m metrics.Metrics, want testenv.Document) error {
	var webhooks, findings []string
	for _, s := range m.Select(info, nil) {
		webhooks = append(webhooks, labeled(s, "type", "configuration", "name"))
	}
	for _, s := range m.Select(finding, nil) {
		findings = append(findings, labeled(s, "check", "severity", "type", "configuration", "name"))
	}
	totals := map[string]int{}
	for _, severity := range severities {
		totals[severity] = int(m.Select(auditor.Prefix+"findings", metrics.Labels{"severity": severity, "acknowledged": "false"}).Sum())
	}
	return errors.Join(
		sameLists("webhooks", webhooksOf(want), webhooks), sameLists("findings", findingsOf(want), findings),
		same("totals", want.Totals.Findings, totals),
	)
}

func labeled(s metrics.Series, names ...string) string {
	var values []string
	for _, name := range names {
		values = append(values, s.Labels[name])
	}
	return fmt.Sprint(values)
}

// metricType is the type of JSON as metrics have it.
func metricType(name string) string {
	if name == "mutating" {
		return "admit"
	}
	return name
}

func webhooksOf(d testenv.Document) []string {
	var out []string
	for _, w := range d.Webhooks {
		out = append(out, fmt.Sprint([]string{metricType(w.Type), w.Configuration, w.Name}))
	}
	return out
}

func findingsOf(d testenv.Document) []string {
	var out []string
	for _, f := range d.Findings {
		out = append(out, fmt.Sprint([]string{f.Check, f.Severity, metricType(f.Type), f.Configuration, f.Name}))
	}
	return out
}

// sameLists compares what an audit says with what is served, in any order.
func sameLists(what string, want, have []string) error {
	without := func(list, other []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(other, one) })
	}
	if missing, more := without(want, have), without(have, want); len(want) != len(have) || len(missing)+len(more) > 0 {
		return fmt.Errorf("%s: %d of %d are served, without %v, and with %v", what, len(have), len(want), missing, more)
	}
	return nil
}

// same compares what an audit says with what is served.
func same(what string, want, have any) error {
	if fmt.Sprint(want) != fmt.Sprint(have) {
		return fmt.Errorf("%s: an audit says %v, served are %v", what, want, have)
	}
	return nil
}

// What the status page has of findings and webhooks.
var (
	countsOnPage  = regexp.MustCompile(`(?i)findings: (\d+) critical, (\d+) warning, (\d+) info`)
	webhookOnPage = regexp.MustCompile(`<th scope="row"><a href="[^"]*/webhooks/([^"/]+)/([^"/]+)/([^"/]+)"`)
)

// shows wants the status page of an auditor to be what an audit says; its table has a
// hundred webhooks, which is more than a fault leaves.
func shows(ctx context.Context, a *auditor.Auditor, want testenv.Document) error {
	overview, err1 := a.Page(ctx, "/")
	table, err2 := a.Page(ctx, "/webhooks")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	totals := map[string]int{}
	if match := countsOnPage.FindStringSubmatch(overview); match != nil {
		for i, severity := range severities {
			totals[severity], _ = strconv.Atoi(match[i+1]) // digits alone
		}
	}
	var webhooks []string
	for _, match := range webhookOnPage.FindAllStringSubmatch(table, -1) {
		webhooks = append(webhooks, fmt.Sprint(match[1:]))
	}
	return errors.Join(same("totals on the page", want.Totals.Findings, totals), sameLists("webhooks on the page", webhooksOf(want), webhooks))
}

// written wants the status of each target to have the conditions that an auditor
// serves, and WebhookAudit's counts to be what an audit says.
func written(ctx context.Context, w *testenv.Env, a *auditor.Auditor, want testenv.Document) error {
	m, err := a.Scrape(ctx)
	if err != nil {
		return err
	}
	var served []string
	for _, s := range m.Select(auditor.Prefix+"condition", nil) {
		served = append(served, labeled(s, "condition", "status", "reason"))
	}
	for _, target := range testenv.Targets {
		status, object, err := w.Status(ctx, target)
		if err != nil {
			return err
		}
		var conditions []string
		for _, c := range status.Conditions {
			conditions = append(conditions, fmt.Sprint([]string{string(c.Type), string(c.Status), c.Reason}))
		}
		if err := sameLists("conditions of "+target.Name, served, conditions); err != nil {
			return err
		}
		counts, found, err := unstructured.NestedMap(object.Object, "status", "findings")
		if err != nil || !found {
			continue // a ClusterOperator has none
		}
		webhooks, _, _ := unstructured.NestedInt64(object.Object, "status", "webhooks")
		totals := map[string]int{}
		for _, severity := range severities {
			n, _ := counts[severity].(int64)
			totals[severity] = int(n)
		}
		if err := errors.Join(same("written totals", want.Totals.Findings, totals), same("written webhooks", len(want.Webhooks), int(webhooks))); err != nil {
			return err
		}
	}
	return nil
}
