package explain

import (
	"iter"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// maxReductions bounds how many smaller registrations are tried.
const maxReductions = 150

// maxReported is how many disputed requests of a round are made smaller: most have one
// cause.
const maxReported = 2

// disputed is a request of which explain and the API server disagree.
type disputed struct {
	request
	knowledge
	problem string
}

// report prints a disputed request with the fewest webhooks that still show it.
func (e explainer) report(t *testing.T, c *configurations, d disputed) {
	t.Helper()
	if again := e.again(t, c, d); again == "" {
		d.problem += " (not again when asked alone)"
	} else {
		c, d.problem = e.reduced(t, c, d), again
	}
	object := "none"
	if d.object != nil {
		object = string(encoded(d.object))
	}
	var registered strings.Builder
	for _, o := range c.objects {
		text, err := yaml.Marshal(o)
		testenv.Must(t, err)
		registered.WriteString("---\n" + string(text))
	}
	t.Errorf("explain %s %s %s, knowing %s (labels %v, object %s): %s\nregistered:\n%s", d.operation, d.resource, strings.Join(d.args, " "), d.knowledge, d.labels, object, d.problem, registered.String())
}

// reduced returns the fewest webhooks found that still show it.
func (e explainer) reduced(t *testing.T, c *configurations, d disputed) *configurations {
	t.Helper()
	tries := 0
	for reducing := true; reducing; {
		reducing = false
		for next := range c.smaller() {
			if tries++; tries > maxReductions {
				return c
			}
			if e.again(t, next, d) != "" {
				c, reducing = next, true
				break
			}
		}
	}
	return c
}

// again registers the webhooks, makes the request once more, and returns what is
// wrong with the prediction, if anything.
func (e explainer) again(t *testing.T, c *configurations, d disputed) string {
	t.Helper()
	e.register(t, c)
	defer c.unregister(t)
	p := c.of(e.explain(t, c, []request{d.request}, d.knowledge)[0])
	return c.disagreement(p, e.do(t, c, d.request))
}

// smaller yields what is registered with fewer policies, or fewer webhooks.
func (c *configurations) smaller() iter.Seq[*configurations] {
	return func(yield func(*configurations) bool) {
		for _, policies := range append([][]policy{nil}, fewer(c.policies)...) {
			if len(c.policies) > 0 && !yield(&configurations{prefix: c.prefix, hooks: c.hooks, policies: policies}) {
				return
			}
		}
		for hooks := range smaller(c.hooks) {
			if !yield(&configurations{prefix: c.prefix, hooks: hooks, policies: c.policies}) {
				return
			}
		}
		if len(c.hooks) == 1 && len(c.policies) > 0 {
			yield(&configurations{prefix: c.prefix, policies: c.policies})
		}
	}
}

// smaller yields the webhooks without half of them, without one, and with one that
// is less restricted.
func smaller(hooks []hook) iter.Seq[[]hook] {
	return func(yield func([]hook) bool) {
		half := len(hooks) / 2
		more := half == 0 || yield(slices.Clone(hooks[:half])) && yield(slices.Clone(hooks[half:]))
		for i := 0; more && len(hooks) > 1 && i < len(hooks); i++ {
			more = yield(slices.Delete(slices.Clone(hooks), i, i+1))
		}
		for i := 0; more && i < len(hooks); i++ {
			for h := range simpler(hooks[i]) {
				next := slices.Clone(hooks)
				next[i] = h
				if more = yield(next); !more {
					break
				}
			}
		}
	}
}

// simpler yields the webhook without one of its restrictions.
func simpler(h hook) iter.Seq[hook] {
	return func(yield func(hook) bool) {
		var out []hook
		if len(h.MatchConditions) > 0 {
			less := h
			less.MatchConditions = h.MatchConditions[1:]
			out = append(out, less)
		}
		if len(h.Rules) > 1 {
			less := h
			less.Rules = h.Rules[1:]
			out = append(out, less)
			less.Rules = h.Rules[:len(h.Rules)-1]
			out = append(out, less)
		}
		for _, selector := range []func(*hook) **metav1.LabelSelector{
			func(h *hook) **metav1.LabelSelector { return &h.NamespaceSelector },
			func(h *hook) **metav1.LabelSelector { return &h.ObjectSelector },
		} {
			if less := h; *selector(&less) != nil {
				*selector(&less) = nil
				out = append(out, less)
			}
		}
		slices.Values(out)(yield)
	}
}
