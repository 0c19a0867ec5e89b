package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// agents are the flags of the command mcp: what its tools read from.
type agents struct{ source }

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
	flags.StringArrayVar(&a.paths, "from", nil, "file, directory or archive to read instead of a cluster; may be repeated")
	a.input = inputFlags(flags)
	a.access = registerCluster(groups.FlagSet("cluster"))
	a.access.named = "--kubeconfig and --context of " + program + " mcp, or files with its --from"
	addFlags(c, &groups)
	return c
}

func (a *agents) run(ctx context.Context, _ []string, s streams) error {
	_, ofPolicy := a.input.policy()
	_, ofVersion := a.input.version(s.err)
	if err := errors.Join(notStandardInput(a.paths), a.check(), ofPolicy, ofVersion); err != nil {
		return err
	}
	transport := &mcp.IOTransport{Reader: io.NopCloser(s.reader), Writer: unclosed{s.out}}
	if err := a.server().Run(ctx, transport); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving tools: %w", err)
	}
	return nil
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// The arguments of the tools. Their comments are in the schemas.
type (
	auditTool struct {
		Targets   []string `json:"targets,omitempty" jsonschema:"narrow the report to validatingwebhookconfiguration/NAME, mutatingwebhookconfiguration/NAME or crd/NAME, with /WEBHOOK for one webhook"`
		Namespace string   `json:"namespace,omitempty" jsonschema:"only webhooks whose Service is in this namespace"`
		Format    string   `json:"format,omitempty" jsonschema:"text (default) or json"`
	}
	explainTool struct {
		Operation string  `json:"operation,omitempty" jsonschema:"create, update, patch, delete or connect"`
		Resource  string  `json:"resource,omitempty" jsonschema:"as for kubectl: pods, deployments.apps, pods/exec"`
		Name      string  `json:"name,omitempty" jsonschema:"name of the object"`
		Namespace string  `json:"namespace,omitempty" jsonschema:"namespace of the object"`
		Labels    *string `json:"labels,omitempty" jsonschema:"all labels of the object, as a=b,c=d; empty where it has none; left out where they are not known"`
		Object    string  `json:"object,omitempty" jsonschema:"YAML or JSON of the object of the request: which webhooks it meets, and which admission policy denies it, are more certain; operation is create and resource its own where they are left out"`
		Error     string  `json:"error,omitempty" jsonschema:"instead of a request: an error of the API server about a webhook, as kubectl, an Event or a log has it"`
		Format    string  `json:"format,omitempty" jsonschema:"text (default) or json"`
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

// server has the tools. Each runs the command of its name.
func (a *agents) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: program, Version: version.Version}, nil)
	add(server, "audit", "Report what is wrong with the admission and conversion webhooks, with the fixes.", a.audit)
	add(server, "explain", "Show which webhooks a request meets, in which order, or what an error about a webhook means and how to resolve it.", a.explain)
	add(server, "impact", "Show what a webhook adds, or what happens when Services, nodes or configurations go away.", a.impact)
	add(server, "diff", "Show what applying manifests would change: which requests webhooks are called for, what fails, which findings are added and resolved.", a.diff)
	if len(a.paths) == 0 {
		add(server, "top", "Show which webhooks cost most now, as the API servers measure it: it takes 10 seconds.", a.top)
	}
	add(server, "checks", "List all checks with their runbooks.", a.checks)
	return server
}

// add adds a tool, which makes its arguments a command with its flags.
func add[In any](server *mcp.Server, name, description string, command func(In) (call, error)) {
	local := false
	tool := &mcp.Tool{
		Name: name, Description: description,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &local},
	}
	mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest,
		input In,
	) (*mcp.CallToolResult, any, error) {
		c, err := command(input)
		if err != nil {
			return nil, nil, err
		}
		return c.answer(ctx), nil, nil
	})
}

// call is a command with its flags, its arguments and its standard input, which is that argument
// of the tool.
type call struct {
	run          action
	args         []string
	stdin, input string
}

// answer runs a command and returns what it prints; findings are no error, and what
// can be read is an answer where some cannot. A panic costs this answer alone.
func (c call) answer(ctx context.Context) *mcp.CallToolResult {
	var stdout, stderr bytes.Buffer
	s := streams{strings.NewReader(c.stdin), &stdout, messages{&stderr}, c.input}
	err := interrupted(ctx, func() (err error) {
		defer func() {
			if fault := recover(); fault != nil {
				err = fmt.Errorf("this call met a fault of %s, please report it: %v\n%s", program, fault, debug.Stack())
			}
		}()
		return c.run(ctx, c.args, s)
	})
	code := exit(err, s.err)
	result := &mcp.CallToolResult{IsError: code == exitUsage || code == exitError && stdout.Len() == 0}
	for _, text := range []string{stdout.String(), stderr.String()} {
		if text != "" {
			result.Content = append(result.Content, &mcp.TextContent{Text: text})
		}
	}
	return result
}

// never is the --fail-on of the tools: findings are no error.
const never = "never"

// choice is the value of an argument, the first of the values where there is none.
func choice(name, value string, values []string) (string, error) {
	out := values[0]
	if value == "" {
		return out, nil
	}
	if err := (enumValue{&out, values}).Set(value); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

var toolFormats = []string{"text", "json"}

func (a *agents) audit(tool auditTool) (call, error) {
	for _, name := range tool.Targets {
		if _, ok := arguments.ParseTarget(name); !ok || arguments.Exists(name) {
			return call{}, fmt.Errorf("targets: must be TYPE/NAME[/WEBHOOK], not %q", name)
		}
	}
	format, err := choice("format", tool.Format, toolFormats)
	c := audit{
		source: a.source, output: format, failOn: never, fixes: true,
		namespace: namespaceFlags{name: tool.Namespace},
	}
	return call{run: c.run, args: slices.Concat(a.paths, tool.Targets)}, err
}

func (a *agents) explain(tool explainTool) (call, error) {
	format, err := choice("format", tool.Format, toolFormats)
	c := explain{source: a.source, output: format, errorText: tool.Error, request: &requestFlags{
		subject: admission.Subject{Namespace: tool.Namespace}, labels: ptr.Deref(tool.Labels, ""),
		labeled: func() bool { return tool.Labels != nil },
	}}
	args := lists.Filter([]string{tool.Operation, tool.Resource, tool.Name}, func(s string) bool { return s != "" })
	switch {
	case tool.Error != "" && (tool.Object != "" || len(args) > 0 || c.request.isGiven()):
		err = errors.New("error: must be given without a request")
	case tool.Object != "":
		c.request.file = "-"
	case tool.Error == "" && (tool.Operation == "" || tool.Resource == ""):
		err = errors.New("operation and resource: must both be given, or an object or an error")
	}
	return call{run: c.run, args: args, stdin: tool.Object, input: "object"}, err
}

func (a *agents) impact(tool impactTool) (call, error) {
	format, err := choice("format", tool.Format, toolFormats)
	c := impactFlags{
		source: a.source, output: format, failOn: never, down: tool.Down, nodes: tool.DownNodes, deleted: tool.Delete,
		names: impactNames{"configuration", "down", "downNodes", "delete"},
	}
	args := slices.DeleteFunc([]string{tool.Configuration}, func(s string) bool { return s == "" })
	return call{run: c.run, args: args}, err
}

func (a *agents) diff(tool diffTool) (call, error) {
	format, err := choice("format", tool.Format, toolFormats)
	c := diff{source: a.source, output: format, failOn: never}
	if strings.TrimSpace(tool.Manifests) == "" {
		err = errors.New("manifests: must be YAML or JSON of the objects as they are to be")
	}
	return call{run: c.run, args: []string{"-"}, stdin: tool.Manifests, input: "manifests"}, err
}

func (a *agents) top(tool topTool) (call, error) {
	format, err := choice("format", tool.Format, toolFormats)
	sort, unknown := choice("sort", tool.Sort, report.SortKeys)
	c := top{
		source: a.source, output: format, sort: sort, column: report.AuditDimensions[0],
		namespace: namespaceFlags{name: tool.Namespace},
	}
	return call{run: c.run}, errors.Join(err, unknown)
}

func (a *agents) checks(checksTool) (call, error) {
	return call{run: func(_ context.Context, _ []string, s streams) error { return report.WriteChecks(s.out) }}, nil
}
