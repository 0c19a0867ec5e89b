package admission

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestUpdates: what a user says of an update is not all that admission meets.
// The answers agree with e2e/suites/explain, which asks a real API server.
func TestUpdates(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/updates.tsv", 6) {
		t.Run(row[1], func(t *testing.T) {
			o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{validating("a", func(w *admissionv1.ValidatingWebhook) {
				w.Rules[0].APIGroups, w.Rules[0].APIVersions, w.Rules[0].Resources = []string{"*"}, []string{"*"}, []string{"*/*"}
				if row[4] != "" {
					w.Rules[0].Operations = nil
					for operation := range strings.SplitSeq(row[4], ", ") {
						w.Rules[0].Operations = append(w.Rules[0].Operations, admissionv1.OperationType(operation))
					}
				}
				must.Succeed(t, yaml.UnmarshalStrict([]byte(row[5]), w))
			})}}
			o.NamespacesKnown = true
			o.Namespaces = []*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}
			s := o.Snapshot(time.Time{})
			var subject Subject
			must.Succeed(t, yaml.UnmarshalStrict([]byte(row[3]), &subject))
			operation, what, _ := strings.Cut(row[2], " ")
			c := New(s).Chain(must.Get(New(s).OpenRequest(Operation(operation), resource(t, what), subject))(t))
			got := No
			if len(c.Steps) > 0 {
				got = c.Steps[0].Match
			}
			if string(got) != row[0] {
				t.Errorf("called %s, want %s; chain %+v, skipped %+v", got, row[0], c.Steps, c.Skipped)
			}
		})
	}
}

// TestAuthorizer: what the authorizer says, or what costs too much to find out, is unknown.
func TestAuthorizer(t *testing.T) {
	const heavy = `range.all(i, range.all(j, range.all(k, i + j + k >= 0))) && request.userInfo.username == "a"`
	for expression, want := range map[string]string{
		`authorizer.group("").resource("pods").check("get").allowed()`:         "asks the authorizer",
		strings.ReplaceAll(heavy, "range", "["+strings.Repeat("1, ", 99)+"1]"): "costs too much",
		`request.userInfo.username == "a"`:                                     "depends on who asks",
	} {
		w := validating("a", func(w *admissionv1.ValidatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: expression}}
		})
		s := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}}.Snapshot(time.Time{})
		r := must.Get(New(s).Request(Create, inventory.Resource{Name: "pods"}, Subject{Name: "x"}))(t)
		c := New(s).Chain(r)
		if len(c.Steps) != 1 || c.Steps[0].Match != Maybe || !strings.Contains(c.Steps[0].Detail, want) {
			t.Errorf("%.60s: %+v, want maybe because it %s", expression, c, want)
		}
	}
}

// TestLabelsOfTheTemplate: a Job without labels takes those of its template, and is given
// more with them.
func TestLabelsOfTheTemplate(t *testing.T) {
	job := map[string]any{"kind": "Job", "spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "a"}}}}}
	for selected, want := range map[string]Match{"app": Yes, "job-name": Maybe, "other": Maybe} {
		for object, match := range map[string]Match{"unknown": Maybe, "known": want} {
			w := validating("a", func(w *admissionv1.ValidatingWebhook) {
				w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"batch"}, []string{"jobs"}
				w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{selected: "a"}}
			})
			subject := Subject{Namespace: "shop", Labels: Unlabeled}
			if object == "known" {
				subject.Object = job
			}
			s := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}}.Snapshot(time.Time{})
			r := must.Get(New(s).Request(Create, resource(t, "jobs.batch"), subject))(t)
			if got := r.Match(s.Webhooks[0]); got.Match != match {
				t.Errorf("selector on %s, object %s: %+v, want %s", selected, object, got, match)
			}
		}
	}
}
