package admission

import "sync"

// maxCached bounds a cache: the requests to each of ten thousand namespaces must
// not add up.
const maxCached = 10_000

// resultCache holds what was computed of one Snapshot. It is safe for concurrent
// use.
type resultCache[Q comparable, A any] struct {
	mu    sync.Mutex
	known map[Q]A
	// before is the cache of the Snapshot before, where that says the same. What is
	// asked again moves over, and the rest is forgotten with the next Snapshot.
	before *resultCache[Q, A]
	// move makes what moves over that of this Snapshot, where results have caches of
	// their own; nil where they have none.
	move func(A) A
}

func newResultCache[Q comparable, A any]() *resultCache[Q, A] {
	return &resultCache[Q, A]{known: map[Q]A{}}
}

// next returns the cache of the next Snapshot, about which the results hold as well.
func (c *resultCache[Q, A]) next() *resultCache[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = nil
	return &resultCache[Q, A]{known: map[Q]A{}, before: c}
}

// getOrCompute returns the cached result, or computes it. Concurrent callers may
// both compute it: the lock is not held meanwhile, because a result may need
// others.
func (c *resultCache[Q, A]) getOrCompute(key Q, compute func() A) A {
	result, ok := c.get(key)
	if ok {
		return result
	}
	result, ok = c.previous().get(key)
	switch {
	case !ok:
		result = compute()
	case c.move != nil:
		result = c.move(result)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCached {
		clear(c.known)
	}
	c.known[key] = result
	return result
}

// previous is the cache before, nil without one.
func (c *resultCache[Q, A]) previous() *resultCache[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.before
}

// get returns the result that the cache itself holds.
func (c *resultCache[Q, A]) get(key Q) (result A, ok bool) {
	if c == nil {
		return result, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	result, ok = c.known[key]
	return result, ok
}
