package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
)

func TestSelect(t *testing.T) {
	r := reporttest.Blind(reporttest.Report())
	d := NewDocument(r)
	if diff := cmp.Diff(d, d.Select(r, func(Webhook) bool { return true })); diff != "" {
		t.Errorf("selecting all changes the document:\n%s", diff)
	}
	narrow := d.Select(r, func(w Webhook) bool { return w.Configuration == "policy" })
	if narrow.Totals != (Totals{Webhooks: 2, Findings: FindingTotals{Critical: 1, Warning: 1, Info: 1}}) || len(narrow.Webhooks) != 2 || len(narrow.Findings) != 4 {
		t.Errorf("totals %+v of %d webhooks and %d findings", narrow.Totals, len(narrow.Webhooks), len(narrow.Findings))
	}
	if len(narrow.Errors) != len(d.Errors) {
		t.Errorf("%d errors, want %d", len(narrow.Errors), len(d.Errors))
	}
	if none := d.Select(r, func(Webhook) bool { return false }); none.Webhooks == nil || none.Findings == nil || none.Totals != (Totals{}) {
		t.Errorf("got %+v", none)
	}
}

// TestSelectOfTop: what is not of the Document leaves, whether it was called or not.
func TestSelectOfTop(t *testing.T) {
	r := observedReport(observation())
	top := NewTop(r, "share").Select(NewDocument(r).Select(r, func(w Webhook) bool { return w.Name == "idle" }))
	if len(top.Webhooks) != 0 || len(top.NotCalled) != 1 || top.NotCalled[0].Name != "idle" {
		t.Errorf("called %v, not called %v", top.Webhooks, top.NotCalled)
	}
}
