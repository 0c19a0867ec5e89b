package admission

import "sync"

// maxCached bounds a memo: the requests to each of ten thousand namespaces must
// not add up.
const maxCached = 10_000

// memo holds what was computed, for one Snapshot after another as long as that holds.
// It is safe for concurrent use.
type memo[Q comparable, A any] struct {
	mu    sync.Mutex
	known map[Q]*remembered[A]
}

type remembered[A any] struct {
	answer A
	// used says that it was asked for since the last call of keepUsed.
	used bool
}

func newMemo[Q comparable, A any]() *memo[Q, A] {
	return &memo[Q, A]{known: map[Q]*remembered[A]{}}
}

// getOrCompute returns the known answer, or computes it. Concurrent callers may both
// compute it: the lock is not held meanwhile, because an answer may need others.
func (m *memo[Q, A]) getOrCompute(key Q, compute func() A) A {
	if answer, known := m.get(key); known {
		return answer
	}
	answer := compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxCached {
		clear(m.known)
	}
	m.known[key] = &remembered[A]{answer, true}
	return answer
}

func (m *memo[Q, A]) get(key Q) (answer A, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.known[key]
	if !known {
		return answer, false
	}
	r.used = true
	return r.answer, true
}

// keepUsed forgets what was not asked for since its last call, and calls each, if
// there is one, with the rest.
func (m *memo[Q, A]) keepUsed(each func(A)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, r := range m.known {
		if !r.used {
			delete(m.known, key)
			continue
		}
		r.used = false
		if each != nil {
			each(r.answer)
		}
	}
}
