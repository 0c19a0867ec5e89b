package admission

import "sync"

// maxCached bounds a memo: the requests to each of ten thousand namespaces must
// not add up.
const maxCached = 10_000

// memo holds what was computed, for one Snapshot after another as long as that holds:
// what two in a row do not ask for is forgotten. It is safe for concurrent use.
type memo[Q comparable, A any] struct {
	mu sync.Mutex
	// answers are the answers of this Snapshot, before those of the one before.
	answers, before map[Q]A
}

func newMemo[Q comparable, A any]() *memo[Q, A] {
	return &memo[Q, A]{answers: map[Q]A{}}
}

// getOrCompute returns the kept answer, or computes it. Concurrent callers may both
// compute it: the lock is not held meanwhile, because an answer may need others.
func (m *memo[Q, A]) getOrCompute(key Q, compute func() A) A {
	answer, ok := m.get(key)
	if ok {
		return answer
	}
	answer = compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.answers) >= maxCached {
		clear(m.answers)
	}
	m.answers[key] = answer
	return answer
}

func (m *memo[Q, A]) get(key Q) (answer A, answers bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if answer, answers = m.answers[key]; answers {
		return answer, true
	}
	if answer, answers = m.before[key]; answers {
		m.answers[key] = answer
	}
	return answer, answers
}

func (m *memo[Q, A]) next() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers, m.before = map[Q]A{}, m.answers
}
