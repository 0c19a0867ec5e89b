package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

func versionCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  webhook-auditor version
  webhook-auditor version -o json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	var output string
	enumFlag(c.Flags(), &output, enum{"output", "o", "output format", []string{"text", "json"}})
	c.RunE = running(s, func(_ context.Context, _ []string, s streams) error {
		if output == "json" {
			return report.WriteJSON(s.out, builtFrom())
		}
		_, err := fmt.Fprintln(s.out, builtFrom())
		return err
	})
	return c
}

// build is what is known of this binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func builtFrom() build {
	b := build{Version: cmp.Or(version.Version, "unknown"), Date: version.BuildDate, Go: version.GoVersion, Platform: version.GoOS + "/" + version.GoArch}
	if revision := version.GetRevision(); revision != "unknown" {
		b.Revision = revision
	}
	return b
}

// String is the build in a line.
func (b build) String() string {
	parts := []string{program, b.Version}
	for _, part := range []struct{ name, value string }{{"revision", b.Revision}, {"built", b.Date}} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	return strings.Join(append(parts, b.Go, b.Platform), " ")
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
