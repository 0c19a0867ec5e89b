package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

const (
	// completionTimeout is how long a shell waits for completions.
	completionTimeout = 2 * time.Second
	// maxCompletions bounds what is listed of one resource.
	maxCompletions = 500
	// valuesAnnotation holds the values that a flag takes.
	valuesAnnotation = "webhook-auditor/values"
)

// candidates returns what an argument may be; none if that cannot be read.
type candidates func(ctx context.Context) []string

// within runs the function until the context or completionTimeout ends, whichever
// is first: reading a file or running a credential plugin takes no context.
func (find candidates) within(ctx context.Context, timeout time.Duration) []string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found := make(chan []string, 1)
	go func() { found <- find(ctx) }()
	select {
	case out := <-found:
		return out
	case <-ctx.Done():
		return nil
	}
}

// complete returns a completion function of cobra.
func (find candidates) complete(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	found := slices.DeleteFunc(find.within(c.Context(), completionTimeout), func(s string) bool { return !strings.HasPrefix(s, typed) })
	return text.Distinct(found), cobra.ShellCompDirectiveNoFileComp
}

// setValues records the values that a flag takes, for completion.
func setValues(flags *pflag.FlagSet, name string, values []string) {
	f := flags.Lookup(name)
	f.Annotations = map[string][]string{valuesAnnotation: values}
}

// completeFlag registers the completion of a flag.
func completeFlag(c *cobra.Command, name string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(name, f); err != nil {
		panic(err) // no such flag, or registered twice
	}
}

// completeValues registers the completions of --context and of the flags whose values are
// recorded.
func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if names, ok := f.Value.(contextNames); ok {
			completeFlag(c, f.Name, candidates(names.contexts).complete)
		}
		if values := f.Annotations[valuesAnnotation]; len(values) > 0 {
			completeFlag(c, f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	})
}

// loading is how a shell loads the completions.
var loading = map[string]string{
	"bash":       "source <(" + program + " completion bash)",
	"fish":       program + " completion fish | source",
	"powershell": program + " completion powershell | Out-String | Invoke-Expression",
	"zsh":        "source <(" + program + " completion zsh)",
}

// exemplifyCompletion gives the commands that cobra generates their examples.
func exemplifyCompletion(root *cobra.Command) {
	for _, completion := range root.Commands() {
		for _, shell := range completion.Commands() {
			if load, ok := loading[shell.Name()]; ok {
				shell.Example = "  # Load the completions in the current shell\n  " + load
				completion.Example += "\n\n  # " + shell.Name() + "\n  " + load
			}
		}
		completion.Example = strings.TrimPrefix(completion.Example, "\n\n")
	}
}

// completeArguments completes OPERATION RESOURCE.
func (e *explain) completeArguments(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return arguments.Operations(), cobra.ShellCompDirectiveNoFileComp
	case 1:
		return candidates(e.resources).complete(c, args, typed)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// resources are the resources of the files on the command line, or of the cluster.
func (e *explain) resources(ctx context.Context) []string {
	if len(e.from) > 0 {
		return servedNames(e.input.readQuietly(e.from))
	}
	config, err := e.access.completionConfig()
	if err != nil {
		return nil
	}
	served, err := cluster.Discover(ctx, config)
	if err != nil {
		return nil
	}
	return servedNames(&inventory.Snapshot{Served: served})
}

// servedNames are the resources of a Snapshot that a webhook can be called for.
func servedNames(s *inventory.Snapshot) []string {
	var out []string
	for _, served := range s.Served {
		if len(admission.OperationsOn(served)) > 0 {
			out = append(out, served.String())
		}
	}
	return out
}

// namespaces are those of the files on the command line, or of the cluster.
func (e *explain) namespaces(ctx context.Context) []string {
	if len(e.from) > 0 {
		return slices.Collect(maps.Keys(e.input.readQuietly(e.from).Namespaces))
	}
	return e.access.namespaces(ctx)
}

// namespaces are those of the cluster.
func (a *clusterFlags) namespaces(ctx context.Context) []string {
	return a.names(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
}

// names are the objects of a resource of the cluster.
func (a *clusterFlags) names(ctx context.Context, resource schema.GroupVersionResource) []string {
	config, err := a.completionConfig()
	if err != nil {
		return nil
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	list, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: maxCompletions})
	if err != nil {
		return nil
	}
	var out []string
	for _, o := range list.Items {
		out = append(out, o.Name)
	}
	return out
}

// completionConfig is the configuration of a client that a shell waits for.
func (a *clusterFlags) completionConfig() (*rest.Config, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	config.Timeout = completionTimeout
	if config.ExecProvider != nil {
		// The shell reads the terminal.
		config.ExecProvider.StdinUnavailable = true
	}
	return config, nil
}

// contexts are the contexts of the kubeconfig.
func (a *clusterFlags) contexts(context.Context) []string {
	raw, err := a.loader().RawConfig()
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Keys(raw.Contexts))
}

// readQuietly reads files without errors and notices; it never reads standard
// input, which is the user's.
func (in *input) readQuietly(paths []string) *inventory.Snapshot {
	if slices.Contains(paths, "-") {
		return &inventory.Snapshot{}
	}
	// cobra parses the flags twice, and a repeatable flag repeats its values.
	unique := slices.Compact(slices.Sorted(slices.Values(paths)))
	s, err := in.read(unique, streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
	if err != nil {
		return &inventory.Snapshot{}
	}
	return s
}

// serverVersions are the values of --server-version that this binary supports.
func serverVersions() []string {
	var out []string
	for v := inventory.Oldest; v.Minor <= inventory.Newest.Minor; v.Minor++ {
		out = append(out, v.String())
	}
	return out
}

// completeArguments completes TYPE/NAME/WEBHOOK; other arguments are files.
func (a *audit) completeArguments(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	resource, name, isTarget := strings.Cut(typed, "/")
	registers, ok := arguments.ResourceType(resource)
	switch {
	case !isTarget && typed == "":
		return nil, cobra.ShellCompDirectiveDefault
	case !isTarget:
		types := slices.DeleteFunc(arguments.ResourceTypes(), func(s string) bool { return !strings.HasPrefix(s, typed) })
		for i := range types {
			types[i] += "/"
		}
		return types, cobra.ShellCompDirectiveNoSpace
	case !ok:
		return nil, cobra.ShellCompDirectiveDefault
	}
	_, paths := arguments.SplitTargets(args)
	configuration, _, isWebhook := strings.Cut(name, "/")
	find := candidates(func(ctx context.Context) []string {
		var out []string
		for _, w := range registered(ctx, registry{a.access, a.input, paths}, registers) {
			switch {
			case !isWebhook:
				out = append(out, resource+"/"+w.Configuration)
			case w.Configuration == configuration && w.Name != "":
				out = append(out, resource+"/"+configuration+"/"+w.Name)
			}
		}
		return out
	})
	return find.complete(c, args, typed)
}

// registry is where registered webhooks are read from: the files, or the cluster
// where there are none.
type registry struct {
	access *clusterFlags
	input  *input
	paths  []string
}

// registered are the webhooks of a type; of policies, their names alone.
func registered(ctx context.Context, from registry, t inventory.Type) []*inventory.Webhook {
	if len(from.paths) == 0 {
		return from.access.registered(ctx, t)
	}
	s := from.input.readQuietly(from.paths)
	var out []*inventory.Webhook
	for _, p := range s.Policies {
		if p.Type == t {
			out = append(out, nameOnly(inventory.Ref{Type: t, Configuration: p.Name}))
		}
	}
	return append(out, slices.DeleteFunc(s.Webhooks, func(w *inventory.Webhook) bool { return w.Type != t })...)
}

func nameOnly(ref inventory.Ref) *inventory.Webhook {
	return &inventory.Webhook{Registration: inventory.Registration{Ref: ref}}
}

// registered are the webhooks of a type in the cluster; of CRDs, which are large, and of
// policies, the names alone.
func (a *clusterFlags) registered(ctx context.Context, t inventory.Type) []*inventory.Webhook {
	if t == inventory.Conversion || t.IsPolicy() {
		var out []*inventory.Webhook
		for _, name := range a.names(ctx, t.Resource()) {
			ref := inventory.Ref{Type: t, Configuration: name}
			if !t.IsPolicy() {
				ref.Name = name
			}
			out = append(out, nameOnly(ref))
		}
		return out
	}
	config, err := a.completionConfig()
	if err != nil {
		return nil
	}
	group, err := client.Group(config, nil, admissionv1.SchemeGroupVersion)
	if err != nil {
		return nil
	}
	var objects inventory.Objects
	options := metav1.ListOptions{Limit: maxCompletions}
	if t == inventory.Mutating {
		list, err := client.Lister[admissionv1.MutatingWebhookConfiguration, admissionv1.MutatingWebhookConfigurationList](group, "mutatingwebhookconfigurations", "").List(ctx, options)
		if err != nil {
			return nil
		}
		for i := range list.Items {
			objects.Mutating = append(objects.Mutating, &list.Items[i])
		}
	} else {
		list, err := client.Lister[admissionv1.ValidatingWebhookConfiguration, admissionv1.ValidatingWebhookConfigurationList](group, "validatingwebhookconfigurations", "").List(ctx, options)
		if err != nil {
			return nil
		}
		for i := range list.Items {
			objects.Validating = append(objects.Validating, &list.Items[i])
		}
	}
	return objects.Snapshot(time.Now()).Webhooks
}
