package main

import (
	"context"
	"time"
)

// interruptGrace is how long an interrupted command may take to clean up.
const interruptGrace = 300 * time.Millisecond

// interrupted runs what ends by itself and, once the context has ended, leaves
// it soon: it may be in a system call, a credential plugin or a long computation.
func interrupted(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(interruptGrace):
		return context.Cause(ctx)
	}
}
