package cluster

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errDenied)
	errDenied    = fmt.Errorf("%s %q cannot list resource %q", "User", "system:serviceaccount:audit:audit", "services")
	errAbsent    = apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "")
)

func at(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }

func TestState(t *testing.T) {
	listed := func(minute int) func(*state) { return func(s *state) { s.listed(at(minute), "1") } }
	closed := func(minute int) func(*state) { return func(s *state) { s.closed(at(minute)) } }
	failed := func(err error) func(*state) { return func(s *state) { s.failed(failure{err: err}) } }
	const now = 9
	for _, tt := range []struct {
		name                       string
		steps                      []func(*state)
		current                    int
		failing, answered, settled bool
	}{
		{"new", nil, 0, false, false, false},
		{"listed", []func(*state){listed(1)}, 1, false, true, true},
		{"listed, watching", []func(*state){listed(1), (*state).resumed}, now, false, true, true},
		{"streaming the list", []func(*state){(*state).begun}, 0, false, false, false},
		{"streamed the list", []func(*state){(*state).begun, listed(1)}, now, false, true, true},
		{"stream ended", []func(*state){(*state).begun, listed(1), closed(2)}, 2, false, true, true},
		{"stream ended twice", []func(*state){(*state).begun, listed(1), closed(2), closed(3)}, 2, false, true, true},
		{"reconnected", []func(*state){(*state).begun, listed(1), closed(2), (*state).resumed}, now, false, true, true},
		{"away", []func(*state){(*state).begun, listed(1), closed(2), failed(errClosed)}, 2, true, true, true},
		{"back", []func(*state){(*state).begun, listed(1), closed(2), failed(errClosed), (*state).resumed}, now, false, true, true},
		{"streaming again", []func(*state){(*state).begun, listed(1), closed(2), failed(errClosed), (*state).begun}, 2, true, true, true},
		{"streamed again", []func(*state){(*state).begun, listed(1), closed(2), failed(errClosed), (*state).begun, listed(3)}, now, false, true, true},
		{"unreachable", []func(*state){failed(errClosed)}, 0, true, true, false},
		{"forbidden", []func(*state){failed(errForbidden)}, 0, true, true, true},
		{"allowed", []func(*state){failed(errForbidden), (*state).begun, listed(1)}, now, false, true, true},
		{"may list but not watch", []func(*state){listed(1), failed(errForbidden), listed(2)}, 2, true, true, true},
		{"not served", []func(*state){failed(errAbsent)}, now, false, true, true},
		{"served after all", []func(*state){failed(errAbsent), (*state).begun, listed(1)}, now, false, true, true},
		{"absent, then away", []func(*state){failed(errAbsent), failed(errClosed)}, 0, true, true, false},
		{"no longer served", []func(*state){(*state).begun, listed(1), closed(2), failed(errAbsent)}, 2, true, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state{asOf: at(0)}
			for _, step := range tt.steps {
				step(&s)
			}
			if got := s.currentAt(at(now)); !got.Equal(at(tt.current)) {
				t.Errorf("current at %v, want %v", got, at(tt.current))
			}
			if failing := s.failure != nil; failing != tt.failing || s.answered() != tt.answered || s.settled() != tt.settled {
				t.Errorf("failing %v, answered %v, settled %v; want %v, %v, %v",
					failing, s.answered(), s.settled(), tt.failing, tt.answered, tt.settled)
			}
		})
	}
}
