package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/page"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

type audit struct {
	source
	output       string
	failOn       string
	fixes, quiet bool
	// served says that no page is to be offered: it follows, or a tool asks.
	served bool
	// baseline is the file of the report to compare with.
	baseline  string
	namespace namespaceFlags
}

const auditExamples = `  # Report on the cluster of the current kubeconfig context
  webhook-auditor audit

  # Report on one configuration, and on the webhooks of one namespace
  webhook-auditor audit validatingwebhookconfiguration/policy
  webhook-auditor audit -n cert-manager

  # Print what to do about each finding
  webhook-auditor audit --fixes

  # Report on manifests before they are applied
  helm template policy | webhook-auditor audit -

  # Show what changed since an earlier report
  webhook-auditor audit -o json --fail-on never > before.json
  webhook-auditor audit --baseline before.json`

func auditCommand(s streams) *cobra.Command {
	a := &audit{}
	c := &cobra.Command{
		Use:     "audit [PATH…|-] [TYPE/NAME[/WEBHOOK]…|TYPE [NAME…]]",
		Short:   "Report what is wrong with the webhooks of a cluster or of files",
		Example: auditExamples,
		Long: `Report what is wrong with the webhooks of a cluster or of files.

Without a PATH, the cluster of the kubeconfig is read. A PATH is a file, a
directory or an archive: YAML, JSON, a must-gather, "-" for standard input.
TYPE/NAME, TYPE or TYPE NAME narrows the report: TYPE is
validatingwebhookconfiguration, mutatingwebhookconfiguration or crd. A file that
exists is a PATH.

Exit code: 0 nothing at or above --fail-on, 1 some of the input cannot be read,
2 usage error, 3 findings at or above --fail-on.`,
		RunE: running(s, a.run),
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("report")
	enumFlag(flags, &a.output, "output", "o", "output format", formats)
	flags.BoolVar(&a.fixes, "fixes", false, "print what to do about each finding: commands for a cluster, YAML for a file")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print only how many findings there are, and what stops now")
	failOn(flags, &a.failOn, "on findings of this severity or higher")
	flags.StringVar(&a.baseline, "baseline", "", "file written by audit -o json: show only findings added or resolved since this report; the exit code counts added ones")
	a.namespace.register(flags, "report on")
	a.input = inputFlags(groups.FlagSet("input"))
	a.input.allowEmptyFlag(flags)
	a.access = registerCluster(groups.FlagSet("cluster"))
	a.probe.register(groups.FlagSet("probe"))
	a.observe.register(groups.FlagSet("observation"))
	addFlags(c, &groups)
	c.ValidArgsFunction = completeType
	return c
}

func (a *audit) run(ctx context.Context, args []string, s streams) error {
	targets, paths := arguments.SplitTargets(args)
	a.paths = paths
	selected := selection{targets, a.namespace.selected()}
	if err := a.check(paths); err != nil {
		return err
	}
	before, err := a.before()
	if err != nil {
		return err
	}
	evaluated, _, err := a.evaluate(ctx, s)
	if err != nil {
		return err
	}
	document := report.NewDocument(evaluated)
	if err := errors.Join(a.input.checkRead(paths, evaluated.Snapshot), selected.check(document, s)); err != nil {
		return err
	}
	document = selected.narrowed(document, evaluated)
	switch {
	case a.baseline != "" && a.output != "sarif" && len(document.Errors) > 0 && isEmpty(evaluated.Snapshot):
		return printErrors(document.Errors, s) // all would pass for resolved
	case a.baseline != "":
		return a.compare(selected.narrowed(before, evaluated), document, s)
	}
	if a.output == htmlFormat {
		err = page.WriteFile(s.out, evaluated, document, version.Version)
	} else {
		err = a.write(document, s)
	}
	return cmp.Or(err, printErrors(document.Errors, s), exitStatus(document.Findings, a.failOn))
}

// checkRead refuses a PATH that holds nothing to audit: one that is wrong would pass for
// ever.
func (in *input) checkRead(paths []string, s *inventory.Snapshot) error {
	if len(paths) == 0 || in.allowEmpty || len(s.Errors) > 0 || !isEmpty(s) {
		return nil
	}
	var reasons []string
	for _, input := range s.Inputs {
		for _, lack := range input.Lacks {
			if !strings.HasPrefix(lack, "no ") && !strings.HasPrefix(lack, "Service") {
				reasons = append(reasons, lack)
			}
		}
	}
	if len(reasons) == 0 {
		reasons = []string{"no webhook configuration, CRD or admission policy in it" + in.emptyAdvice}
	}
	names := lists.Map(s.Inputs, inventory.Input.Name)
	return fmt.Errorf("reading %s: %s", strings.Join(names, ", "), strings.Join(reasons, "; "))
}

func isEmpty(s *inventory.Snapshot) bool {
	return len(s.Webhooks)+len(s.Policies)+len(s.Unbound)+len(s.CRDs) == 0
}

func (a *audit) check(paths []string) error {
	if err := errors.Join(a.probe.check(paths), a.observe.check(paths)); err != nil {
		return err
	}
	if a.input.allowEmpty && len(paths) == 0 {
		return usageError{errors.New("--allow-empty: must be given with PATH: a cluster may be empty")}
	}
	if a.output == htmlFormat && a.baseline != "" {
		return usageError{errors.New("-o html: must be given without --baseline: the file shows one report")}
	}
	for _, path := range paths {
		if hint := arguments.MaybeTarget(path); hint != "" {
			return usageError{fmt.Errorf("reading %s: no such file or directory%s", path, hint)}
		}
	}
	return nil
}

// before reads the report that a change is measured against, if any.
func (a *audit) before() (report.Document, error) {
	if a.baseline == "" {
		return report.Document{}, nil
	}
	f, err := os.Open(a.baseline)
	if err != nil {
		return report.Document{}, usageError{fmt.Errorf("--baseline: %w", err)}
	}
	defer f.Close()
	d, err := report.ReadDocument(f)
	if err != nil {
		return report.Document{}, usageError{fmt.Errorf("--baseline %s: %w", a.baseline, err)}
	}
	return d, nil
}

// compare prints what the change adds and resolves; what it adds makes the exit
// code.
func (a *audit) compare(before, after report.Document, s streams) error {
	c := report.NewComparison(before, after)
	c.LeaveOpen(before, after, a.probe.mode == "tls")
	var err error
	if a.output == "sarif" {
		err = a.write(c.Document(), s)
	} else {
		err = show(a.output, c, s)
	}
	return cmp.Or(err, printErrors(c.Errors, s), exitStatus(c.Added, a.failOn))
}

func (a *audit) write(d report.Document, s streams) error {
	if a.output == "sarif" {
		return report.WriteSARIF(s.out, d, version.Version)
	}
	o := formatOptions(a.output, s)
	o.Fixes, o.Quiet, o.Served = a.fixes, a.quiet, a.served
	return report.Write(s.out, a.output, d, o)
}

// defaultWidth is how wide a text is that is for no terminal.
const defaultWidth = 100

// formatOptions wrap a text; with -v it is for grep, and a table for scripts.
func formatOptions(format string, s streams) report.TextOptions {
	o := textOptions(s.out)
	if format == "text" && !o.Verbose {
		o.Piped, o.Width = o.Width == 0, cmp.Or(o.Width, defaultWidth)
	}
	return o
}

func show(format string, v report.View, s streams) error {
	return report.Write(s.out, format, v, formatOptions(format, s))
}

func printAnswer(format string, v report.View, errs []report.Error, s streams) error {
	return cmp.Or(show(format, v, s), printErrors(errs, s))
}

// printErrors prints on stderr what cannot be read; the answer is incomplete then.
func printErrors(errs []report.Error, s streams) error {
	if len(errs) == 0 {
		return nil
	}
	if err := report.WriteErrors(unfiltered(s.err), errs, textOptions(s.err)); err != nil {
		return fmt.Errorf("writing the errors: %w", err)
	}
	if slices.ContainsFunc(errs, func(e report.Error) bool { return e.Forbidden }) {
		complain(s.err, grants)
	}
	return errIncomplete
}

// grants is for a user who lacks rights.
const grants = "the ClusterRole webhook-auditor grants all that is read: bind it to the user, after webhook-auditor print rbac | kubectl apply -f -"

// exitStatus is the error of findings at or above --fail-on, which is an exit code.
func exitStatus(findings []report.Finding, failOn string) error {
	var limit classify.Severity
	_ = limit.UnmarshalText([]byte(failOn)) // "never" is none
	if limit != 0 && slices.ContainsFunc(findings,
		func(f report.Finding) bool { return !f.Acknowledged && f.Severity >= limit }) {
		return errFindings
	}
	return nil
}

// source is where a command reads from: a cluster, or the files of from; with what is
// dialed and observed besides.
type source struct {
	access *clusterFlags
	input  *input
	// applied, if any, is what a cluster is to be compared with: what that calls is read, too.
	applied *inventory.Objects
	// byUser says that the answer depends on who asks, with files as well.
	byUser  bool
	paths   []string
	probe   probeFlags
	observe observeFlags
}

// objects are those of the files, of a cluster whose API server routes as the flag says, else
// those of the cluster.
func (o *source) objects(ctx context.Context, s streams) (inventory.Objects, error) {
	if len(o.paths) == 0 {
		return o.clusterObjects(ctx, s)
	}
	if err := o.check(); err != nil {
		return inventory.Objects{}, err
	}
	objects, err := o.input.objects(o.paths, s)
	objects.Routing = cmp.Or(routings[o.access.routing], objects.Routing)
	return objects, err
}

func (o *source) check() error {
	if flags := o.withoutCluster(); len(o.paths) > 0 && len(flags) > 0 {
		return usageError{fmt.Errorf("%s: must be given without files: they are of no cluster", strings.Join(flags, ", "))}
	}
	return nil
}

// withoutCluster are the flags that have no effect without a cluster.
func (o *source) withoutCluster() []string {
	a, user := o.access, o.access.overrides.AuthInfo
	if o.byUser {
		user.Impersonate, user.ImpersonateGroups = "", nil
	}
	var out []string
	for _, flag := range []struct {
		name    string
		isGiven bool
	}{
		{"--kubeconfig", a.kubeconfig != ""},
		{"--context", a.context != ""},
		{"--as", user.Impersonate != ""},
		{"--as-group", len(user.ImpersonateGroups) > 0},
		{"--request-timeout", cmp.Or(a.overrides.Timeout, "0") != "0"},
	} {
		if flag.isGiven {
			out = append(out, flag.name)
		}
	}
	return out
}

func (o *source) snapshot(ctx context.Context, s streams) (*inventory.Snapshot, error) {
	observed := o.observe.start(ctx, o.access, s)
	objects, err := o.objects(ctx, s)
	if err != nil {
		return nil, err
	}
	snapshot, err := o.probe.dial(ctx, o.access, objects.Snapshot(collected(objects.Inputs, time.Now())), s)
	if err != nil {
		return nil, err
	}
	return observed(snapshot), nil
}

// snapshotIfPossible is for what has an answer without a cluster: where none is
// configured, and where the one that is cannot be read, which its errors say, nothing is
// read, and the Snapshot has what the audit logs record alone.
func (o *source) snapshotIfPossible(ctx context.Context, s streams) (_ *inventory.Snapshot, isRead bool, _ error) {
	nothing := inventory.Objects{}
	if len(o.paths) > 0 || o.access.isConfigured() {
		snapshot, err := o.snapshot(ctx, s)
		if err == nil || len(o.paths) > 0 || errors.Is(ctx.Err(), context.Canceled) {
			return snapshot, err == nil, err
		}
		nothing.Errors = []inventory.Error{{Object: "the cluster", Message: err.Error(), Resources: inventory.AnyResource}}
	}
	return o.observe.audit.addTo(ctx, nothing.Snapshot(time.Now()), s), false, nil
}

func (o *source) evaluateIfPossible(ctx context.Context, s streams) (_ *classify.Report, isRead bool, _ error) {
	policy, err := o.input.policy()
	if err != nil {
		return nil, false, err
	}
	snapshot, isRead, err := o.snapshotIfPossible(ctx, s)
	if err != nil {
		return nil, false, err
	}
	evaluated, err := policy.Evaluate(context.WithoutCancel(ctx), snapshot)
	return evaluated, isRead, err
}

// evaluate reads and evaluates, and returns by which Policy.
func (o *source) evaluate(ctx context.Context, s streams) (*classify.Report, classify.Policy, error) {
	policy, err := o.input.policy()
	if err != nil {
		return nil, policy, err
	}
	snapshot, err := o.snapshot(ctx, s)
	if err != nil {
		return nil, policy, err
	}
	evaluated, err := policy.Evaluate(ctx, snapshot)
	return evaluated, policy, err
}

func (o *source) clusterObjects(ctx context.Context, s streams) (inventory.Objects, error) {
	c, err := o.access.connect()
	if err != nil {
		return inventory.Objects{}, err
	}
	server, err := o.input.version(s.err)
	if err != nil {
		return inventory.Objects{}, err
	}
	line := newProgress(s.err)
	defer line.clear()
	objects, err := cluster.Read(ctx, c.clients, cluster.Options{Routing: c.routing, Applied: o.applied},
		func(p cluster.Progress) {
			line.show("reading %d of %d kinds: %d %s…", min(p.Done+1, p.Kinds), p.Kinds, p.Objects, p.Resource)
		})
	if unread := (inventory.Error{}); errors.As(err, &unread) && unread.Forbidden {
		err = fmt.Errorf("%w; %s", err, grants)
	}
	if err != nil {
		return objects, err
	}
	return assume(objects, server), nil
}

type input struct {
	server, config string
	// checks are opt-in checks to run beside those of the Policy.
	checks     []string
	allowEmpty bool
	// emptyAdvice ends the refusal of a PATH that holds nothing, where a flag allows it.
	emptyAdvice string
}

func (in *input) allowEmptyFlag(flags *pflag.FlagSet) {
	in.emptyAdvice = ": name another PATH, or set --allow-empty"
	flags.BoolVar(&in.allowEmpty, "allow-empty", false, "a PATH without webhooks, policies or CRDs is no error")
}

const serverVersionUsage = "Kubernetes version to assume, for example v1.36 (default: detected, else newest supported)"

func inputFlags(flags *pflag.FlagSet) *input {
	out := policyFlags(flags)
	out.checksFlag(flags)
	return out
}

// policyFlags are those without --checks, of commands that print no report.
func policyFlags(flags *pflag.FlagSet) *input {
	out := &input{}
	flags.StringVar(&out.server, "server-version", "", serverVersionUsage)
	flags.StringVar(&out.config, "config", "", configUsage)
	return out
}

const configUsage = "Policy file: classes, thresholds, budgets, platform namespaces, acknowledgements"

func (in *input) checksFlag(flags *pflag.FlagSet) {
	flags.StringSliceVar(&in.checks, "checks", nil, "opt-in checks to run as well, for example label-opt-out,any-pod-may-call")
}

// policy reads --config; without it, it is the default Policy.
func (in *input) policy() (classify.Policy, error) {
	text, err := in.policyText()
	if err != nil {
		return classify.Policy{}, err
	}
	return in.parsePolicy(text)
}

func (in *input) policyText() ([]byte, error) {
	if in.config == "" {
		return nil, nil
	}
	if err := exist([]string{in.config}); err != nil {
		return nil, err
	}
	info, err := os.Stat(in.config)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: must be a regular file", in.config)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(in.config)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("reading the policy: %w", err)}
	}
	return text, nil
}

func (in *input) parsePolicy(text []byte) (classify.Policy, error) {
	policy, err := classify.ParsePolicy(text)
	if err != nil {
		return classify.Policy{}, usageError{fmt.Errorf("reading the policy %s: %w", in.config, err)}
	}
	if policy, err = policy.WithChecks(in.checks); err != nil {
		return classify.Policy{}, usageError{fmt.Errorf("--%w", err)}
	}
	return policy, nil
}

func (in *input) objects(paths []string, s streams) (inventory.Objects, error) {
	server, err := in.version(s.err)
	if err != nil {
		return inventory.Objects{}, err
	}
	if err := exist(paths); err != nil {
		return inventory.Objects{}, err
	}
	line := newProgress(s.err)
	objects, summary := manifest.Read(paths,
		manifest.Options{Stdin: s.reader, StdinName: s.readerName, Server: server, Progress: func(files, objects int) {
			line.show("reading: %d files, %d objects", files, objects)
		}})
	line.clear()
	objects.Inputs = summary.Inputs
	objects.Errors = append(objects.Errors, summary.Empty...)
	return assume(objects, server), nil
}

// exist refuses paths that are not there: what they lack would be taken for what a cluster
// lacks.
func exist(paths []string) error {
	for _, path := range paths {
		if path == "" {
			return usageError{errors.New("reading a PATH that is empty: no such file or directory")}
		}
		if path != "-" && !arguments.Exists(path) {
			return usageError{fmt.Errorf("reading %s: no such file or directory", path)}
		}
	}
	return nil
}

// collected is the time of the newest input, and now if that is unknown: an
// archive is evaluated as of its own time.
func collected(inputs []inventory.Input, now time.Time) time.Time {
	var newest time.Time
	for _, i := range inputs {
		if i.Taken.After(newest) {
			newest = i.Taken
		}
	}
	if newest.IsZero() || newest.After(now) {
		return now
	}
	return newest
}

// version is that of --server-version, the zero Version without it. One that is
// not recorded is evaluated as the nearest that is, with a warning.
func (in *input) version(notices io.Writer) (inventory.Version, error) {
	if in.server == "" {
		return inventory.Version{}, nil
	}
	serverVersion, err := inventory.ParseVersion(in.server)
	if err != nil {
		return serverVersion, usageError{fmt.Errorf("--server-version: %w", err)}
	}
	if nearest := serverVersion.Recorded(); nearest.Major != serverVersion.Major ||
		nearest.Minor != serverVersion.Minor {
		complain(notices, "warning: --server-version %s: this binary knows %s to %s: assuming the resources of %s",
			in.server, inventory.Oldest, inventory.Newest, nearest)
	}
	return serverVersion, nil
}

// assume makes the objects those of another release, if one is given: the feature gates
// of the current server are not those of that release. The resources stay.
func assume(objects inventory.Objects, server inventory.Version) inventory.Objects {
	if server.Known() {
		objects.Server, objects.ReviewsExcluded = server, nil
	}
	return objects
}

const htmlFormat = "html"

var formats = []string{"text", "table", "json", "markdown", "sarif", htmlFormat}
