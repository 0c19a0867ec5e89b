package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/manifests"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// patchesCommand is "print run-level-patches": unlike the artifacts, it is
// derived from a cluster or from files.
func patchesCommand(s streams) *cobra.Command {
	a := &audit{}
	c := &cobra.Command{
		Use:   "run-level-patches [PATH…|-]",
		Short: "Print what keeps webhooks registered before the run-level guard off run level 0",
		Long: `Print what keeps webhooks registered before the run-level guard off run level 0:
configurations for "kubectl apply", of a cluster or of files.`,
		Example: `  # Review, then apply
  webhook-auditor print run-level-patches > patches.yaml
  kubectl apply -f patches.yaml`,
	}
	var groups cliflag.NamedFlagSets
	a.input = inputFlags(groups.FlagSet("input"))
	a.access = registerCluster(groups.FlagSet("cluster"))
	addFlags(c, &groups)
	c.RunE = running(s, a.patches)
	return c
}

// patches prints the patches of a cluster or of files.
func (a *audit) patches(ctx context.Context, paths []string, s streams) error {
	policy, err := a.input.policy()
	if err != nil {
		return err
	}
	a.from = paths
	evaluated, err := a.evaluate(ctx, policy, s)
	if err != nil {
		return err
	}
	applied := map[string]string{}
	if len(paths) == 0 {
		if applied, err = a.access.lastApplied(ctx); err != nil {
			return err
		}
	}
	b, err := manifests.RunLevelPatches(evaluated.Profiles, func(o inventory.Object) string {
		return cmp.Or(applied[o.Kind+"/"+o.Name], o.Annotations[manifests.LastApplied])
	})
	if err != nil {
		return err
	}
	return printPatches(b, report.NewDocument(evaluated), s)
}

func printPatches(b []byte, d report.Document, s streams) error {
	if len(b) == 0 {
		fmt.Fprintln(s.err, "nothing to apply: every webhook keeps off run level 0, or opted in to it")
	}
	if _, err := s.out.Write(b); err != nil {
		return fmt.Errorf("writing the patches: %w", err)
	}
	return printErrors(d.Errors, s)
}

// lastApplied reads what "kubectl apply" recorded of the configurations, by
// kind and name. The inventory does not keep it.
func (a *clusterFlags) lastApplied(ctx context.Context) (map[string]string, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to reach %s: %w", config.Host, err)
	}
	out := map[string]string{}
	for _, t := range []inventory.Type{inventory.Mutating, inventory.Validating} {
		list, err := client.Resource(t.Resource()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading what was last applied: %w", err)
		}
		for _, o := range list.Items {
			out[t.RegisteredBy().Kind+"/"+o.Name] = o.Annotations[manifests.LastApplied]
		}
	}
	return out, nil
}
