package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

type clusterFlags struct {
	kubeconfig, context, routing string
	// named is how the user names a cluster or files.
	named     string
	overrides clientcmd.ConfigOverrides
}

func registerCluster(flags *pflag.FlagSet) *clusterFlags {
	a := registerConnection(flags)
	enumFlag(flags, &a.routing, "aggregator-routing", "", "whether the API server runs with --enable-aggregator-routing", []string{"auto", "true", "false"})
	return a
}

// registerConnection is for commands that do not look at backends.
func registerConnection(flags *pflag.FlagSet) *clusterFlags {
	a := &clusterFlags{named: "--kubeconfig and --context, or files, by PATH or --from"}
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "path to the kubeconfig (default: $KUBECONFIG, ~/.kube/config, or the service account of the Pod)")
	flags.StringVar(&a.context, "context", "", "kubeconfig context to use")
	flags.StringVar(&a.overrides.AuthInfo.Impersonate, "as", "", "user to impersonate")
	flags.StringArrayVar(&a.overrides.AuthInfo.ImpersonateGroups, "as-group", nil, "group to impersonate; may be repeated")
	flags.StringVar(&a.overrides.Timeout, "request-timeout", "0", "how long to wait for one answer of the API server, for example 30s; 0 waits for ever")
	return a
}

// loader reads the kubeconfig, or the Pod's service account where there is none.
func (a *clusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	overrides := a.overrides
	overrides.CurrentContext = a.context
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &overrides)
}

// isConfigured reports whether a kubeconfig or a Pod's service account names a cluster.
func (a *clusterFlags) isConfigured() bool {
	_, err := a.loader().ClientConfig()
	return !clientcmd.IsEmptyConfig(err)
}

func (a *clusterFlags) config() (*rest.Config, error) {
	config, err := a.loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w; name a cluster with %s", err, a.named)
	}
	config.UserAgent = "webhook-auditor"
	return config, nil
}

type connection struct {
	config  *rest.Config
	clients cluster.Clients
	routing inventory.Routing
}

func (a *clusterFlags) connect() (connection, error) {
	config, err := a.config()
	if err != nil {
		return connection{}, err
	}
	clients, err := cluster.NewClients(config)
	return connection{config, clients, routings[a.routing]}, err
}

var routings = map[string]inventory.Routing{
	"auto": inventory.RoutingUnknown, "true": inventory.RoutingEndpoints, "false": inventory.RoutingClusterIP,
}
