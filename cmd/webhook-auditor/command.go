package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

const program = "webhook-auditor"

type streams struct {
	reader   io.Reader
	out, err io.Writer
	// readerName is that of the reader in messages, where it is not the standard input.
	readerName string
}

// action runs a command with the arguments that are no flags.
type action func(ctx context.Context, args []string, s streams) error

const (
	exitOK       = 0
	exitError    = 1 // some of the input cannot be read
	exitUsage    = 2
	exitFindings = 3
)

type usageError struct{ error }

// ranError is the error of a command that ran; cobra's own errors are all of the
// command line.
type ranError struct{ error }

// errFindings means that there are findings at or above --fail-on, and
// errIncomplete that some of the input cannot be read. The report has printed
// both already.
var (
	errFindings   = errors.New("findings at or above --fail-on")
	errIncomplete = errors.New("some of the input cannot be read")
)

// exit prints an error, once, and returns the exit code.
func exit(err error, stderr io.Writer) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errIncomplete):
		return exitError
	case errors.Is(err, errFindings):
		return exitFindings
	}
	complain(stderr, "%v", err)
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

func run(ctx context.Context, args []string, s streams) error {
	out := &display{Writer: s.out, color: "auto"}
	s.out, s.err = out, messages{s.err}
	root := newRoot(displayName(os.Args[0]), s)
	out.register(root.PersistentFlags())
	if strings.HasPrefix(filepath.Base(os.Args[0]), completionPrefix) {
		args = slices.Concat([]string{cobra.ShellCompRequestCmd}, args)
	}
	if len(args) == 0 {
		fmt.Fprint(s.err, root.UsageString())
		return usageError{errors.New("missing command")}
	}
	root.SetArgs(args)
	root.PersistentPreRunE = func(c *cobra.Command, rest []string) error {
		return cmp.Or(givenOnce(c.Flags(), args), readsOnce(c, rest))
	}
	err := root.ExecuteContext(ctx)
	var ran ranError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ran):
		return ran.error
	}
	return usageError{err}
}

// completionPrefix begins the name by which kubectl runs what completes the
// arguments of a plugin.
const completionPrefix = "kubectl_complete-"

// displayName is the program as its user calls it: kubectl runs a plugin by the
// name of its file.
func displayName(file string) string {
	if strings.HasPrefix(filepath.Base(file), "kubectl-") {
		return "kubectl " + program
	}
	return program
}

func newRoot(name string, s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   program,
		Short: "Audit the admission and conversion webhooks of a cluster",
		Long: `webhook-auditor reports what the admission and conversion webhooks of a cluster
intercept, whether they work, and what fails if they do not. It only reads: it
never changes a webhook.`,
		Example: `  # See what it reports, without a cluster
  webhook-auditor demo

  # Report on the cluster of the current kubeconfig context
  webhook-auditor audit

  # Show which webhooks the creation of a Pod meets
  webhook-auditor explain create pods -n default`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Version:       builtFrom(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(s.reader)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		near := ""
		if errors.As(err, &unknown) {
			var names []string
			c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
			near = arguments.Suggested(text.Similar("--"+unknown.GetSpecifiedName(), names, 1))
		}
		return fmt.Errorf("%w%s; see %s --help", err, near, c.CommandPath())
	})
	root.AddGroup(&cobra.Group{ID: "questions", Title: "Commands:"}, &cobra.Group{ID: "advanced", Title: "Advanced:"})
	addGroup(root, "questions", auditCommand(s), (&explain{}).command(s), impactCommand(s), topCommand(s), diffCommand(s),
		runCommand(s), demoCommand(s), checksCommand(s))
	addGroup(root, "advanced", mcpCommand(s), printCommand(s), scrapeCommand(s), versionCommand(s))
	root.SetHelpCommandGroupID("advanced")
	root.SetCompletionCommandGroupID("advanced")
	root.InitDefaultCompletionCmd()
	return root
}

// givenOnce refuses two values of a flag that takes one, which read as if both counted. One of few
// values, a number or a duration may be overridden, and what names the cluster, as with kubectl.
func givenOnce(flags *pflag.FlagSet, args []string) (repeated error) {
	values := map[string]string{}
	_ = flags.ParseAll(args, func(f *pflag.Flag, value string) error { // what cannot be parsed is refused later
		_, few := f.Value.(enumValue)
		overrides := few || f.Value.Type() != "string" || f.Name == "context" || f.Name == "kubeconfig"
		before, isGiven := values[f.Name]
		if isGiven && before != value && !overrides {
			repeated = fmt.Errorf("--%s: must be given once, not as %q and %q", f.Name, before, value)
		}
		values[f.Name] = value
		return repeated
	})
	return repeated
}

// readsOnce refuses standard input for two of the inputs of a command: the second would be
// empty.
func readsOnce(c *cobra.Command, args []string) error {
	inputs := slices.Clone(args)
	for _, name := range []string{"from", "filename", "error", "audit-log"} {
		if f := c.Flags().Lookup(name); f == nil {
			continue
		} else if list, ok := f.Value.(pflag.SliceValue); ok {
			inputs = append(inputs, list.GetSlice()...)
		} else {
			inputs = append(inputs, f.Value.String())
		}
	}
	if inputs = slices.DeleteFunc(inputs, func(path string) bool { return path != "-" }); len(inputs) > 1 {
		return usageError{fmt.Errorf("%s: standard input (-) must be given once, not %d times", c.Name(), len(inputs))}
	}
	return nil
}

// addGroup adds the commands in this order: the first of a group are asked for most.
func addGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
	}
	root.AddCommand(commands...)
}

// running makes an action one of cobra's: it ends soon after its context.
func running(s streams, do action) func(*cobra.Command, []string) error {
	return untilStopped(s, func(ctx context.Context, args []string, s streams) error {
		return interrupted(ctx, func() error { return do(ctx, args, s) })
	})
}

// untilStopped is running for what ends with its context, in its own time.
func untilStopped(s streams, do action) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := do(c.Context(), args, s); err != nil {
			return ranError{err}
		}
		return nil
	}
}

// addFlags gives a command its flags, which its help lists by group.
func addFlags(c *cobra.Command, groups *cliflag.NamedFlagSets) {
	c.Flags().SortFlags = false
	for _, name := range groups.Order {
		c.Flags().AddFlagSet(groups.FlagSets[name])
	}
	completeValues(c)
	if c.Flags().Lookup("observe") != nil {
		c.MarkFlagsMutuallyExclusive("observe", "prometheus-url")
	}
	c.SetUsageFunc(func(c *cobra.Command) error {
		fmt.Fprintf(c.OutOrStderr(), "Usage:\n  %s\n", c.UseLine())
		if c.HasExample() {
			fmt.Fprintf(c.OutOrStderr(), "\nExamples:\n%s\n", c.Example)
		}
		width, _ := terminal(c.OutOrStderr())
		cliflag.PrintSections(c.OutOrStderr(), sections(groups), width)
		return nil
	})
}

// expert are the flags that most users never need: help lists them last.
var expert = []string{
	"aggregator-routing", "as", "as-group", "request-timeout", "offline", "probe.urls", "prometheus-ca-file", "prometheus-selector", "prometheus-token-file",
	"settle", "degraded", "degraded.inertia", "web.allow-anonymous", "web.allow-http", "web.allowed-hosts",
	"web.max-series", "web.observed-metrics", "web.trusted-user", "api-version",
}

// sections are the groups of flags for a help, those of experts apart.
func sections(groups *cliflag.NamedFlagSets) cliflag.NamedFlagSets {
	var out, last cliflag.NamedFlagSets
	for _, name := range groups.Order {
		groups.FlagSets[name].VisitAll(func(f *pflag.Flag) {
			if slices.Contains(expert, f.Name) {
				last.FlagSet("advanced").AddFlag(f)
			} else {
				out.FlagSet(name).AddFlag(f)
			}
		})
	}
	if len(last.Order) > 0 {
		out.FlagSet("advanced").AddFlagSet(last.FlagSets["advanced"])
	}
	return out
}

// enumFlag registers a flag that takes one of a few values, the first of which is its default.
func enumFlag(flags *pflag.FlagSet, target *string, name, shorthand, usage string, values []string) {
	*target = values[0]
	flags.VarP(enumValue{target, values}, name, shorthand, usage+": "+strings.Join(values, ", "))
}

type enumValue struct {
	target *string
	values []string
}

func (e enumValue) String() string {
	if e.target == nil { // pflag asks for that of none
		return ""
	}
	return *e.target
}

func (e enumValue) Set(value string) error {
	if !slices.Contains(e.values, value) {
		return fmt.Errorf("must be one of %s", strings.Join(e.values, ", "))
	}
	*e.target = value
	return nil
}

func (enumValue) Type() string { return "string" }

func failOn(flags *pflag.FlagSet, target *string, usage string) {
	enumFlag(flags, target, "fail-on", "", "exit with code 3 "+usage, []string{"critical", "warning", "info", "never"})
}

const interruptGrace = 300 * time.Millisecond

// interrupted runs what ends by itself and, once the context has ended, leaves
// it soon: it may be in a system call, a credential plugin or a long computation.
func interrupted(ctx context.Context, do func() error) error {
	result := make(chan error, 1)
	go func() { result <- do() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return err
	case <-time.After(interruptGrace):
		return context.Cause(ctx)
	}
}

func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		e, few := f.Value.(enumValue)
		if !few {
			return
		}
		if err := c.RegisterFlagCompletionFunc(f.Name,
			cobra.FixedCompletions(e.values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // no such flag, or registered twice
		}
	})
}

func completeOperation(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return arguments.Operations(), cobra.ShellCompDirectiveNoFileComp
}

// completeType completes TYPE; other arguments may be files.
func completeType(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	types := lists.Filter(arguments.ResourceTypes(),
		func(t string) bool { return typed != "" && strings.HasPrefix(t, typed) })
	if len(types) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return lists.Map(types, func(t string) string { return t + "/" }), cobra.ShellCompDirectiveNoSpace
}
