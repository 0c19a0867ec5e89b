package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// manager owns all fields that are written.
const manager = "webhook-auditor"

var applyOptions = metav1.ApplyOptions{FieldManager: manager, Force: true}

// target is an object whose status carries the conditions.
type target struct {
	schema.GroupVersionResource
	kind, name string
	// content is what the API requires besides the status.
	content map[string]any
	// status is its status besides the conditions.
	status func(o Options, r *classify.Report) map[string]any
}

// targets are the objects that are written, each where its API exists.
var targets = []target{
	{
		GroupVersionResource: schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "clusteroperators"},
		kind:                 "ClusterOperator",
		name:                 "webhook-auditor",
		content:              map[string]any{"spec": map[string]any{}},
		status:               clusterOperatorStatus,
	},
	{
		GroupVersionResource: schema.GroupVersionResource{Group: "webhook-auditor.io", Version: "v1alpha1", Resource: "webhookaudits"},
		kind:                 "WebhookAudit",
		name:                 "cluster",
		status:               webhookAuditStatus,
	},
}

// versions is the list of versions of a ClusterOperator: "operator" is the one
// that OpenShift asks for.
func versions(version string) []any {
	return []any{map[string]any{"name": "operator", "version": version}}
}

// clusterOperatorStatus names the related objects, which must-gather and the
// insights operator collect: what registers webhooks, and our own namespace with
// the logs in it.
func clusterOperatorStatus(o Options, _ *classify.Report) map[string]any {
	related := []any{
		map[string]any{"group": "webhook-auditor.io", "resource": "webhookaudits", "name": "cluster"},
		map[string]any{"group": "admissionregistration.k8s.io", "resource": "mutatingwebhookconfigurations", "name": ""},
		map[string]any{"group": "admissionregistration.k8s.io", "resource": "validatingwebhookconfigurations", "name": ""},
		map[string]any{"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions", "name": ""},
	}
	if o.Namespace != "" {
		related = append(related, map[string]any{"group": "", "resource": "namespaces", "name": o.Namespace})
	}
	return map[string]any{"versions": versions(o.Version), "relatedObjects": related}
}

func webhookAuditStatus(o Options, r *classify.Report) map[string]any {
	t := r.Totals()
	return map[string]any{
		"versions": versions(o.Version),
		"webhooks": int64(len(r.Profiles)),
		"findings": map[string]any{
			"critical":     int64(t.Critical),
			"warning":      int64(t.Warning),
			"info":         int64(t.Info),
			"acknowledged": int64(t.Acknowledged),
		},
	}
}

type recorded struct {
	conditions []metav1.Condition
	version    string
}

func (t target) servedBy(s *inventory.Snapshot) bool {
	return slices.ContainsFunc(s.Served, func(served inventory.Served) bool {
		return served.Resource == inventory.Resource{Group: t.Group, Name: t.Resource} && served.Version == t.Version
	})
}

// read returns the state of the target: nothing where the object or its API does
// not exist.
func (t target) read(ctx context.Context, client dynamic.Interface) (recorded, error) {
	found, err := client.Resource(t.GroupVersionResource).Get(ctx, t.name, metav1.GetOptions{})
	switch {
	case absent(err):
		return recorded{}, nil
	case err != nil:
		return recorded{}, fmt.Errorf("reading %s %s: %w", t.kind, t.name, err)
	}
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Versions   []struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"versions"`
	}
	raw, _, _ := unstructured.NestedMap(found.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status); err != nil {
		return recorded{}, fmt.Errorf("reading the status of %s %s: %w", t.kind, t.name, err)
	}
	p := recorded{conditions: status.Conditions}
	for _, v := range status.Versions {
		if v.Name == "operator" {
			p.version = v.Version
		}
	}
	return p, nil
}

func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// applyStatus writes the status. The conditions that an older build wrote and this one
// does not know leave with the apply, for they have the same owner.
func (t target) applyStatus(ctx context.Context, client dynamic.Interface, status map[string]any) error {
	_, err := client.Resource(t.GroupVersionResource).ApplyStatus(ctx, t.name, t.object(map[string]any{"status": status}),
		applyOptions)
	if err != nil {
		return fmt.Errorf("writing the status of %s %s: %w", t.kind, t.name, err)
	}
	return nil
}

func (t target) create(ctx context.Context, client dynamic.Interface, owners []metav1.OwnerReference) error {
	object := t.object(t.content)
	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
	if _, err := client.Resource(t.GroupVersionResource).Apply(ctx, t.name, object, applyOptions); err != nil {
		return fmt.Errorf("creating %s %s: %w", t.kind, t.name, err)
	}
	return nil
}

func (t target) object(fields map[string]any) *unstructured.Unstructured {
	content := map[string]any{
		"apiVersion": t.GroupVersion().String(),
		"kind":       t.kind,
		"metadata":   map[string]any{"name": t.name},
	}
	maps.Copy(content, fields)
	return &unstructured.Unstructured{Object: content}
}

func (t target) statusOf(o Options, r *classify.Report) (map[string]any, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Conditions []metav1.Condition `json:"conditions"`
	}{r.Conditions})
	if err != nil {
		return nil, fmt.Errorf("writing the conditions of %s: %w", t.kind, err)
	}
	maps.Copy(status, t.status(o, r))
	return status, nil
}

// The bounds of writes of one object: a burst, for a user who changes things one after
// the other, and then few, for a Service that flaps.
const (
	writeInterval = 10 * time.Second
	writeBurst    = 5
)

// status is what this replica knows of a target since it writes.
type status struct {
	// read is set once the object was read, or may not be.
	read bool
	// conditions and totals are what was last written.
	conditions []metav1.Condition
	totals     classify.Totals
	// writeTime is when it was last written; limiter bounds how often it is.
	writeTime time.Time
	limiter   *rate.Limiter
}

// due reports whether it is written now: it is not what was last written, or was written
// long ago, and its bounds allow it.
func (s *status) due(r *classify.Report, now time.Time) bool {
	differs := !equality.Semantic.DeepEqual(s.conditions, r.Conditions) || s.totals != r.Totals()
	return (differs || now.Sub(s.writeTime) > resyncPeriod) && s.limiter.AllowN(now, 1)
}

// writeStatuses writes the targets that are due, each where its API is served.
func (w *Writer) writeStatuses(ctx context.Context, r *classify.Report) {
	served := w.takeOver(ctx, r)
	if current := w.options.Tracker.Current(w.now()); current != nil {
		r = current // takeOver may have found another history
	}
	for _, t := range served {
		if w.statuses[t.kind].due(r, w.now()) {
			w.note(writing(t), w.writeStatus(ctx, t, r))
		}
	}
}

// takeOver returns the targets to write. Those that this replica begins to
// write are read first, so that it continues the history of the replica before;
// without the permission to read them, it continues its own.
func (w *Writer) takeOver(ctx context.Context, r *classify.Report) []target {
	var out []target
	adopted := false
	for _, t := range targets {
		if !t.servedBy(r.Snapshot) {
			delete(w.statuses, t.kind)
			w.note(reading(t), nil)
			w.note(writing(t), nil)
			continue
		}
		s := w.statuses[t.kind]
		if s == nil {
			s = &status{limiter: rate.NewLimiter(rate.Every(writeInterval), writeBurst)}
			w.statuses[t.kind] = s
		}
		if !s.read {
			if !s.limiter.AllowN(w.now(), 1) {
				continue
			}
			found, err := t.read(ctx, w.dynamic)
			w.note(reading(t), err)
			if err != nil && !refused(err) {
				continue
			}
			if !adopted && len(found.conditions) > 0 {
				w.options.Tracker.adopt(found)
				adopted = true
			}
			s.read = true
		}
		out = append(out, t)
	}
	return out
}

func reading(t target) string { return "reading " + t.kind }
func writing(t target) string { return "status of " + t.kind }

// writeStatus writes a status, and creates the object where it is missing. An API
// that went away is no failure: the next Snapshot shows that.
func (w *Writer) writeStatus(ctx context.Context, t target, r *classify.Report) error {
	content, err := t.statusOf(w.options, r)
	if err != nil {
		return err
	}
	s := w.statuses[t.kind]
	err = t.applyStatus(ctx, w.dynamic, content)
	if apierrors.IsNotFound(err) {
		if err = t.create(ctx, w.dynamic, w.owners(ctx)); err == nil {
			err = t.applyStatus(ctx, w.dynamic, content)
		}
	}
	switch {
	case absent(err):
		return nil
	case err != nil:
		return err
	}
	s.conditions, s.totals, s.writeTime = r.Conditions, r.Totals(), w.now()
	w.options.Tracker.wrote()
	return nil
}
