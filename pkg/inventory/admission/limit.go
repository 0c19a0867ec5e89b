package admission

import (
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Limit is a time after which a request is ended, or given up.
type Limit struct {
	After time.Duration
	// Whose completes "the 34 s …".
	Whose string
	// Ends says that the API server then refuses the request, whatever the
	// failurePolicy of the webhooks that it waits for.
	Ends bool
	// Of is the type of the webhooks that it bounds together, "" all of the request.
	Of inventory.Type

	// platform is whose it is, "" that of any Kubernetes.
	platform inventory.Platform
	// resources are what it is about, operations of what; none all.
	resources  []inventory.Resource
	operations []Operation
}

var limits = []Limit{
	{
		// Source: k8s.io/kubernetes/pkg/kubelet (lease of a node) and
		// k8s.io/client-go/tools/leaderelection (renew deadline).
		After: 10 * time.Second, Whose: "in which leaders and nodes must renew their leases",
		resources:  []inventory.Resource{{Group: "coordination.k8s.io", Name: "leases"}, {Name: "nodes", Subresource: "status"}},
		operations: []Operation{Create, Update},
	},
	// Source: SetAdmissionDefaults in
	// openshift-kube-apiserver/openshiftkubeapiserver/patch.go and
	// openshift-kube-apiserver/admission/admissiontimeout of
	// github.com/openshift/kubernetes. Each round of an admission plugin has its own.
	{After: openShiftEnd, Whose: "after which OpenShift ends the mutating webhooks of a request together", Ends: true, Of: inventory.Mutating, platform: inventory.PlatformOpenShift},
	{After: openShiftEnd, Whose: "after which OpenShift ends the validating webhooks of a request together", Ends: true, Of: inventory.Validating, platform: inventory.PlatformOpenShift},
	// Source: kubectl and the control plane's clients set it themselves.
	{After: 30 * time.Second, Whose: "after which most clients give up"},
	// Source: requestTimeoutUpperBound in k8s.io/apiserver/pkg/endpoints/handlers. A
	// CONNECT is not ended, and the deletion of a collection has --request-timeout.
	{After: writeEnd, Whose: "after which the API server ends a write", Ends: true, operations: []Operation{Create, Update}},
	{After: writeEnd, Whose: "after which the API server ends a write (60 s if it deletes a collection)", Ends: true, operations: []Operation{Delete}},
}

const (
	openShiftEnd = 13 * time.Second
	writeEnd     = 34 * time.Second
)

// Limits are those of the operation on the resource where the Snapshot was taken, the
// shortest first.
func (m *Matcher) Limits(op Operation, r inventory.Resource) []Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l Limit) bool {
		return l.platform != "" && l.platform != m.Platform ||
			len(l.resources) > 0 && !slices.Contains(l.resources, r) ||
			len(l.operations) > 0 && !slices.Contains(l.operations, op)
	})
}

func (l Limit) String() string { return fmt.Sprintf("the %s %s", text.Seconds(l.After), l.Whose) }

// Missed reports whether the webhooks may take as long as the limit.
func (l Limit) Missed(b Budget) bool { return l.Bounded(b) >= l.After }

// Bounded is what the limit bounds of the budget.
func (l Limit) Bounded(b Budget) time.Duration {
	switch l.Of {
	case inventory.Mutating:
		return b.Mutating
	case inventory.Validating:
		return b.Validating
	}
	return b.Total()
}

// LongestTimeout is the longest timeout of one webhook of the type at which its own
// failurePolicy still decides, rather than the end of the request.
func (m *Matcher) LongestTimeout(t inventory.Type) time.Duration {
	longest := 30 * time.Second // what the API server accepts
	for _, l := range m.Limits(Create, inventory.Resource{}) {
		if l.Ends && (l.Of == t || l.Of == "") && l.After <= longest {
			longest = l.After - time.Second
		}
	}
	return longest
}

// End is the limit by which the API server ends a request whose webhooks take all of
// the budget, and after how long; false where it waits for all of them.
func End(limits []Limit, b Budget) (limit Limit, after time.Duration, ended bool) {
	for _, l := range limits {
		end := l.After
		if l.Of == inventory.Validating {
			end += b.Mutating + b.Reinvocable
		}
		if l.Ends && l.Missed(b) && (!ended || end < after) {
			limit, after, ended = l, end, true
		}
	}
	return limit, after, ended
}
