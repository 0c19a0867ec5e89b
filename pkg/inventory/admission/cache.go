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
}

func newResultCache[Q comparable, A any]() *resultCache[Q, A] {
	return &resultCache[Q, A]{known: map[Q]A{}}
}

// getOrCompute returns the cached result, or computes it. Concurrent callers may
// both compute it: the lock is not held meanwhile, because a result may need
// others.
func (c *resultCache[Q, A]) getOrCompute(key Q, compute func() A) A {
	c.mu.Lock()
	result, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return result
	}
	result = compute()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCached {
		clear(c.known)
	}
	c.known[key] = result
	return result
}
