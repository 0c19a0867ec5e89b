package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// clusterFlags say which cluster is meant and how to read it.
type clusterFlags struct {
	kubeconfig, context, routing string
}

func registerCluster(flags *pflag.FlagSet) *clusterFlags {
	a := &clusterFlags{}
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "path of the kubeconfig (default: $KUBECONFIG, ~/.kube/config, or the Pod's service account)")
	flags.StringVar(&a.context, "context", "", "context of the kubeconfig")
	flags.StringVar(&a.routing, "aggregator-routing", "auto", "whether the API server runs with --enable-aggregator-routing: auto, true or false")
	return a
}

// config reads the kubeconfig, or the Pod's service account where there is none.
func (a *clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: a.context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w; name a cluster with --kubeconfig and --context, or audit files by their PATH", err)
	}
	config.UserAgent = "webhook-auditor"
	return config, nil
}

func parseRouting(s string) (inventory.Routing, error) {
	switch s {
	case "auto":
		return inventory.RoutingUnknown, nil
	case "true":
		return inventory.RoutingEndpoints, nil
	case "false":
		return inventory.RoutingClusterIP, nil
	}
	return "", usageError{fmt.Errorf("--aggregator-routing %q: want auto, true or false", s)}
}
