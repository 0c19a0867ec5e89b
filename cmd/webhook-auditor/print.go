package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// artifact is something that is derived from the code: it can be printed, its
// files are committed, and a test compares the two.
type artifact struct {
	name, summary string
	// files are what is committed, by path from the root of the project.
	files func() (map[string][]byte, error)
	// print registers the flags of the artifact, if any, and returns what it is by them; nil
	// where its command takes arguments.
	print func(*pflag.FlagSet) content
}

// content is a text that is made, or why it cannot be.
type content func() ([]byte, error)

func printCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "print NAME",
		Short: "Print what this binary checks, exports and ships",
		Long: `Print what this very binary checks, exports and ships: its documentation, alerts,
dashboards and manifests.`,
		Example: `  # Print the alerts as a file of Prometheus, with a threshold of one's own
  webhook-auditor print rules --form prometheus --threshold WebhookFailingOpen=0.1

  # Print all that a cluster applies
  webhook-auditor print install --image registry.example.com/webhook-auditor:v1`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("print: missing name: must be one of %s", names(c))
			}
			return fmt.Errorf("print: unknown name %q%s: must be one of %s", args[0], arguments.Suggested(c.SuggestionsFor(args[0])), names(c))
		},
		// With Args, it never runs; without Run, cobra would print the help and succeed.
		RunE:                       func(*cobra.Command, []string) error { return nil },
		SuggestionsMinimumDistance: 2,
		DisableFlagsInUseLine:      true,
	}
	for _, a := range artifacts() {
		if a.print != nil {
			c.AddCommand(artifactCommand(s, a.name, a.summary, a.print))
		}
	}
	c.AddCommand(schemaCommand(s), artifactCommand(s, "all", "every file that is derived from the code, with --write DIR", allFlags))
	return c
}

func names(c *cobra.Command) string {
	available := lists.Filter(c.Commands(), (*cobra.Command).IsAvailableCommand)
	return strings.Join(lists.Map(available, (*cobra.Command).Name), ", ")
}

var printExamples = map[string]string{
	"all": `  # Write what is derived from the code into a checkout
  webhook-auditor print all --write .`,
	"bundle": `  # Print the bundle of a release
  webhook-auditor print bundle --bundle-version 1.2.3 --image registry.example.com/webhook-auditor:v1.2.3`,
	"checks": `  webhook-auditor print checks > checks.md`,
	"crd":    `  webhook-auditor print crd | kubectl apply -f -`,
	"dashboards": `  # Print the boards as ConfigMaps for the sidecar of Grafana
  webhook-auditor print dashboards --form configmap | kubectl apply -n monitoring -f -`,
	"install": `  webhook-auditor print install --image registry.example.com/webhook-auditor:v1.2.3 | kubectl apply -f -`,
	"metrics": `  webhook-auditor print metrics > metrics.md`,
	"policy":  `  webhook-auditor print policy > policy.md`,
	"rbac": `  # Print what the auditor is granted on OpenShift besides
  webhook-auditor print rbac --openshift`,
	"registration-warnings": `  webhook-auditor print registration-warnings --config policy.yaml | kubectl apply -f -`,
	"rules": `  # Print the alerts as a file of Prometheus, with another threshold
  webhook-auditor print rules --form prometheus --threshold WebhookFailingOpen=0.1

  # Apply the alerts where the Prometheus Operator selects rules by a label
  webhook-auditor print rules -n monitoring --labels release=prometheus | kubectl apply -f -

  # Record the summary that a store of many clusters needs of each
  webhook-auditor print rules --fleet-summary -n monitoring | kubectl apply -f -`,
	"run-level-guard": `  webhook-auditor print run-level-guard --config policy.yaml | kubectl apply -f -`,
}

func artifactCommand(s streams, name, summary string,
	register func(*pflag.FlagSet) content,
) *cobra.Command {
	c := &cobra.Command{
		Use:               name,
		Short:             "Print " + summary,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Example:           printExamples[name],
	}
	printed := register(c.Flags())
	completeValues(c)
	c.RunE = running(s, func(_ context.Context, _ []string, s streams) error {
		text, err := printed()
		var ofFile *fs.PathError
		if err != nil && !errors.As(err, &ofFile) { // all else that fails is by the flags
			return usageError{fmt.Errorf("print %s: %w", name, err)}
		}
		if err != nil {
			return err
		}
		_, err = s.out.Write(text)
		return err
	})
	return c
}

// allFlags is "print all --write DIR", which updates a checkout.
func allFlags(flags *pflag.FlagSet) content {
	dir := flags.String("write", "", "directory of the checkout to write to")
	return func() (names []byte, err error) {
		if *dir == "" {
			return nil, errors.New("--write: must be the directory of a checkout")
		}
		for _, a := range artifacts() {
			if names, err = a.write(*dir, names); err != nil {
				return names, err
			}
		}
		return names, nil
	}
}

// write writes the artifact's files where they differ, and adds their names.
func (a artifact) write(dir string, names []byte) ([]byte, error) {
	files, err := a.files()
	if err != nil {
		return names, fmt.Errorf("deriving %s: %w", a.name, err)
	}
	for name, want := range files {
		path := filepath.Join(dir, name)
		if have, err := os.ReadFile(path); err == nil && string(have) == string(want) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return names, fmt.Errorf("writing derived files: %w", err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			return names, fmt.Errorf("writing derived files: %w", err)
		}
		names = fmt.Appendf(names, "wrote %s\n", name)
	}
	return names, nil
}

func schemaCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "schema NAME",
		Short: "Print the JSON Schema of what commands print with -o json",
		Long: `Print the JSON Schema of what commands print with -o json. The names:
` + schemaNames(),
		Example: `  # Validate a report
  webhook-auditor print schema audit > audit.schema.json`,
	}
	c.ValidArgs = lists.Map(report.Schemas, func(schema report.Schema) string { return schema.Name })
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || !slices.Contains(c.ValidArgs, args[0]) {
			return fmt.Errorf("print schema: must be given one NAME of %s", strings.Join(c.ValidArgs, ", "))
		}
		return nil
	}
	c.RunE = running(s, func(_ context.Context, args []string, s streams) error {
		return report.Schemas[slices.Index(c.ValidArgs, args[0])].WriteSchema(s.out)
	})
	return c
}

func schemaNames() string {
	var b strings.Builder
	for _, schema := range report.Schemas {
		fmt.Fprintf(&b, "\n- %-18s %s", schema.Name, schema.Command)
	}
	return b.String()
}

func schemaFiles() (map[string][]byte, error) {
	out := map[string]content{}
	for _, schema := range report.Schemas {
		out["cmd/webhook-auditor/schema/"+schema.Name+".json"] = printed(schema.WriteSchema)
	}
	return rendered(out)
}
