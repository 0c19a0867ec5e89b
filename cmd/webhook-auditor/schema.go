package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// schemaCommand is "print schema NAME".
func schemaCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "schema NAME",
		Short: "Print the JSON Schema of what commands print with -o json",
		Long: `Print the JSON Schema of what commands print with -o json. The names:
` + schemaNames(),
		Example: `  # Validate a report
  webhook-auditor print schema audit > audit.schema.json`,
	}
	var names []string
	for _, schema := range report.Schemas {
		names = append(names, schema.Name)
	}
	c.ValidArgsFunction = cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
	c.RunE = running(s, func(_ context.Context, args []string, s streams) error {
		if len(args) == 1 {
			for _, schema := range report.Schemas {
				if schema.Name == args[0] {
					return schema.WriteSchema(s.out)
				}
			}
		}
		return usageError{fmt.Errorf("print schema: must have one name, one of %s", strings.Join(names, ", "))}
	})
	return c
}

func schemaNames() string {
	var b strings.Builder
	for _, schema := range report.Schemas {
		fmt.Fprintf(&b, "\n  %-15s %s", schema.Name, schema.Command)
	}
	return b.String()
}

func schemaFiles() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, schema := range report.Schemas {
		var b bytes.Buffer
		if err := schema.WriteSchema(&b); err != nil {
			return nil, err
		}
		out["cmd/webhook-auditor/schema/"+schema.Name+".json"] = b.Bytes()
	}
	return out, nil
}
