package main

import (
	"context"
	"fmt"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
)

func versionCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(s, func(_ context.Context, _ []string, s streams) error {
			_, err := fmt.Fprintln(s.out, version.Print(program))
			return err
		}),
	}
}
