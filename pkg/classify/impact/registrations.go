package impact

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Edit is what became of a registration.
type Edit string

// The edits.
const (
	Added   Edit = "added"
	Deleted Edit = "deleted"
	Changed Edit = "changed"
)

// Registration is a configuration, or a CRD with a conversion webhook, that
// registers other webhooks than before, or registers them otherwise.
type Registration struct {
	Type          inventory.Type
	Configuration string
	Edit          Edit
	// UID is that of the object.
	UID string
	// Written is the newest write that the object records, and WrittenBefore that
	// of the object before; zero where there is no such object or no record.
	Written, WrittenBefore inventory.Write
	// Webhooks are in the order in which they are called, those deleted last.
	Webhooks []WebhookChange
}

// WebhookChange is what changed of one webhook.
type WebhookChange struct {
	inventory.Ref
	Edit Edit
	// Gained are the requests that it is called for now, or may be, and was not, or
	// was only perhaps; Lost is the reverse. Conversions have neither.
	Gained, Lost []Requests
	// Sampled says that not every namespace was asked about, as there are too many.
	Sampled bool
	Fields  []FieldChange
	// CalledBefore are the webhooks of the configuration that it is called before
	// now, and was after; CalledAfter is the reverse. Validating ones are called at
	// once.
	CalledBefore, CalledAfter []string
}

// Registrations returns what differs between the registrations of two Snapshots:
// configurations in the order of their webhooks, those deleted last.
func Registrations(before, after *admission.Matcher) []Registration {
	out, _ := registrations(context.Background(), before, after, limits{most: math.MaxInt})
	return out
}

// limits are how many registrations are compared at most, and of which types none is
// new, whatever was known before.
type limits struct {
	most   int
	unread []inventory.Type
}

// registrations are those within the limits that can be compared before the context
// ends; more counts the others that differ.
func registrations(ctx context.Context, before, after *admission.Matcher, l limits) (out []Registration, more int) {
	c := newComparison(before, after, start.Steps(ctx))
	was, now := byConfiguration(before.Snapshot), byConfiguration(after.Snapshot)
	for _, key := range configurationKeys(after.Snapshot, before.Snapshot) {
		pairs := differing(was[key], now[key])
		if len(pairs) == 0 {
			continue
		}
		r := newRegistration(key, was[key], now[key])
		if r.Edit == Added && slices.Contains(l.unread, r.Type) {
			continue
		}
		if len(out) < l.most && c.step() {
			for _, p := range pairs {
				r.Webhooks = append(r.Webhooks, c.webhook(p))
			}
		}
		if len(out) == l.most || ctx.Err() != nil {
			more++
			continue
		}
		out = append(out, r)
	}
	return out, more
}

// byConfiguration groups the webhooks by what registers them: Refs without names.
func byConfiguration(s *inventory.Snapshot) map[inventory.Ref][]*inventory.Webhook {
	out := map[inventory.Ref][]*inventory.Webhook{}
	for _, w := range s.Webhooks {
		key := w.WithoutName()
		out[key] = append(out[key], w)
	}
	return out
}

// configurationKeys are those of the Snapshots, each once, in their order.
func configurationKeys(snapshots ...*inventory.Snapshot) []inventory.Ref {
	var out []inventory.Ref
	seen := map[inventory.Ref]bool{}
	for _, s := range snapshots {
		for _, w := range s.Webhooks {
			key := w.WithoutName()
			if !seen[key] {
				seen[key] = true
				out = append(out, key)
			}
		}
	}
	return out
}

// comparison compares the webhooks of two Snapshots, as long as step is true.
type comparison struct {
	before, after *admission.Matcher
	step          start.Step
	// index has the namespaces of both.
	index func() namespaceIndex
}

// newRegistration is that of a configuration, before its webhooks are compared.
func newRegistration(key inventory.Ref, was, now []*inventory.Webhook) Registration {
	r := Registration{Type: key.Type, Configuration: key.Configuration, Edit: Changed}
	if len(was) > 0 {
		r.UID, r.WrittenBefore = was[0].Object.UID, was[0].Object.LastWrite
	} else {
		r.Edit = Added
	}
	if len(now) > 0 {
		r.UID, r.Written = now[0].Object.UID, now[0].Object.LastWrite
	} else {
		r.Edit = Deleted
	}
	return r
}

// differing are the webhooks of a configuration that differ.
func differing(was, now []*inventory.Webhook) []difference {
	if slices.Equal(was, now) { // several Snapshots share what did not change
		return nil
	}
	var out []difference
	pairs := pair(was, now)
	for _, p := range pairs {
		if p.was == p.now {
			continue
		}
		d := difference{p, p.change()}
		d.CalledBefore, d.CalledAfter = reordered(p, pairs)
		if d.Edit != Changed || len(d.Fields)+len(d.CalledBefore)+len(d.CalledAfter) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// difference is a webhook that differs, with what changed of it but its requests.
type difference struct {
	webhookPair
	WebhookChange
}

// webhookPair is a webhook before and after; one of them may be nil.
type webhookPair struct{ was, now *inventory.Webhook }

// pair pairs the webhooks by their names, and those of one name by their order.
func pair(was, now []*inventory.Webhook) []webhookPair {
	byName := map[string][]*inventory.Webhook{}
	for _, w := range was {
		byName[w.Name] = append(byName[w.Name], w)
	}
	var out []webhookPair
	for _, w := range now {
		p := webhookPair{now: w}
		if rest := byName[w.Name]; len(rest) > 0 {
			p.was, byName[w.Name] = rest[0], rest[1:]
		}
		out = append(out, p)
	}
	for _, w := range was {
		if slices.Contains(byName[w.Name], w) {
			out = append(out, webhookPair{was: w})
		}
	}
	return out
}

// reordered are the names of mutating webhooks that p is called before now, or
// after now, and was not: configurations are called in the order of their names,
// so that only those of one configuration change places.
func reordered(p webhookPair, all []webhookPair) (before, after []string) {
	if p.was == nil || p.now == nil || p.now.Type != inventory.Mutating {
		return nil, nil
	}
	for _, o := range all {
		switch {
		case o.was == nil || o.now == nil || o == p:
		case o.was.Before(p.was) && p.now.Before(o.now):
			before = append(before, o.now.Name)
		case p.was.Before(o.was) && o.now.Before(p.now):
			after = append(after, o.now.Name)
		}
	}
	return before, after
}

// change is what changed of the webhook but its place and its requests.
func (p webhookPair) change() WebhookChange {
	out := WebhookChange{Edit: Changed, Fields: fieldChanges(p)}
	switch {
	case p.was == nil:
		out.Ref, out.Edit = p.now.Ref, Added
	case p.now == nil:
		out.Ref, out.Edit = p.was.Ref, Deleted
	default:
		out.Ref = p.now.Ref
	}
	return out
}

// webhook adds the requests.
func (c comparison) webhook(d difference) WebhookChange {
	out := d.WebhookChange
	if d.matchesOthers() {
		out.Gained, out.Lost, out.Sampled = c.requests(d.webhookPair)
	}
	return out
}

// matchesOthers reports whether the webhook may be called for other requests than
// before.
func (p webhookPair) matchesOthers() bool {
	w := cmp.Or(p.now, p.was)
	return w.Type != inventory.Conversion && (p.was == nil || p.now == nil || admission.MatchKey(p.was) != admission.MatchKey(p.now))
}
