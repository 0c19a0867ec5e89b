package classify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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
	for _, name := range []string{"all different", "one cycle through all", "a chain through all", "each excludes itself by a matchCondition", "everything known"} {
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

// TestImpactAgrees: the Services that do not come back are those that wait for a
// webhook with a deadlock among those that are down.
func TestImpactAgrees(t *testing.T) {
	stuck, free := 0, 0
	for seed := range uint64(150) {
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
	if stuck < 20 || free < 20 {
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
