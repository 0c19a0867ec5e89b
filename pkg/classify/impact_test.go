package classify_test

import (
	"context"
	"runtime"
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
	steps int
}

func (c *askedContext) Err() error {
	c.steps++
	return nil
}

// TestImpactGrowth: four times the webhooks that are down cost about four times the
// steps, and for what is reported of each, the memory, whatever their shape.
func TestImpactGrowth(t *testing.T) {
	const n, times, most = 90, 4, 6
	effort := func(name string, n int) (steps, bytes int) {
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
		return ctx.steps, int(after.TotalAlloc-before.TotalAlloc) / reported * n
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
