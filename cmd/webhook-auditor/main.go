// Command webhook-auditor reports what the admission and conversion webhooks of
// a cluster intercept, whether they work, and what fails if they do not.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
)

func main() {
	info, _ := debug.ReadBuildInfo() // "go install" and the Dockerfile give the linker no version
	version.Version = cmp.Or(version.Version, moduleVersion(info))
	cobra.EnableCommandSorting = false // the first of a group are asked for most
	os.Exit(exit(run(interruptible(), os.Args[1:], streams{reader: os.Stdin, out: os.Stdout, err: os.Stderr}),
		os.Stderr))
}

// interruptible ends with the first SIGINT or SIGTERM; a second one kills.
func interruptible() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

func versionCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Example:           "  webhook-auditor version",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(s, func(_ context.Context, _ []string, s streams) error {
			_, err := fmt.Fprintln(s.out, builtFrom())
			return err
		}),
	}
}

// builtFrom is the version of this binary and what it was built from, in a line.
func builtFrom() string {
	parts := []string{program, cmp.Or(version.Version, "unknown")}
	if revision := version.GetRevision(); revision != "unknown" {
		parts = append(parts, "revision", revision)
	}
	if version.BuildDate != "" {
		parts = append(parts, "built", version.BuildDate)
	}
	return strings.Join(append(parts, version.GoVersion, version.GoOS+"/"+version.GoArch), " ")
}

// moduleVersion is the version of the main module as Go recorded it: a tag, or a
// pseudo-version of the commit.
func moduleVersion(info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "unknown"
	}
	return info.Main.Version
}
