package testenv

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
)

// Suite shares environments between the tests of one package, as each costs
// seconds to start, and stops them after the last test.
type Suite struct {
	// starting is held while an environment starts: on a loaded machine, several
	// starts at once take so long that each misses its deadline.
	starting sync.Mutex
	mu       sync.Mutex
	stops    []func() error
}

// Main is the TestMain of the package.
func (s *Suite) Main(m *testing.M) {
	// Tests wait for their control planes more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err) // unreachable: package testing has this flag
	}
	code := m.Run()
	s.stop()
	os.Exit(code)
}

func (s *Suite) atEnd(stop func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops = append(s.stops, stop)
}

func (s *Suite) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.stops) - 1; i >= 0; i-- {
		if err := s.stops[i](); err != nil {
			fmt.Fprintln(os.Stderr, "cleaning up:", err)
		}
	}
}

// Shared is an environment of a suite. The first test that needs it starts it.
type Shared struct {
	start func() (*Env, error)
	users sync.RWMutex // tests that use it now: many, or one alone
}

// Shared returns an environment that is prepared once, after its start.
func (s *Suite) Shared(options cluster.Options, prepare ...func(*Env) error) *Shared {
	return &Shared{start: sync.OnceValues(func() (*Env, error) {
		s.starting.Lock()
		defer s.starting.Unlock()
		env, err := start(options, s.atEnd)
		if err != nil {
			return nil, err
		}
		env.shared = true
		for _, do := range prepare {
			if err := do(env); err != nil {
				return nil, err
			}
		}
		return env, nil
	})}
}

// Use returns the environment to a test that shares it.
func (s *Shared) Use(t testing.TB) *Env {
	t.Helper()
	env := Get(s.start())(t)
	s.users.RLock()
	t.Cleanup(s.users.RUnlock)
	return env
}

// UseAlone returns the environment to a test that would disturb others, or that
// others would disturb: it registers what all requests meet, say.
func (s *Shared) UseAlone(t testing.TB) *Env {
	t.Helper()
	env := Get(s.start())(t)
	s.users.Lock()
	t.Cleanup(s.users.Unlock)
	return env
}
