package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// listening returns a feed of Services that was read once, and what it tells
// from then on.
func listening(t *testing.T) (*feed, func() []event) {
	t.Helper()
	var told []event
	s := source{GroupResource: corev1.Resource("services"), example: &corev1.Service{}, strip: stripService}
	f := newFeed(s, time.Hour, func(_ *feed, e event) { told = append(told, e) })
	f.Replace([]any{service("policy", "a"), service("policy", "b")}, "1")
	told = nil
	return f, func() []event {
		defer func() { told = nil }()
		return told
	}
}

func TestFeedTellsOfWhatASnapshotShows(t *testing.T) {
	touched := service("policy", "a")
	touched.ResourceVersion = "2"
	touched.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	touched.Status.Conditions = []metav1.Condition{{Type: "Whatever"}}
	moved := service("policy", "a")
	moved.Spec.ClusterIP = "127.10.0.9"
	list := func(objects ...any) func(*feed) error {
		return func(f *feed) error { return f.Replace(objects, "2") }
	}
	for _, tt := range []struct {
		name   string
		happen func(*feed) error
		tells  bool
		left   string
	}{
		{"a new one", func(f *feed) error { return f.Add(service("policy", "c")) }, true, "a b c"},
		{"the same again", func(f *feed) error { return f.Add(service("policy", "a")) }, false, "a b"},
		{"a change that is stripped", func(f *feed) error { return f.Update(touched) }, false, "a b"},
		{"a change", func(f *feed) error { return f.Update(moved) }, true, "a b"},
		{"a deletion", func(f *feed) error { return f.Delete(service("policy", "a")) }, true, "b"},
		{"a deletion of nothing", func(f *feed) error { return f.Delete(service("other", "a")) }, false, "a b"},
		{"the same list", list(service("policy", "b"), touched), false, "a b"},
		{"a changed list", list(service("policy", "b"), moved), true, "a b"},
		{"a shorter list", list(service("policy", "b")), true, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, told := listening(t)
			if err := tt.happen(f); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(told(), objectsChanged); got != tt.tells {
				t.Errorf("it tells of a change: %v", got)
			}
			var names []string
			for _, obj := range f.result().objects {
				names = append(names, obj.(*corev1.Service).Name)
			}
			if left := strings.Join(names, " "); left != tt.left {
				t.Errorf("left are %s, want %s", left, tt.left)
			}
		})
	}
}

func TestFeedSeesThroughAnEmptyStream(t *testing.T) {
	f, told := listening(t)
	f.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewEmptyWatch(), nil }
	if _, err := f.watchFor(t.Context(), metav1.ListOptions{}); err != errClosed {
		t.Errorf("got %v, want %v", err, errClosed)
	}
	if got := told(); !slices.Equal(got, []event{stateChanged, callFailed}) {
		t.Errorf("told %v", got)
	}
	r := f.result()
	if r.failure == nil || r.failure.asOf.IsZero() || !r.known || len(r.objects) != 2 {
		t.Errorf("result is %+v", r)
	}
	if _, err := f.watchFor(t.Context(), metav1.ListOptions{}); err != errOutdated {
		t.Errorf("got %v, want %v: what broke may be a restore of etcd", err, errOutdated)
	}
	if got := told(); len(got) > 0 {
		t.Errorf("told %v of a watch that was not tried", got)
	}
}

func TestFeedForgetsNoNamespace(t *testing.T) {
	f, _ := listening(t)
	f.Add(service("other", "a"))
	var keys []inventory.Key
	for _, obj := range f.result().objects {
		keys = append(keys, keyOf(obj))
	}
	want := []inventory.Key{{Namespace: "other", Name: "a"}, {Namespace: "policy", Name: "a"}, {Namespace: "policy", Name: "b"}}
	if !slices.Equal(keys, want) {
		t.Errorf("got %v, want %v", keys, want)
	}
}
