package main

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// session is a client of the command, over its standard input and output.
func session(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(t.Context(), append([]string{"mcp"}, args...), streams{reader: fromClient, out: toClient, err: io.Discard})
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s := must.Get(client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil))(t)
	t.Cleanup(func() {
		_ = s.Close()
		_ = toServer.Close()
		if err := <-ended; err != nil {
			t.Errorf("the command ends with %v", err)
		}
	})
	return s
}

func textOf(r *mcp.CallToolResult) string {
	var out strings.Builder
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			out.WriteString(text.Text)
		}
	}
	return out.String()
}

// TestToolPanics: a fault of the program costs the answer, and the next call gets its own.
func TestToolPanics(t *testing.T) {
	a := &agents{source{access: &clusterFlags{}, input: &input{}, paths: []string{impactCluster}}}
	server := a.server()
	add(server, "broken", "panics", func(checksTool) (call, error) {
		return call{run: func(context.Context, []string, streams) error { panic("index out of range") }}, nil
	})
	here, there := mcp.NewInMemoryTransports()
	serving := must.Get(server.Connect(t.Context(), there, nil))(t)
	s := must.Get(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), here, nil))(t)
	t.Cleanup(func() { _, _ = s.Close(), serving.Close() })
	for tool, want := range map[string]string{"broken": "index out of range", "audit": "pods.policy.example.com"} {
		r := must.Get(s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool}))(t)
		if text := textOf(r); r.IsError != (tool == "broken") || !strings.Contains(text, want) {
			t.Errorf("%s: error %v, want %q: %s", tool, r.IsError, want, text)
		}
	}
}

// TestToolErrors: what is wrong is named as the tool's argument, not as a flag or a word of the command line.
func TestToolErrors(t *testing.T) {
	s := session(t, "--from", impactCluster)
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}}"
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"audit", map[string]any{"targets": []string{"policy"}}, "targets: must be TYPE/NAME"},
		{"audit", map[string]any{"targets": []string{"validatingwebhookconfiguration/polcy"}}, "did you mean"},
		{"audit", map[string]any{"format": "table"}, "format: must be one of"},
		{"explain", nil, "operation and resource: must both be given"},
		{"explain", map[string]any{"operation": "create"}, "operation and resource: must both be given"},
		{"explain", map[string]any{"namespace": "shop"}, "operation and resource: must both be given"},
		{"explain", map[string]any{"error": "x", "namespace": "shop"}, "error: must be given without a request"},
		{"explain", map[string]any{"error": "x", "operation": "create", "resource": "pods"}, "error: must be given without a request"},
		{"explain", map[string]any{"error": "no idea"}, "explain: "},
		{"explain", map[string]any{"error": "-"}, "explain: "},
		{"explain", map[string]any{"operation": "read", "resource": "pods"}, "operation"},
		{"explain", map[string]any{"operation": "create", "resource": "podz"}, "did you mean"},
		{"explain", map[string]any{"operation": "create", "resource": "pods/a"}, "no subresource"},
		{"explain", map[string]any{"operation": "create", "resource": "pods", "labels": "a=b,a=c"}, "labels \"a=b,a=c\": a must have one value"},
		{"explain", map[string]any{"operation": "create", "resource": "pods", "labels": "a in b"}, "labels "},
		{"explain", map[string]any{"object": "kind: ["}, "reading the object object: "},
		{"explain", map[string]any{"object": pod + "\n---\n" + pod}, "reading the object object: "},
		{"explain", map[string]any{"object": pod, "namespace": "bank"}, "namespace"},
		{"impact", nil, "must be given configuration, down, downNodes or delete"},
		{"impact", map[string]any{"configuration": "policy", "down": []string{"policy/policy"}}, "down, downNodes and delete must be given without configuration"},
		{"impact", map[string]any{"down": []string{"policy"}}, "down: must be NAMESPACE/SERVICE, not"},
		{"impact", map[string]any{"down": []string{"policy/none"}}, "policy/none"},
		{"impact", map[string]any{"delete": []string{"crd/policy"}}, "delete: must be a webhook configuration"},
		{"impact", map[string]any{"delete": []string{"validatingadmissionpolicy/limits"}}, "delete: must be a webhook configuration"},
		{"diff", map[string]any{"manifests": ""}, "manifests: must be YAML or JSON"},
		{"diff", map[string]any{"manifests": "a: ["}, "manifests:1"},
		{"diff", map[string]any{"manifests": "a: b"}, "manifests: no webhook configuration"},
	} {
		r := must.Get(s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args}))(t)
		if text := textOf(r); !r.IsError || !strings.Contains(text, c.want) || ofCommandLine.MatchString(text) {
			t.Errorf("%s %v: error %v, want %q: %s", c.tool, c.args, r.IsError, c.want, text[:min(len(text), 600)])
		}
	}
}

// ofCommandLine matches flags, their values in capitals and the standard input of a command.
var ofCommandLine = regexp.MustCompile(`(^|[ (])--?[a-z]|standard input|stdin|CONFIGURATION|OPERATION|\bPATH\b`)

// TestMCP asks each tool with the SDK's own client.
func TestMCP(t *testing.T) {
	s := session(t, "--from", impactCluster)
	tools := must.Get(s.ListTools(t.Context(), nil))(t)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint {
			t.Errorf("%s is not marked as read-only", tool.Name)
		}
	}
	slices.Sort(names)
	expect.Equal(t, []string{"audit", "checks", "diff", "explain", "impact"}, names)
	manifest := `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: new}, webhooks: [{name: new.example.com, clientConfig: {url: "https://a.example.com"}}]}`
	for _, c := range []struct {
		tool    string
		args    map[string]any
		want    string
		isError bool
	}{
		{"audit", map[string]any{"targets": []string{"validatingwebhookconfiguration/policy"}}, "pods.policy.example.com", false},
		{"audit", nil, "    fix ", false},
		{"audit", map[string]any{"format": "json"}, `"findings"`, false},
		{"audit", map[string]any{"targets": []string{"/etc/passwd"}}, "must be TYPE/NAME", true},
		{"audit", map[string]any{"format": "yaml"}, "must be one of", true},
		{"explain", map[string]any{"operation": "create", "resource": "pods", "namespace": "shop"}, "pods.policy.example.com", false},
		{"explain", map[string]any{"object": "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}}"}, "pods.policy.example.com", false},
		{"explain", map[string]any{"operation": "delete", "object": "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}}"}, "DELETE pods a in shop", false},
		{"explain", map[string]any{"error": "x", "object": "{apiVersion: v1, kind: Pod, metadata: {name: a}}"}, "", true},
		{"explain", map[string]any{"operation": "--error=-", "resource": "pods"}, "", true},
		{"explain", map[string]any{"error": `failed calling webhook "pods.policy.example.com": x509: certificate signed by unknown authority`}, "policy", false},
		{"impact", map[string]any{"configuration": "policy"}, "pods.policy.example.com", false},
		{"impact", map[string]any{"downNodes": []string{"a"}}, "node a drained", false},
		{"impact", map[string]any{"configuration": "polcy"}, "did you mean policy", true},
		{"diff", map[string]any{"manifests": manifest}, "webhook new.example.com: added", false},
		{"diff", map[string]any{"manifests": "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"}, "No registration of a webhook changes.", false},
		{"checks", nil, "bootstrap-deadlock", false},
	} {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil {
			t.Errorf("%s %v: %v", c.tool, c.args, err)
			continue
		}
		if text := textOf(r); r.IsError != c.isError || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: error %v, want %q: %s", c.tool, c.args, r.IsError, c.want, text[:min(len(text), 600)])
		}
	}
}
