package manifest

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
)

// maxPending bounds the bytes that wait to be parsed or collected.
const maxPending = 64 << 20

// job is a part of an input to read.
type job struct {
	size int
	read func() outcome
}

// done returns a job whose outcome is known.
func done(o outcome) job { return job{read: func() outcome { return o }} }

// parallel runs the jobs that feed emits on all cores, and calls collect with
// their outcomes in the order of feed, on the caller's goroutine.
func parallel(feed func(emit func(job)), collect func(outcome)) {
	type slot struct {
		job
		result chan outcome
	}
	workers := runtime.GOMAXPROCS(0)
	todo := make(chan slot, 64*workers)
	order := make(chan slot, 64*workers)
	memory := semaphore.NewWeighted(maxPending)
	go func() {
		defer close(order)
		defer close(todo)
		feed(func(j job) {
			j.size = min(j.size, maxPending)
			// The context is never canceled.
			_ = memory.Acquire(context.Background(), int64(j.size))
			s := slot{j, make(chan outcome, 1)}
			order <- s
			todo <- s
		})
	}()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for s := range todo {
				s.result <- s.read()
			}
		})
	}
	for s := range order {
		collect(<-s.result)
		memory.Release(int64(s.size))
	}
	running.Wait()
}
