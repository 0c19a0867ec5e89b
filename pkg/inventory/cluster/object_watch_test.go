package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// listening returns a watch of Services that has read a list, and its events from
// then on.
func listening(t *testing.T) (*objectWatch, func() []event) {
	t.Helper()
	var events []event
	r := resource{GroupResource: corev1.Resource("services"), example: &corev1.Service{}, strip: stripService}
	o := newObjectWatch(r, Options{}.timing(), &reads{}, func(_ *objectWatch, e event) { events = append(events, e) })
	o.Replace([]any{service("policy", "a"), service("policy", "b")}, "1")
	events = nil
	return o, func() []event {
		defer func() { events = nil }()
		return events
	}
}

func TestObjectWatchReportsWhatASnapshotShows(t *testing.T) {
	touched := service("policy", "a")
	touched.ResourceVersion = "2"
	touched.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	touched.Status.Conditions = []metav1.Condition{{Type: "Whatever"}}
	moved := service("policy", "a")
	moved.Spec.ClusterIP = "127.10.0.9"
	list := func(objects ...any) func(*objectWatch) error {
		return func(o *objectWatch) error { return o.Replace(objects, "2") }
	}
	for _, tt := range []struct {
		name    string
		happen  func(*objectWatch) error
		reports bool
		left    string
	}{
		{"a new one", func(o *objectWatch) error { return o.Add(service("policy", "c")) }, true, "a b c"},
		{"the same again", func(o *objectWatch) error { return o.Add(service("policy", "a")) }, false, "a b"},
		{"a change that is stripped", func(o *objectWatch) error { return o.Update(touched) }, false, "a b"},
		{"a change", func(o *objectWatch) error { return o.Update(moved) }, true, "a b"},
		{"a deletion", func(o *objectWatch) error { return o.Delete(service("policy", "a")) }, true, "b"},
		{"a deletion of nothing", func(o *objectWatch) error { return o.Delete(service("other", "a")) }, false, "a b"},
		{"the same list", list(service("policy", "b"), touched), false, "a b"},
		{"a changed list", list(service("policy", "b"), moved), true, "a b"},
		{"a shorter list", list(service("policy", "b")), true, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, events := listening(t)
			must.Succeed(t, tt.happen(o))
			if got := slices.Contains(events(), objectsChanged); got != tt.reports {
				t.Errorf("it reports a change: %v", got)
			}
			var names []string
			for _, obj := range o.contents(time.Now()).objects {
				names = append(names, obj.(*corev1.Service).Name)
			}
			if left := strings.Join(names, " "); left != tt.left {
				t.Errorf("left are %s, want %s", left, tt.left)
			}
		})
	}
}

func TestObjectWatchSeesThroughAnEmptyStream(t *testing.T) {
	o, events := listening(t)
	o.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewEmptyWatch(), nil }
	if _, err := o.watchForReflector(t.Context(), metav1.ListOptions{}); err != errClosed {
		t.Errorf("got %v, want %v", err, errClosed)
	}
	expect.Equal(t, []event{callFailed, progressChanged}, events())
	r := o.contents(time.Now())
	if r.failure == nil || r.failure.asOf.IsZero() || !r.complete || len(r.objects) != 2 {
		t.Errorf("result is %+v", r)
	}
	if _, err := o.watchForReflector(t.Context(), metav1.ListOptions{}); err != errOutdated {
		t.Errorf("got %v, want %v: what broke may be a restore of etcd", err, errOutdated)
	}
	if got := events(); len(got) > 0 {
		t.Errorf("events are %v of a watch that was not tried", got)
	}
}

var (
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errDenied)
	errDenied    = fmt.Errorf("%s %q cannot list resource %q", "User", "system:serviceaccount:audit:audit", "services")
	errBusy      = apierrors.NewTooManyRequests("", 1)
	errAbsent    = apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "")
)

func minuteTime(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }

func TestProgress(t *testing.T) {
	type step = func(*objectWatch)
	listed := func(minute int) step {
		return func(o *objectWatch) {
			o.move(listBegins, minuteTime(minute))
			o.listed(minuteTime(minute), "1")
		}
	}
	closed := func(minute int) step { return func(o *objectWatch) { o.closed(minuteTime(minute)) } }
	failed := func(err error) step { return func(o *objectWatch) { o.failed(failure{err: err}) } }
	begun := func(o *objectWatch) { o.move(listBegins, minuteTime(0)) }
	resumed := func(o *objectWatch) { o.opened(&stream{}) }
	const now = 9
	for _, tt := range []struct {
		name    string
		steps   []step
		current int
		fails   bool
		want    progress
	}{
		{"new", nil, 0, false, unanswered},
		{"listed", []step{listed(1)}, 1, false, synced},
		{"listed, watching", []step{listed(1), resumed}, now, false, synced},
		{"listing", []step{begun}, 0, false, unanswered},
		{"stream ended", []step{listed(1), resumed, closed(2)}, 2, false, synced},
		{"stream ended twice", []step{listed(1), resumed, closed(2), closed(3)}, 2, false, synced},
		{"reconnected", []step{listed(1), resumed, closed(2), resumed}, now, false, synced},
		{"away", []step{listed(1), resumed, closed(2), failed(errClosed)}, 2, true, synced},
		{"resumed what may lack changes", []step{listed(1), resumed, closed(2), failed(errClosed), resumed}, 2, true, synced},
		{"back", []step{listed(1), resumed, closed(2), failed(errClosed), listed(2), resumed}, now, false, synced},
		{"too busy, then resumed", []step{listed(1), resumed, closed(2), failed(errBusy), resumed}, now, false, synced},
		{"listing again", []step{listed(1), resumed, closed(2), failed(errClosed), begun}, 2, true, synced},
		{"unreachable", []step{failed(errClosed)}, 0, true, failing},
		{"forbidden", []step{failed(errForbidden)}, 0, true, refused},
		{"allowed", []step{failed(errForbidden), listed(1), resumed}, now, false, synced},
		{"may list but not watch", []step{listed(1), failed(errForbidden), listed(2)}, 2, true, synced},
		{"not served", []step{failed(errAbsent)}, now, false, absent},
		{"served after all", []step{failed(errAbsent), listed(1), resumed}, now, false, synced},
		{"absent, then away", []step{failed(errAbsent), failed(errClosed)}, 0, true, failing},
		{"no longer served", []step{listed(1), resumed, closed(2), failed(errAbsent)}, 2, true, synced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &objectWatch{reads: &reads{}, asOf: minuteTime(0)}
			for _, step := range tt.steps {
				step(o)
			}
			got := o.contents(minuteTime(now))
			if !got.current.Equal(minuteTime(tt.current)) {
				t.Errorf("current at %v, want %v", got.current, minuteTime(tt.current))
			}
			if fails := got.failure != nil; fails != tt.fails || o.progress() != tt.want {
				t.Errorf("fails %v, progress %d; want %v, %d", fails, o.progress(), tt.fails, tt.want)
			}
		})
	}
}

// TestObjectWatchOfOwners: of all objects of a cluster those count that belong to a
// Service that some webhook refers to; the others change no Snapshot.
func TestObjectWatchOfOwners(t *testing.T) {
	events := 0
	read := &reads{}
	r := resource{GroupResource: sliceResource, strip: stripSlice, counts: (*reads).callsServiceOf}
	o := newObjectWatch(r, Options{}.timing(), read, func(_ *objectWatch, e event) {
		if e == objectsChanged {
			events++
		}
	})
	shown := func() int { return len(o.contents(time.Now()).objects) }
	o.Add(endpointSlice("policy", "a", true))
	o.Add(endpointSlice("policy", "b", true))
	if events != 0 || shown() != 0 {
		t.Errorf("%d events, %d objects of no webhook", events, shown())
	}
	snapshot := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{validating("one", kubetest.Client("policy", "a"))}}.Snapshot(minuteTime(0))
	isOther := read.follow(snapshot)
	o.readAnew()
	if !isOther || shown() != 1 || read.follow(snapshot) {
		t.Errorf("%d objects, want that of the one Service", shown())
	}
	o.Update(endpointSlice("policy", "b", false))
	o.Delete(endpointSlice("policy", "b"))
	if events != 0 {
		t.Errorf("%d events of a Service that no webhook refers to", events)
	}
	moved := endpointSlice("policy", "b", true)
	moved.Name = "a-1"
	o.Update(moved)
	if events != 1 || shown() != 0 {
		t.Errorf("%d events, %d objects, want one event of the slice that left its Service", events, shown())
	}
	o.Update(endpointSlice("policy", "a", true))
	o.Delete(endpointSlice("policy", "a"))
	if events != 3 || shown() != 0 {
		t.Errorf("%d events, %d objects, want one event for each change", events, shown())
	}
}
