package manifest

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
)

// maxUnderWay bounds the bytes that are waiting to be parsed or collected.
const maxUnderWay = 64 << 20

// ordered runs work on everything that feed emits, on all cores, and hands the
// results to collect in the order of feed. It returns when all is collected;
// collect runs on the caller's goroutine.
func ordered(feed func(emit func(task)), work func(task) outcome, collect func(task, outcome)) {
	type slot struct {
		task   task
		size   int64
		result chan outcome
	}
	workers := runtime.GOMAXPROCS(0)
	todo := make(chan slot, 64*workers)
	order := make(chan slot, 64*workers)
	memory := semaphore.NewWeighted(maxUnderWay)
	go func() {
		defer close(order)
		defer close(todo)
		feed(func(t task) {
			s := slot{t, min(int64(len(t.data)), maxUnderWay), make(chan outcome, 1)}
			// The context is never canceled.
			_ = memory.Acquire(context.Background(), s.size)
			order <- s
			todo <- s
		})
	}()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for s := range todo {
				s.result <- work(s.task)
			}
		})
	}
	for s := range order {
		collect(s.task, <-s.result)
		memory.Release(s.size)
	}
	running.Wait()
}
