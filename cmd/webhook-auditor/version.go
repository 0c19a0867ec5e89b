package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
)

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

// builtFrom is what is known of this binary, in a line.
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

// setVersion fills in the version where the linker was not given one: "go install"
// and the Dockerfile give none.
func setVersion() {
	info, _ := debug.ReadBuildInfo()
	version.Version = cmp.Or(version.Version, moduleVersion(info))
}

// moduleVersion is the version of the main module as Go recorded it: a tag, or a
// pseudo-version of the commit.
func moduleVersion(info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "unknown"
	}
	return info.Main.Version
}
