package cluster

import (
	"testing"
	"time"
)

func TestNextPublish(t *testing.T) {
	timing := timing{debounce: time.Minute, resync: 10 * time.Minute, startupWait: 5 * time.Minute}
	for _, tt := range []struct {
		name string
		schedule
		watchStatus
		want time.Time
	}{
		{"nothing read yet", schedule{started: minuteTime(0)}, watchStatus{pending: true, empty: true}, time.Time{}},
		{"something awaited", schedule{started: minuteTime(0)}, watchStatus{pending: true}, minuteTime(5)},
		{"everything read", schedule{started: minuteTime(0)}, watchStatus{}, minuteTime(0)},
		{"no change", schedule{published: minuteTime(20)}, watchStatus{}, minuteTime(30)},
		{"the first change", schedule{published: minuteTime(20), changed: minuteTime(25)}, watchStatus{}, minuteTime(25)},
		{"a change right after", schedule{published: minuteTime(20), changed: minuteTime(20)}, watchStatus{}, minuteTime(21)},
		{"what was spent is nearly paid for", schedule{published: minuteTime(20), changed: minuteTime(20), paid: minuteTime(21)}, watchStatus{}, minuteTime(21)},
		{"what was spent is not paid for", schedule{published: minuteTime(20), changed: minuteTime(20), paid: minuteTime(23)}, watchStatus{}, minuteTime(23).Add(-burst)},
		{"what was spent lasts longer than the resync", schedule{published: minuteTime(20), changed: minuteTime(20), paid: minuteTime(50)}, watchStatus{}, minuteTime(30)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.schedule.timing = timing
			if got := tt.nextPublish(tt.watchStatus); !got.Equal(tt.want) {
				t.Errorf("due at %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSpend: of changes that never end, a tenth of the time is spent on Snapshots; the
// first Snapshot, and a change after a pause, delay nothing.
func TestSpend(t *testing.T) {
	s := schedule{timing: timing{debounce: time.Millisecond, resync: time.Hour}}
	s.spend(minuteTime(0), minuteTime(1))
	if s.changed = minuteTime(1); s.nextPublish(watchStatus{}).After(minuteTime(1).Add(time.Millisecond)) {
		t.Errorf("after the first Snapshot the next is due at %v", s.nextPublish(watchStatus{}))
	}
	const took = 500 * time.Millisecond
	now, spent := minuteTime(1), time.Duration(0)
	for range 50 {
		s.changed = now
		began := s.nextPublish(watchStatus{})
		now = began.Add(took)
		spent += took
		s.spend(began, now)
	}
	if share := spent.Seconds() / now.Sub(minuteTime(1)).Seconds(); share > 0.11 || share < 0.09 {
		t.Errorf("a share of %.3f is spent, want a tenth", share)
	}
	s.changed = now.Add(time.Hour)
	if due := s.nextPublish(watchStatus{}); !due.Equal(s.changed) {
		t.Errorf("a change after a pause is due %s later", due.Sub(s.changed))
	}
}

func TestNextFetch(t *testing.T) {
	timing := timing{resync: 10 * time.Minute, discoveryDelay: 2 * time.Minute, fetchInterval: time.Minute}
	for _, tt := range []struct {
		name string
		schedule
		want time.Time
	}{
		{"never fetched", schedule{}, time.Time{}},
		{"nothing new", schedule{fetched: minuteTime(10), changed: minuteTime(11)}, minuteTime(20)},
		{"the API server is back", schedule{fetched: minuteTime(10), recovered: true}, minuteTime(11)},
		{"a CRD changed", schedule{fetched: minuteTime(10), servedChanged: minuteTime(15)}, minuteTime(17)},
		{"a CRD changed right after", schedule{fetched: minuteTime(10), servedChanged: minuteTime(8)}, minuteTime(11)},
		{"CRDs keep changing", schedule{fetched: minuteTime(10), servedChanged: minuteTime(19)}, minuteTime(20)},
		{"resource versions were compared before", schedule{fetched: minuteTime(10), revisionsCompared: minuteTime(3)}, minuteTime(13)},
		{"resource versions were compared long before", schedule{fetched: minuteTime(10), revisionsCompared: minuteTime(0)}, minuteTime(11)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.schedule.timing = timing
			if tt.revisionsCompared.IsZero() {
				tt.revisionsCompared = tt.fetched
			}
			if got := tt.nextFetch(); !got.Equal(tt.want) {
				t.Errorf("fetched at %v, want %v", got, tt.want)
			}
		})
	}
}
