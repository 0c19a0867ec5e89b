package classify_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// allDown is the Change that takes the Services of all webhooks down.
func allDown(s *inventory.Snapshot) impact.Change {
	down := map[inventory.Key]bool{}
	var c impact.Change
	for _, w := range s.Webhooks {
		if key := s.State(w.Backend).Service.Key; key.Name != "" && !down[key] {
			down[key] = true
			c.Services = append(c.Services, key)
		}
	}
	return c
}

func reportOn(t testing.TB, s *inventory.Snapshot) *classify.Report {
	t.Helper()
	return must.Get(classify.DefaultPolicy().Evaluate(t.Context(), s))(t)
}

// askedContext counts how often it is asked whether it ended.
type askedContext struct {
	context.Context
	asked int
}

func (c *askedContext) Err() error {
	c.asked++
	return nil
}

// TestImpactGrowth: four times the webhooks that are down cost about four times the
// steps, and for what is reported of each, the memory, whatever their shape.
func TestImpactGrowth(t *testing.T) {
	const n, times, most = 90, 4, 6
	effort := func(name string, n int) (asked, bytes int) {
		r := reportOn(t, classify.CrowdSnapshot(name, n))
		ctx := &askedContext{Context: t.Context()}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := allDown(r.Snapshot).Evaluate(ctx, classify.DefaultPolicy(), r)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		reported := n
		for _, e := range c.Effects {
			reported += len(e.Namespaces) // the webhooks times what they match
		}
		return ctx.asked, int(after.TotalAlloc-before.TotalAlloc) / reported * n
	}
	for _, name := range classify.Crowds() {
		t.Run(name, func(t *testing.T) {
			asked, bytes := effort(name, n)
			moreAsked, moreBytes := effort(name, times*n)
			t.Logf("%d webhooks: asked %d times, %d bytes; %d webhooks: %d times, %d bytes", n, asked, bytes, times*n, moreAsked, moreBytes)
			if asked == 0 || moreAsked > most*asked {
				t.Errorf("%d times the webhooks ask %d times instead of %d", times, moreAsked, asked)
			}
			if moreBytes > most*bytes {
				t.Errorf("%d times the webhooks take %d bytes instead of %d", times, moreBytes, bytes)
			}
		})
	}
}

// TestRegistrationsGrowth: to compare four times the webhooks, all of them edited, or all
// gone, takes about four times the memory for each that is reported, whatever their shape.
func TestRegistrationsGrowth(t *testing.T) {
	const n, times, most = 30, 4, 6
	effort := func(before, after *inventory.Snapshot) int {
		was := admission.New(before)
		now := was.Next(after)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		begin := m.TotalAlloc
		changes := impact.Registrations(was, now)
		runtime.ReadMemStats(&m)
		reported := 1
		for _, c := range changes {
			for _, w := range c.Webhooks {
				reported++
				reported += len(w.Gained) + len(w.Lost) // the webhooks times what they match
			}
		}
		if reported == 1 {
			t.Errorf("nothing changed of %d webhooks", len(before.Webhooks))
		}
		return int(m.TotalAlloc-begin) / reported * len(before.Webhooks)
	}
	for _, name := range classify.Crowds() {
		t.Run(name, func(t *testing.T) {
			for _, edit := range []struct {
				name  string
				crowd func(n int) (before, after *inventory.Snapshot)
			}{
				{"edited", func(n int) (before, after *inventory.Snapshot) { return classify.CrowdEdited(name, n) }},
				{"gone", func(n int) (before, after *inventory.Snapshot) {
					before, _ = classify.CrowdEdited(name, n)
					gone := *before
					gone.Webhooks = nil
					return before, &gone
				}},
			} {
				bytes, moreBytes := effort(edit.crowd(n)), effort(edit.crowd(times*n))
				t.Logf("%s: %d webhooks: %d bytes; %d webhooks: %d bytes", edit.name, n, bytes, times*n, moreBytes)
				if moreBytes > most*bytes {
					t.Errorf("%s: %d times the webhooks take %d bytes instead of %d", edit.name, times, moreBytes, bytes)
				}
			}
		})
	}
}

// TestHistoryGrowth: what keeps the changes of many Snapshots holds no more than after as
// many as it keeps.
func TestHistoryGrowth(t *testing.T) {
	const full, all = 210, 420
	var h impact.History
	var before *classify.Report
	var lengths map[string]int
	var heap uint64
	classify.Sequence(t, "webhooks", all, func(n int, r *classify.Report) {
		h.Observe(before, r)
		if before = r; n == full {
			lengths, heap = classify.LengthsIn(&h), classify.HeapInUse()
		}
	})
	if now := classify.HeapInUse(); now > heap+heap/4 {
		t.Errorf("after %d Snapshots the heap has %d kB, after %d it had %d", all, now>>10, full, heap>>10)
	}
	for path, now := range classify.LengthsIn(&h) {
		if was := lengths[path]; now > was+was/4+10 {
			t.Errorf("after %d Snapshots %s has %d elements, after %d it had %d", all, path, now, full, was)
		}
	}
	if h.Last() != all-1 {
		t.Errorf("%d changes are recorded, want %d", h.Last(), all-1)
	}
}

// TestImpactEndsAnywhere: wherever its context ends, a comparison returns an error and
// nothing else.
func TestImpactEndsAnywhere(t *testing.T) {
	const n, points = 30, 15
	for _, name := range classify.Crowds() {
		r := reportOn(t, classify.CrowdSnapshot(name, n))
		c := allDown(r.Snapshot)
		all := &askedContext{Context: t.Context()}
		must.Get(c.Evaluate(all, classify.DefaultPolicy(), r))(t)
		for point := range min(points, all.asked) {
			at := all.asked * point / min(points, all.asked)
			out, err := c.Evaluate(classify.EndsAfter(t.Context(), at), classify.DefaultPolicy(), r)
			if out != nil || !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: ended when asked %d of %d times: %v", name, at, all.asked, err)
			}
		}
	}
}

// TestImpactAgrees: the Services that do not come back are those that wait for a
// webhook with a deadlock among those that are down.
func TestImpactAgrees(t *testing.T) {
	stuck, free := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := classify.MixedSnapshot(seed)
		change := allDown(s)
		change.Services = slices.DeleteFunc(change.Services, func(inventory.Key) bool { return r.IntN(4) == 0 })
		c := must.Get(change.Evaluate(t.Context(), classify.DefaultPolicy(), reportOn(t, s)))(t)
		s = classify.MixedSnapshot(seed) // with the webhooks alone that are down
		s.Webhooks = slices.DeleteFunc(s.Webhooks, func(w *inventory.Webhook) bool { return !slices.Contains(change.Services, w.Backend.Service.Key) })
		disagree(t, fmt.Sprintf("seed %d", seed), c, reportOn(t, s))
		if len(c.Stuck) > 0 {
			stuck++
		} else {
			free++
		}
	}
	if stuck < 50 || free < 50 {
		t.Errorf("%d clusters come back, %d do not: too few to compare", free, stuck)
	}
}

func disagree(t *testing.T, name string, c *impact.Consequences, r *classify.Report) {
	t.Helper()
	deadlocks := 0
	for i := range r.Profiles {
		p := &r.Profiles[i]
		if p.Deadlock == nil {
			continue
		}
		deadlocks++
		if !slices.ContainsFunc(c.Stuck, func(b impact.Blocked) bool { return b.Service == p.State.Service.Key.String() }) {
			t.Errorf("%s: %s is in a deadlock, and comes back: %v", name, p.Ref, c.Recovery)
		}
	}
	if deadlocks == 0 && len(c.Stuck) > 0 {
		t.Errorf("%s: %s does not come back, and no webhook is in a deadlock", name, c.Stuck[0].Service)
	}
}

// BenchmarkImpact takes a chain of webhooks down, of which each refuses the next one's
// Pods.
func BenchmarkImpact(b *testing.B) {
	for _, n := range []int{100, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := reportOn(b, classify.CrowdSnapshot("a chain through all", n))
			c := allDown(r.Snapshot)
			for b.Loop() {
				out, err := c.Evaluate(b.Context(), classify.DefaultPolicy(), r)
				if err != nil || len(out.Recovery) != n {
					b.Fatal(err, len(out.Recovery))
				}
			}
		})
	}
}
