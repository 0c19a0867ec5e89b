package inventory

import (
	"reflect"
	"slices"
	"time"
)

// Succession takes Snapshots of one cluster, one after the other. What was made
// of the very same objects before is shared, not made anew: most changes leave
// nearly everything as it was. The zero Succession has taken none.
type Succession struct {
	objects Objects
	last    *Snapshot
}

// Snapshot is what Objects.Snapshot returns.
func (c *Succession) Snapshot(o Objects, taken time.Time) *Snapshot {
	before := c.last
	if before == nil {
		before = &Snapshot{}
	}
	c.last = o.snapshot(taken, before, c.unchanged(&o))
	c.objects = o
	return c.last
}

// parts say which facts of the last Snapshot hold still.
type parts struct{ namespaces, crds, apiServices, workloads, webhooks, served bool }

// unchanged compares where the objects are, not what they say: who watches a
// cluster replaces what changed and never writes to it.
func (c *Succession) unchanged(o *Objects) parts {
	if c.last == nil {
		return parts{}
	}
	before := &c.objects
	p := parts{
		namespaces:  slices.Equal(o.Namespaces, before.Namespaces),
		crds:        slices.Equal(o.CRDs, before.CRDs),
		apiServices: slices.Equal(o.APIServices, before.APIServices),
		workloads: slices.Equal(o.Pods, before.Pods) && slices.Equal(o.Deployments, before.Deployments) &&
			slices.Equal(o.StatefulSets, before.StatefulSets) && slices.Equal(o.DaemonSets, before.DaemonSets),
	}
	p.webhooks = p.crds && slices.Equal(o.Mutating, before.Mutating) && slices.Equal(o.Validating, before.Validating) &&
		len(o.Sources)+len(before.Sources) == 0
	p.served = p.crds && sameSlice(o.Discovered, before.Discovered) && o.Server == before.Server && o.OpenShift == before.OpenShift &&
		o.reviewsExcluded() == before.reviewsExcluded()
	return p
}

// unmoved is the same for Snapshots that differ in nothing but backends. It has
// a size, so that no two share an address.
type unmoved struct{ _ byte }

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (a == nil) == (b == nil) && (len(a) == 0 || &a[0] == &b[0])
}

// kept returns what there was if it holds still, else what is made.
func kept[T any](unchanged bool, before T, make func() T) T {
	if unchanged {
		return before
	}
	return make()
}

// MovedEndpoints returns the Services whose endpoints are all that sets the
// Snapshot apart from the one before, but for their times; false where more
// does.
func (s *Snapshot) MovedEndpoints(before *Snapshot) (map[Key]bool, bool) {
	if s.unmoved == nil || s.unmoved != before.unmoved || len(s.Services) != len(before.Services) ||
		!reflect.DeepEqual(s.still(), before.still()) {
		return nil, false
	}
	moved := map[Key]bool{}
	for key, now := range s.Services {
		was := before.Services[key]
		if !reflect.DeepEqual(now.Endpoints, was.Endpoints) {
			moved[key] = true
		}
		now.Endpoints, was.Endpoints = nil, nil
		if !reflect.DeepEqual(now, was) {
			return nil, false
		}
	}
	return moved, true
}

// still is the Snapshot without what differs from one to the next.
func (s *Snapshot) still() Snapshot {
	out := *s
	out.Taken, out.Current, out.Services, out.WatchErrors, out.placement = time.Time{}, time.Time{}, nil, nil, nil
	return out
}
