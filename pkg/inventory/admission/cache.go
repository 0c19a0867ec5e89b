package admission

import (
	"sync"
)

// maxAnswers bounds what is remembered: questions about each of ten thousand
// namespaces must not add up.
const maxAnswers = 10_000

// answers remembers the answers to questions about one Snapshot, which always
// answers the same. It may be asked from several goroutines.
type answers[Q comparable, A any] struct {
	mu    sync.Mutex
	known map[Q]A
}

func newAnswers[Q comparable, A any]() *answers[Q, A] {
	return &answers[Q, A]{known: map[Q]A{}}
}

// of returns the remembered answer, or finds it. Two who ask at once may both
// find it: the lock is not held meanwhile, for an answer may need others.
func (a *answers[Q, A]) of(question Q, find func() A) A {
	a.mu.Lock()
	answer, ok := a.known[question]
	a.mu.Unlock()
	if ok {
		return answer
	}
	answer = find()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxAnswers {
		clear(a.known)
	}
	a.known[question] = answer
	return answer
}
