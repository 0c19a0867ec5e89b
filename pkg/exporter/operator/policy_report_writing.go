package operator

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// policyReport is what this replica knows of the policy report since it writes.
type policyReport struct {
	// content is what was last written for the report.
	content map[string]any
	report  *classify.Report
	// unserved is when it was last reported that the API is not served.
	unserved time.Time
	writeSchedule
}

func newPolicyReport() policyReport { return policyReport{writeSchedule: newWriteSchedule()} }

// differs reports whether the findings may not be those that were last written.
func (p *policyReport) differs(r *classify.Report) bool {
	return p.content == nil || !r.SameAs(p.report)
}

// writePolicyReport writes the findings as a policy report, if one is wanted.
func (w *Writer) writePolicyReport(ctx context.Context, r *classify.Report) {
	t, wanted := policyReports[w.options.PolicyReports]
	if !wanted {
		return
	}
	p := &w.policyReport
	if !t.servedBy(r.Snapshot) {
		p.content = nil
		if w.now().Sub(p.unserved) > resyncPeriod {
			p.unserved = w.now()
			w.failures.note(writingPolicyReport, fmt.Errorf("looking for the API of %s %s: the API server does not serve %s %s: install its CustomResourceDefinition, or set --policy-reports=%s",
				t.kind, t.name, t.GroupVersion(), t.Resource, NoPolicyReports))
		}
		return
	}
	p.unserved = time.Time{}
	if p.due(p.differs(r), w.now()) {
		w.failures.note(writingPolicyReport, w.applyPolicyReport(ctx, t, r))
	}
}

// applyPolicyReport writes the policy report unless it is as it was written
// before. An API that went away is no failure: the next Snapshot shows that.
func (w *Writer) applyPolicyReport(ctx context.Context, t target, r *classify.Report) error {
	p := &w.policyReport
	content := map[string]any{"results": results(r), "summary": summary(r)}
	maps.Copy(content, t.content)
	if reflect.DeepEqual(p.content, content) && !p.old(w.now()) {
		p.report = r
		return nil
	}
	object := t.object(content)
	object.SetLabels(map[string]string{managedBy: manager})
	if owners := w.ownersOf(ctx); len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
	_, err := w.dynamic.Resource(t.GroupVersionResource).Apply(ctx, t.name, object, applyOptions)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return fmt.Errorf("writing %s %s: %w", t.kind, t.name, err)
	}
	p.content, p.report, p.at = content, r, w.now()
	return nil
}

// writingPolicyReport is the operation of writing a policy report.
const writingPolicyReport = "policy report"

// managedBy is the label that names what writes an object.
const managedBy = "app.kubernetes.io/managed-by"
