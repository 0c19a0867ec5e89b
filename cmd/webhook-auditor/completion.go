package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
)

// completeValues registers the completions of the flags of a few values.
func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		e, few := f.Value.(enumValue)
		if !few {
			return
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(e.values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // no such flag, or registered twice
		}
	})
}

// completeOperation completes OPERATION.
func completeOperation(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return arguments.Operations(), cobra.ShellCompDirectiveNoFileComp
}

// completeType completes TYPE; other arguments may be files.
func completeType(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var types []string
	for _, t := range arguments.ResourceTypes() {
		if typed != "" && strings.HasPrefix(t, typed) {
			types = append(types, t+"/")
		}
	}
	if len(types) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return types, cobra.ShellCompDirectiveNoSpace
}
