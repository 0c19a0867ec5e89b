// Command webhook-auditor reports what the admission and conversion webhooks of
// a cluster intercept, whether they work, and what fails if they do not.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	setVersion()
	cobra.EnableCommandSorting = false // the first of a group are asked for most
	os.Exit(exit(run(interruptible(), os.Args[1:], streams{reader: os.Stdin, out: os.Stdout, err: os.Stderr}), os.Stderr))
}

// interruptible ends with the first SIGINT or SIGTERM; a second one kills.
func interruptible() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}
