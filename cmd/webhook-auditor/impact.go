package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type impactFlags struct {
	source
	names          impactNames
	down           []string
	nodes, deleted []string
	// namespace is that of Services without one.
	namespace      string
	output, failOn string
}

// impactNames are those of what impact is asked with.
type impactNames struct{ configuration, down, nodes, deleted string }

func impactCommand(s streams) *cobra.Command {
	i := &impactFlags{names: impactNames{"CONFIGURATION[/NAME]", "--down", "--down-node", "--delete"}}
	c := &cobra.Command{
		Use:   "impact [TYPE/]CONFIGURATION[/NAME] | WEBHOOK | [TYPE/]POLICY | apiservice/NAME | --down NAMESPACE/SERVICE | --down-node NODE | --delete CONFIGURATION",
		Short: "Show what a webhook adds to the cluster, or what happens when its backend, a node or a configuration goes away",
		Long: `Show which requests a webhook is called for, what stops if it fails, and the way
out. With -o markdown, fill in the section "API Extensions" of an enhancement of
OpenShift.

CONFIGURATION is a webhook configuration, or a CRD with a conversion webhook. TYPE
distinguishes objects of one name: mutatingwebhookconfiguration,
validatingadmissionpolicy and so on. An aggregated API server is apiservice/NAME.

With --down, --down-node or --delete, show what happens when Services, nodes or
configurations go away: requests that are refused or pass unchecked, findings, and
the order of recovery.

Exit code: 0 nothing appears at or above --fail-on, 3 findings do; 1 some of the
input cannot be read or has no such object, 2 usage error.`,
		Example: `  # Show the impact of a webhook, for an enhancement
  webhook-auditor impact policy -o markdown

  # Show what an admission policy refuses, also where its params are missing
  webhook-auditor impact validatingadmissionpolicy/limits

  # What stops when an aggregated API server does?
  webhook-auditor impact apiservice/v1beta1.metrics.k8s.io

  # May this node be drained?
  webhook-auditor impact --down-node worker-1

  # What if one of two configurations of a name is removed?
  webhook-auditor impact --delete mutatingwebhookconfiguration/cert-manager-webhook

  # What would break if this Service were down, in a must-gather?
  webhook-auditor impact --down policy/policy --from must-gather`,
		RunE: running(s, i.run),
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("change")
	flags.StringArrayVar(&i.down, "down", nil, "Service without endpoints, as NAMESPACE/SERVICE; may be repeated")
	flags.StringVarP(&i.namespace, "namespace", "n", "", "namespace of a Service that --down names without one")
	flags.StringArrayVar(&i.nodes, "down-node", nil, "node without Pods; may be repeated")
	flags.StringArrayVar(&i.deleted, "delete", nil, "webhook configuration that is deleted, as [TYPE/]NAME; may be repeated")
	flags = groups.FlagSet("output")
	enumFlag(flags, &i.output, "output", "o", "output format", impactFormats)
	failOn(flags, &i.failOn, "if findings of this severity or higher appear")
	flags = groups.FlagSet("input")
	flags.StringArrayVar(&i.paths, "from", nil, "file, directory or archive to read instead of a cluster; may be repeated")
	i.input = policyFlags(flags)
	i.observe.register(groups.FlagSet("observation"))
	i.access = registerCluster(groups.FlagSet("cluster"))
	addFlags(c, &groups)
	c.ValidArgsFunction = completeType
	return c
}

var impactFormats = []string{"text", "json", "markdown"}

func (i *impactFlags) run(ctx context.Context, args []string, s streams) error {
	args = joined(args)
	change, err := i.change()
	if err := errors.Join(err, i.checkArguments(args), i.observe.check(i.paths)); err != nil {
		return err
	}
	evaluated, policy, err := i.evaluate(ctx, s)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		return i.card(evaluated, args[0], s)
	}
	if err = i.checkNodes(ctx, change.Missing(evaluated.Snapshot)); err == nil {
		err = change.Check(evaluated.Snapshot)
	}
	if err != nil {
		return notFound(err, report.NewErrors(evaluated.Errors), s)
	}
	consequences, err := change.Evaluate(ctx, policy, evaluated)
	if err != nil {
		return err
	}
	document := report.NewConsequences(consequences, evaluated)
	return cmp.Or(printAnswer(i.output, document, document.Errors, s), exitStatus(document.Appearing, i.failOn))
}

func (i *impactFlags) checkArguments(args []string) error {
	n, changes := i.names, len(i.down)+len(i.nodes)+len(i.deleted)
	switch {
	case len(args) > 1:
		return usageError{fmt.Errorf("impact: unexpected argument %q", args[1])}
	case len(args)+changes == 0:
		return usageError{fmt.Errorf("impact: must be given %s, %s, %s or %s", n.configuration, n.down, n.nodes, n.deleted)}
	case len(args) > 0 && (i.failOn != "critical" && i.failOn != never || i.namespace != ""):
		return usageError{errors.New("impact: --fail-on and --namespace: must be given with --down, --down-node or --delete")}
	case len(args) > 0 && changes > 0:
		return usageError{fmt.Errorf("impact: %s, %s and %s must be given without %s", n.down, n.nodes, n.deleted,
			n.configuration)}
	}
	return nil
}

func (i *impactFlags) change() (impact.Change, error) {
	c := impact.Change{Nodes: lists.Once(i.nodes)}
	for _, name := range i.deleted {
		d := impact.Configuration{Name: name}
		if t, ok := arguments.ParseTarget(name); ok {
			d.Type, d.Name = t.Type, t.Configuration
		}
		if d.Type.IsPolicy() {
			return c, usageError{fmt.Errorf("%s: must be a webhook configuration, not %q: impact %s says what a policy does,"+
				" and what follows if its bindings are deleted", i.names.deleted, name, name)}
		}
		if d.Type == inventory.Conversion {
			return c, usageError{fmt.Errorf("%s: must be a webhook configuration, not %q: a CRD goes with all of its objects",
				i.names.deleted, name)}
		}
		if !slices.Contains(c.Configurations, d) {
			c.Configurations = append(c.Configurations, d)
		}
	}
	for _, name := range i.down {
		if i.namespace != "" && !strings.Contains(name, "/") {
			name = i.namespace + "/" + name
		}
		namespace, service, ok := strings.Cut(name, "/")
		if !ok || namespace == "" || service == "" || strings.Contains(service, "/") {
			return c, usageError{fmt.Errorf("%s: must be NAMESPACE/SERVICE, not %q", i.names.down, name)}
		}
		if key := (inventory.Key{Namespace: namespace, Name: service}); !slices.Contains(c.Services, key) {
			c.Services = append(c.Services, key)
		}
	}
	return c, nil
}

// checkNodes asks the cluster for nodes on which it has nothing of a webhook.
func (i *impactFlags) checkNodes(ctx context.Context, nodes []string) error {
	if len(nodes) == 0 || len(i.paths) > 0 {
		return nil
	}
	c, err := i.access.connect()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		_, err := c.clients.Metadata(ctx, corev1.SchemeGroupVersion.WithResource("nodes"), "", node)
		switch {
		case apierrors.IsNotFound(err):
			return impact.UnknownError{What: "node", Name: node}
		case err != nil:
			return fmt.Errorf("reading node %s: %w", node, err)
		}
	}
	return nil
}

// joined makes TYPE NAME, as kubectl takes it, TYPE/NAME.
func joined(args []string) []string {
	if len(args) != 2 {
		return args
	}
	if _, ok := arguments.ResourceType(args[0]); !ok && !slices.Contains(apiServiceTypes, args[0]) {
		return args
	}
	return []string{args[0] + "/" + args[1]}
}

var apiServiceTypes = []string{"apiservice", "apiservices", "apiservices.apiregistration.k8s.io"}

func (i *impactFlags) card(r *classify.Report, named string, s streams) error {
	cards, unknown := cardsOf(r, named)
	if len(cards) == 0 {
		return notFound(unknown, report.NewErrors(r.Errors), s)
	}
	return printAnswer(i.output, report.NewImpact(cards, r.Snapshot), report.NewErrors(r.Errors), s)
}

// cardsOf are those of a configuration, which TYPE may precede, a policy or an APIService;
// the error is for where there are none. A webhook's name holds no slash, and that of a
// configuration neither.
func cardsOf(r *classify.Report, named string) ([]impact.Card, impact.UnknownError) {
	t, typed := arguments.ParseTarget(named)
	configuration, name, _ := strings.Cut(named, "/")
	switch {
	case slices.Contains(apiServiceTypes, configuration):
		return impact.APIServiceCards(r, name), impact.UnknownError{
			What: "APIService of an aggregated API server", Name: name, Known: impact.AggregatedAPIs(r.Snapshot),
		}
	case typed && t.Type.IsPolicy():
		return impact.PolicyCards(r, t.Ref),
			impact.UnknownError{What: arguments.ResourceOf(t.Type), Name: t.Configuration, Known: namesOf(r.Snapshot)}
	}
	cards := append(impact.Cards(r, configuration, name), impact.PolicyCards(r, inventory.Ref{Configuration: named})...)
	if typed && len(cards) == 0 {
		_, named, _ = strings.Cut(named, "/")
		cards = slices.DeleteFunc(impact.Cards(r, t.Configuration, t.Name),
			func(c impact.Card) bool { return c.Profile.Type != t.Type })
	}
	if len(cards) == 0 && name == "" && configuration != "" {
		cards = impact.Cards(r, "", configuration) // a webhook's name, as errors and alerts have it
	}
	return cards, impact.UnknownError{What: "webhook, configuration or policy", Name: named, Known: namesOf(r.Snapshot)}
}

// namesOf are the policies, the configurations and their webhooks, as impact takes them.
func namesOf(s *inventory.Snapshot) []string {
	out := lists.Map(s.Policies, func(p *inventory.AdmissionPolicy) string { return p.Name })
	for _, w := range s.Webhooks {
		out = append(out, w.Configuration)
		if w.Name != "" {
			out = append(out, w.Configuration+"/"+w.Name)
		}
	}
	return lists.Distinct(out)
}

// notFound says why a name is not in the input, with the names that it has, behind what of it
// cannot be read: the name may be there.
func notFound(err error, errs []report.Error, s streams) error {
	var unknown impact.UnknownError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		err = fmt.Errorf("%w%s", err, arguments.Suggested(arguments.Like(unknown.Name, unknown.Known)))
	}
	if printErrors(errs, s) != nil {
		err = fmt.Errorf("in what can be read: %w", err)
	}
	return err
}
