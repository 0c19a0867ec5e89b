package admission

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestUpdates: what a user says of an update is not all that admission meets.
// The answers agree with e2e/suites/explain, which asks a real API server.
func TestUpdates(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	notWeb := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web"}}}}
	system := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"}}
	labeled := func(value string) Subject { return Subject{Name: "x", Labels: map[string]string{"app": value}} }
	patched := func(value string) Subject { s := labeled(value); s.Patch = true; return s }
	stored := func(s Subject, value string) Subject {
		s.Stored = map[string]any{"labels": map[string]any{"app": value}}
		return s
	}
	absent := func(s Subject) Subject { s.Absent = true; return s }
	on := func(ops ...admissionv1.OperationType) func(*admissionv1.ValidatingWebhook) {
		return func(w *admissionv1.ValidatingWebhook) { w.Rules[0].Operations = ops }
	}
	with := func(selector *metav1.LabelSelector) func(*admissionv1.ValidatingWebhook) {
		return func(w *admissionv1.ValidatingWebhook) { w.ObjectSelector = selector }
	}
	// refusesUnless has a condition that fails, but for the operation.
	refusesUnless := func(op string) func(*admissionv1.ValidatingWebhook) {
		return func(w *admissionv1.ValidatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: `request.namespace == "a" || request.operation == "` + op + `"`}}
		}
	}
	inSystem := func(w *admissionv1.ValidatingWebhook) { w.NamespaceSelector = system }
	for name, test := range map[string]struct {
		webhook  func(*admissionv1.ValidatingWebhook)
		op       Operation
		resource string
		subject  Subject
		want     Match
	}{
		"the new labels match":                 {with(web), Update, "pods", labeled("web"), Yes},
		"the old labels may match":             {with(web), Update, "pods", labeled("db"), Maybe},
		"so in a patch":                        {with(web), Update, "pods", patched("db"), Maybe},
		"in an update of the status":           {with(web), Update, "pods/status", patched("db"), Maybe},
		"a creation has no old labels":         {with(web), Create, "pods", labeled("db"), No},
		"a deletion has no new labels":         {with(web), Delete, "pods", labeled("db"), No},
		"a Scale carries no labels":            {with(web), Update, "deployments.apps/scale", labeled("web"), No},
		"nor one with unknown labels":          {with(web), Update, "statefulsets.apps/scale", Subject{Patch: true}, No},
		"what asks for none sees a Scale":      {with(notWeb), Update, "deployments.apps/scale", labeled("web"), Yes},
		"a PUT may create a status":            {on(admissionv1.Create), Update, "services/status", labeled("web"), Maybe},
		"and does not always update it":        {on(admissionv1.Update), Update, "services/status", labeled("web"), Maybe},
		"webhooks on both see it":              {on(admissionv1.Create, admissionv1.Update), Update, "services/status", labeled("web"), Yes},
		"a PUT may create a lease":             {on(admissionv1.Create), Update, "leases.coordination.k8s.io", labeled("web"), Maybe},
		"so may a server-side apply":           {on(admissionv1.Create), Update, "leases.coordination.k8s.io", patched("web"), Maybe},
		"of a pod too":                         {on(admissionv1.Create), Update, "pods", patched("web"), Maybe},
		"which does not always update it":      {on(admissionv1.Update), Update, "pods", patched("web"), Maybe},
		"but not of its status":                {on(admissionv1.Create), Update, "pods/status", patched("web"), No},
		"a pod that exists":                    {on(admissionv1.Update), Update, "pods", stored(patched("web"), "web"), Yes},
		"and is not created":                   {on(admissionv1.Create), Update, "pods", stored(patched("web"), "web"), No},
		"a pod that does not exist":            {on(admissionv1.Create), Update, "pods", absent(patched("web")), Yes},
		"a condition fails, but if it creates": {refusesUnless("CREATE"), Update, "volumeattachments.storage.k8s.io", patched("web"), Maybe},
		"or but if it does not":                {refusesUnless("UPDATE"), Update, "volumeattachments.storage.k8s.io", patched("web"), Maybe},
		"a Namespace that exists":              {on(admissionv1.Create), Update, "namespaces", stored(patched("web"), "web"), No},
		"the stored labels match":              {with(web), Update, "pods", stored(labeled("db"), "web"), Yes},
		"the stored labels do not match":       {with(web), Update, "pods", stored(labeled("db"), "db"), No},
		"those of a deleted object":            {with(web), Delete, "pods", stored(Subject{Name: "x"}, "web"), Yes},
		"a status that keeps its labels":       {with(web), Update, "volumeattachments.storage.k8s.io/status", labeled("web"), Maybe},
		"or takes those that are sent":         {with(web), Update, "deployments.apps/status", stored(labeled("web"), "db"), Maybe},
		"which match where both do":            {with(web), Update, "deployments.apps/status", stored(labeled("web"), "web"), Yes},
		"a Job has those of its template":      {with(web), Create, "jobs.batch", Subject{Name: "x", Labels: Unlabeled}, Maybe},
		"a PUT never creates a pod":            {on(admissionv1.Create), Update, "pods", labeled("web"), No},
		"a Namespace by its own name":          {inSystem, Update, "namespaces", Subject{Name: "kube-system", Labels: map[string]string{}}, Yes},
		"whatever labels it had":               {inSystem, Update, "namespaces", Subject{Name: "x", Labels: map[string]string{}}, No},
		"its status":                           {inSystem, Update, "namespaces/status", Subject{Name: "kube-system"}, Yes},
		"its end":                              {inSystem, Delete, "namespaces", Subject{Name: "kube-system"}, Yes},
		"a new one":                            {inSystem, Create, "namespaces", Subject{Name: "x"}, No},
		"one without a name":                   {inSystem, Create, "namespaces", Subject{}, Maybe},
	} {
		t.Run(name, func(t *testing.T) {
			o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{validating("a", func(w *admissionv1.ValidatingWebhook) {
				w.Rules[0].APIGroups, w.Rules[0].APIVersions, w.Rules[0].Resources = []string{"*"}, []string{"*"}, []string{"*/*"}
				test.webhook(w)
			})}}
			o.NamespacesKnown = true
			o.Namespaces = []*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}
			s := o.Snapshot(time.Time{})
			r := must.Get(New(s).OpenRequest(test.op, resource(t, test.resource), test.subject))(t)
			c := New(s).Chain(r)
			got := No
			if len(c.Steps) > 0 {
				got = c.Steps[0].Match
			}
			if got != test.want {
				t.Errorf("called %s, want %s; chain %+v, skipped %+v", got, test.want, c.Steps, c.Skipped)
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
