package page

import (
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// serveChanges serves the last of Reports that follow one another.
func serveChanges(t *testing.T, reports ...*classify.Report) http.Handler {
	t.Helper()
	o := options
	o.History = &impact.History{}
	var before *classify.Report
	for _, r := range reports {
		o.History.Observe(before, r)
		before = r
	}
	return NewHandler(func() *classify.Report { return before }, func() time.Time { return reporttest.Taken }, o)
}

// waiting is a cluster with a configuration of that name, whose webhook waits for so many seconds.
func waiting(t *testing.T, name string, seconds int32) *classify.Report {
	t.Helper()
	w := validating("pods."+name, "policy", "pods")
	w.TimeoutSeconds = new(seconds)
	meta := metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm", Time: new(metav1.NewTime(reporttest.Taken.Add(-time.Minute)))}}}
	o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{w}}}}
	return reporttest.Evaluated(t, o.Snapshot(reporttest.Taken))
}

func TestChanges(t *testing.T) {
	none := reporttest.Evaluated(t, inventory.Objects{}.Snapshot(reporttest.Taken))
	at := reporttest.Taken.UTC().Format(time.RFC3339)
	taken := `<time datetime="` + at + `"`
	var many []*classify.Report
	for i := range int32(300) {
		many = append(many, waiting(t, "policy", 5+i%2))
	}
	for _, test := range []struct {
		name        string
		reports     []*classify.Report
		texts, nots []string
	}{
		{"nothing changed", []*classify.Report{none}, []string{"No registration changed since " + taken, `<a href="./changes" aria-current="page">Changes</a>`}, nil},
		{"changed", []*classify.Report{waiting(t, "policy", 5), waiting(t, "policy", 25)}, []string{
			`role="status">The newest 1 of 1`, "<h3>" + reporttest.Taken.UTC().Format("15:04 UTC") + ", 0 s ago: validating webhook configuration policy is changed, last written by helm", `href="./webhooks?q=policy"`,
			"<li>webhook pods.policy: timeoutSeconds 5 → 25</li>",
			"came with it</span>", "long-timeout: webhook pods.policy",
		}, []string{"went with it"}},
		{"deleted", []*classify.Report{waiting(t, "policy", 25), none}, []string{"is deleted", "went with it</span>"}, []string{`href="./webhooks/validating`}},
		{"the newest first", many, []string{"The newest 15 of 200"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := serveChanges(t, test.reports...)
			serves(t, h, http.StatusOK, map[string][]string{"/changes": test.texts})
			_, body, _ := get(t, h, "/changes")
			for _, not := range test.nots {
				if strings.Contains(body, not) {
					t.Errorf("%q in:\n%s", not, body)
				}
			}
		})
	}
}

// TestChangesOfHostileNames: what changes is shown as text, and of bounded size.
func TestChangesOfHostileNames(t *testing.T) {
	none := reporttest.Evaluated(t, inventory.Objects{}.Snapshot(reporttest.Taken))
	for name, r := range map[string]*classify.Report{"hostile": hostile(t), "longest names": longest(t)} {
		_, body, _ := get(t, serveChanges(t, none, r, none), "/changes")
		if strings.Contains(body, "<img") || strings.Contains(body, "<script>alert") || len(body) > maxBytes {
			t.Errorf("%s: an attack is in the page, or it is long: %d bytes", name, len(body))
		}
		if !strings.Contains(body, "is deleted") {
			t.Errorf("%s: nothing is shown", name)
		}
	}
}
