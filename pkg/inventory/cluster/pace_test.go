package cluster

import (
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	tempo := tempo{settle: time.Minute, repeat: 10 * time.Minute, patience: 5 * time.Minute, hold: 3 * time.Minute}
	for _, tt := range []struct {
		name string
		moment
		want time.Time
	}{
		{"nothing seen yet", moment{started: at(0), pending: true, blind: true}, time.Time{}},
		{"something still awaited", moment{started: at(0), pending: true}, at(5)},
		{"everything read", moment{started: at(0)}, at(0)},
		{"no change", moment{published: at(20)}, at(30)},
		{"the first change", moment{published: at(20), changed: at(25)}, at(25)},
		{"a change right after", moment{published: at(20), changed: at(20)}, at(21)},
		{"a change that names a Service", moment{published: at(20), changed: at(22), pending: true}, at(25)},
		{"a Service that never answers", moment{published: at(20), changed: at(29), pending: true}, at(30)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tempo.due(tt.moment); !got.Equal(tt.want) {
				t.Errorf("due at %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAsk(t *testing.T) {
	tempo := tempo{repeat: 10 * time.Minute, lag: 2 * time.Minute, pause: time.Minute}
	for _, tt := range []struct {
		name  string
		asked time.Time
		heard
		want time.Time
	}{
		{"never asked", time.Time{}, heard{}, time.Time{}},
		{"nothing new", at(10), heard{changed: at(11)}, at(20)},
		{"the API server is back", at(10), heard{returned: true}, at(11)},
		{"a CRD changed", at(10), heard{served: at(15)}, at(17)},
		{"a CRD changed right after", at(10), heard{served: at(8)}, at(11)},
		{"CRDs keep changing", at(10), heard{served: at(19)}, at(20)},
		{"once more after a change", at(10), heard{again: at(18)}, at(18)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tempo.ask(tt.asked, tt.heard); !got.Equal(tt.want) {
				t.Errorf("asked at %v, want %v", got, tt.want)
			}
		})
	}
}

// TestAskedTwice: discovery may not have followed a change yet when it is asked
// for the first time.
func TestAskedTwice(t *testing.T) {
	tempo := tempo{lag: 2 * time.Minute}
	first := tempo.asked(heard{changed: at(1), served: at(1), returned: true}, at(3))
	if want := (heard{changed: at(1), again: at(11)}); first != want {
		t.Errorf("after the first time %+v, want %+v", first, want)
	}
	if second := tempo.asked(first, at(11)); !second.again.IsZero() {
		t.Errorf("asked a third time at %v", second.again)
	}
}
