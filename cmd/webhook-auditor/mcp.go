package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
)

// agents are the flags of the command mcp.
type agents struct {
	access *clusterFlags
	input  *input
	from   []string
}

func mcpCommand(s streams) *cobra.Command {
	a := &agents{}
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve audit, explain, impact, diff, top and checks as read-only tools of the Model Context Protocol",
		Long: `Serve audit, explain, impact, diff, top and checks as read-only tools of the Model
Context Protocol, over standard input and output, until the input ends. The client
starts it. The cluster is that of the kubeconfig, or the files of --from; a tool
names neither files nor clusters. Nothing listens, and nothing is written.`,
		Example: `  # Let an agent ask about a must-gather
  webhook-auditor mcp --from must-gather.tar.gz`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              untilStopped(s, a.run),
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("input")
	flags.StringArrayVar(&a.from, "from", nil, "file, directory or archive to read instead of a cluster; may be repeated")
	a.input = inputFlags(flags)
	a.access = registerCluster(groups.FlagSet("cluster"))
	addFlags(c, &groups)
	return c
}

func (a *agents) run(ctx context.Context, _ []string, s streams) error {
	_, err := a.input.policy()
	if err == nil {
		_, err = a.input.version(s.err)
	}
	if err != nil {
		return err
	}
	transport := &mcp.IOTransport{Reader: io.NopCloser(s.in), Writer: unclosed{s.out}}
	if err := a.server().Run(ctx, transport); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving tools: %w", err)
	}
	return nil
}

// unclosed is a writer that its user does not close.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// The arguments of the tools. Their comments are in the schemas.
type (
	auditTool struct {
		Targets   []string `json:"targets,omitempty" jsonschema:"narrow the report to validatingwebhookconfiguration/NAME, mutatingwebhookconfiguration/NAME or crd/NAME, with /WEBHOOK for one webhook"`
		Namespace string   `json:"namespace,omitempty" jsonschema:"only webhooks whose Service is in this namespace"`
		Format    string   `json:"format,omitempty" jsonschema:"text (default) or json"`
	}
	explainTool struct {
		Operation string `json:"operation,omitempty" jsonschema:"create, update, patch, delete or connect"`
		Resource  string `json:"resource,omitempty" jsonschema:"as for kubectl: pods, deployments.apps, pods/exec"`
		Name      string `json:"name,omitempty" jsonschema:"name of the object"`
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace of the object"`
		Labels    string `json:"labels,omitempty" jsonschema:"all labels of the object, as a=b,c=d"`
		Error     string `json:"error,omitempty" jsonschema:"instead of a request: an error of the API server about a webhook, as kubectl, an Event or a log has it"`
		Format    string `json:"format,omitempty" jsonschema:"text (default) or json"`
	}
	impactTool struct {
		Configuration string   `json:"configuration,omitempty" jsonschema:"what this webhook configuration, CRD or admission policy adds and what its failure stops, as [TYPE/]NAME; of a policy, with TYPE"`
		Down          []string `json:"down,omitempty" jsonschema:"instead: Services without endpoints, as NAMESPACE/NAME"`
		DownNodes     []string `json:"downNodes,omitempty" jsonschema:"instead: nodes that are drained"`
		Delete        []string `json:"delete,omitempty" jsonschema:"instead: webhook configurations that are deleted, as [TYPE/]NAME"`
		Format        string   `json:"format,omitempty" jsonschema:"text (default) or json"`
	}
	diffTool struct {
		Manifests string `json:"manifests" jsonschema:"YAML or JSON of the objects as they are to be: webhook configurations, CRDs, namespaces, Services"`
		Format    string `json:"format,omitempty" jsonschema:"text (default) or json"`
	}
	topTool struct {
		Namespace string `json:"namespace,omitempty" jsonschema:"only webhooks whose Service is in this namespace"`
		Sort      string `json:"sort,omitempty" jsonschema:"column to sort by"`
		Format    string `json:"format,omitempty" jsonschema:"text (default) or json"`
	}
	checksTool struct{}
)

// server has the tools. Each runs the command of its name: the values of arguments
// never become flags.
func (a *agents) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: program, Version: version.Version}, nil)
	add(server, "audit", "Report what is wrong with the admission and conversion webhooks, with the fixes.", a.audit)
	add(server, "explain", "Show which webhooks a request meets, in which order, or what an error about a webhook means and how to resolve it.", a.explain)
	add(server, "impact", "Show what a webhook adds, or what happens when Services, nodes or configurations go away.", a.impact)
	add(server, "diff", "Show what applying manifests would change: which requests webhooks are called for, what fails, which findings are added and resolved.", a.diff)
	if len(a.from) == 0 {
		add(server, "top", "Show which webhooks cost most now, as the API servers measure it: it takes 10 seconds.", a.top)
	}
	add(server, "checks", "List all checks with their runbooks.", func(checksTool) ([]string, string, error) { return []string{"print", "checks"}, "", nil })
	return server
}

// add adds a tool, which makes its arguments those of a command and its standard input.
func add[In any](server *mcp.Server, name, description string, command func(In) (args []string, stdin string, err error)) {
	local := false
	tool := &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &local}}
	mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		args, stdin, err := command(in)
		if err != nil {
			return nil, nil, err
		}
		return answer(ctx, args, stdin), nil, nil
	})
}

// answer runs a command and returns what it prints; findings are no error, and what
// can be read is an answer where some cannot.
func answer(ctx context.Context, args []string, stdin string) *mcp.CallToolResult {
	var stdout, stderr bytes.Buffer
	err := run(ctx, args, streams{in: strings.NewReader(stdin), out: &stdout, err: &stderr})
	code := exit(err, messages{&stderr})
	result := &mcp.CallToolResult{IsError: code == exitUsage || code == exitError && stdout.Len() == 0}
	for _, text := range []string{stdout.String(), stderr.String()} {
		if text != "" {
			result.Content = append(result.Content, &mcp.TextContent{Text: text})
		}
	}
	return result
}

// clusterArguments are the flags of this command that those of the tools take.
func (a *agents) clusterArguments() []string {
	out := []string{"--kubeconfig=" + a.access.kubeconfig, "--aggregator-routing=" + a.access.routing}
	for _, name := range a.access.contextNames[:min(1, len(a.access.contextNames))] {
		out = append(out, "--context="+name)
	}
	if user := a.access.overrides.AuthInfo.Impersonate; user != "" {
		out = append(out, "--as="+user)
	}
	return append(out, repeated("as-group", a.access.overrides.AuthInfo.ImpersonateGroups)...)
}

// arguments are those of a command: the flags of this one, and those that have a
// value, as "name=value".
func (a *agents) arguments(command string, flags ...string) []string {
	out := append([]string{command}, a.clusterArguments()...)
	out = append(out, "--server-version="+a.input.server)
	if command != "explain" {
		out = append(out, "--config="+a.input.config)
	}
	for _, flag := range flags {
		if !strings.HasSuffix(flag, "=") {
			out = append(out, "--"+flag)
		}
	}
	return out
}

func repeated(flag string, values []string) []string {
	var out []string
	for _, value := range values {
		out = append(out, "--"+flag+"="+value)
	}
	return out
}

func (a *agents) audit(in auditTool) ([]string, string, error) {
	for _, name := range in.Targets {
		if _, ok := arguments.ParseTarget(name); !ok || arguments.Exists(name) {
			return nil, "", fmt.Errorf("targets: must be TYPE/NAME[/WEBHOOK], not %q", name)
		}
	}
	args := a.arguments("audit", "output="+in.Format, "namespace="+in.Namespace, "fail-on=never")
	return slices.Concat(args, []string{"--"}, a.from, in.Targets), "", nil
}

func (a *agents) explain(in explainTool) ([]string, string, error) {
	args := append(a.arguments("explain", "output="+in.Format, "namespace="+in.Namespace, "labels="+in.Labels), repeated("from", a.from)...)
	if in.Error != "" {
		return append(args, "--error=-"), in.Error, nil
	}
	positional := slices.DeleteFunc([]string{in.Operation, in.Resource, in.Name}, func(s string) bool { return s == "" })
	return slices.Concat(args, []string{"--"}, positional), "", nil
}

func (a *agents) impact(in impactTool) ([]string, string, error) {
	args := a.arguments("impact", "output="+in.Format)
	if in.Configuration == "" {
		args = append(args, "--fail-on=never")
	}
	args = slices.Concat(args, repeated("from", a.from), repeated("down", in.Down), repeated("down-node", in.DownNodes), repeated("delete", in.Delete), []string{"--"})
	if in.Configuration != "" {
		args = append(args, in.Configuration)
	}
	return args, "", nil
}

func (a *agents) diff(in diffTool) ([]string, string, error) {
	args := append(a.arguments("diff", "output="+in.Format, "fail-on=never"), repeated("from", a.from)...)
	return append(args, "--", "-"), in.Manifests, nil
}

func (a *agents) top(in topTool) ([]string, string, error) {
	return a.arguments("top", "output="+in.Format, "namespace="+in.Namespace, "sort="+in.Sort), "", nil
}
