package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// valuesAnnotation holds the values that a flag takes.
const valuesAnnotation = "webhook-auditor/values"

// setValues records the values that a flag takes, for completion.
func setValues(flags *pflag.FlagSet, name string, values []string) {
	f := flags.Lookup(name)
	f.Annotations = map[string][]string{valuesAnnotation: values}
}

// completeValues registers the completions of the flags whose values are recorded.
func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		values := f.Annotations[valuesAnnotation]
		if len(values) == 0 {
			return
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // no such flag, or registered twice
		}
	})
}

// serverVersions are the values of --server-version that this binary supports.
func serverVersions() []string {
	var out []string
	for v := inventory.Oldest; v.Minor <= inventory.Newest.Minor; v.Minor++ {
		out = append(out, v.String())
	}
	return out
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
