package main

import (
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// startPercent is GOGC until the first Report. Most of what a start allocates
	// stays, so that a collection marks much and frees little: with the manifests'
	// GOGC=50 collections were a third of its CPU. GOMEMLIMIT still bounds the heap.
	startPercent = 200
	// firstReaders is how long after the first Report the memory of the start is
	// returned: who waited for the metrics is answered first.
	firstReaders = 5 * time.Second
	// filesPercent is GOGC once files are read. What is read stays while it is evaluated,
	// among the free memory that parsing has left: with Go's default of 100, 45,000
	// webhooks needed 6.5 times the memory of their file. While files are read, the
	// default is cheaper and needs less than what follows.
	filesPercent = 40
)

// collectMore makes the garbage collector run more often until the process ends,
// unless the user sets GOGC.
func collectMore() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(filesPercent)
	}
}

// collectLess makes the garbage collector run less often, until the function that it
// returns is called. That also returns the memory that was used meanwhile.
func collectLess() (asConfigured func()) {
	configured := debug.SetGCPercent(startPercent)
	if configured < 0 || configured > startPercent { // the user wants even less
		debug.SetGCPercent(configured)
	}
	return sync.OnceFunc(func() {
		debug.SetGCPercent(configured)
		time.AfterFunc(firstReaders, debug.FreeOSMemory)
	})
}
