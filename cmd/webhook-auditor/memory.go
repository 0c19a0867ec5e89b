package main

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// quiet is how long nothing is published before memory is given back.
const quiet = 5 * time.Second

// saveMemory collects garbage four times as often as Go does of itself, and
// gives back what is free whenever publish was not called for a while: the
// auditor waits nearly all the time, and what it costs a cluster is memory. It
// does nothing where $GOGC or $GOMEMLIMIT say what is wanted.
func saveMemory(publish func(*inventory.Snapshot)) func(*inventory.Snapshot) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return publish
	}
	debug.SetGCPercent(25)
	rest := time.AfterFunc(quiet, debug.FreeOSMemory)
	return func(s *inventory.Snapshot) {
		publish(s)
		rest.Reset(quiet)
	}
}
