package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// pipe makes a named pipe that nothing writes to; it is opened and closed in the
// end, so that what waits for it goes on.
func pipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	must.Succeed(t, syscall.Mkfifo(name, 0o600))
	t.Cleanup(func() {
		if w, err := os.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			w.Close()
		}
	})
	return name
}

// TestInterrupted: an interrupted command ends, wherever it is.
func TestInterrupted(t *testing.T) {
	webhooks := "testdata/webhooks.yaml"
	for name, args := range map[string][]string{
		"reading a pipe":        {"audit", pipe(t)},
		"reading the input":     {"audit", "-"},
		"reading the baseline":  {"audit", webhooks, "--baseline", pipe(t)},
		"reading the object":    {"explain", "--from", webhooks, "-f", pipe(t)},
		"reading what explains": {"explain", "create", "pods", "--from", pipe(t)},
		"reading an error":      {"explain", "--from", webhooks, "--error", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			in, typed := io.Pipe()
			t.Cleanup(func() { typed.Close() })
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, args, streams{reader: in, out: io.Discard, err: io.Discard}) }()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestWrongInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Write(t, path, text)
		return path
	}
	const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}`
	one, garbage, two := file("one.json", service), file("garbage.json", service+"\ngarbage\n"), file("two.json", service+service)
	web := file("web.yaml", pod("a", "true"))
	report := written(t, "testdata/webhooks.yaml")
	before := must.Get(os.ReadFile(report))(t)
	badURL := file("kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://[::1'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n")
	from := []string{"explain", "--from", "testdata/webhooks.yaml"}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"an object of another kind":    {append(from, "create", "pods", "-f", one), exitUsage, "it is a Service, and pods takes a Pod"},
		"an object and garbage":        {append(from, "-f", garbage), exitUsage, "something follows the object"},
		"two objects":                  {append(from, "-f", two), exitUsage, "must be one object, not 2"},
		"manifests and garbage":        {[]string{"audit", garbage}, exitError, "garbage.json:2: not JSON: invalid character"},
		"objects one after another":    {[]string{"audit", two, "--allow-empty"}, exitOK, ""},
		"nothing to audit":             {[]string{"audit", one}, exitError, "no webhook configuration, CRD or admission policy in it"},
		"a baseline and garbage":       {[]string{"audit", one, "--baseline", file("before.json", string(before)+"garbage")}, exitUsage, "and nothing else: something follows at byte"},
		"a negative wait":              {[]string{"run", "--settle=-5s"}, exitUsage, "--settle: must be 0 or longer"},
		"a negative inertia":           {[]string{"run", "--degraded.inertia=-5s"}, exitUsage, "--degraded.inertia: must be 0 or longer"},
		"observed from nowhere":        {[]string{"run", "--web.observed-metrics"}, exitUsage, "--web.observed-metrics: must be given with --observe=apiserver"},
		"a lease without a leader":     {[]string{"run", "--namespace=a"}, exitUsage, "--namespace: must be given with --leader-elect"},
		"a wait between readings":      {[]string{"run", "--from", one, "--settle=1s"}, exitUsage, "--settle: must be given without --from"},
		"clients of plain HTTP":        {[]string{"run", "--web.trusted-user=a"}, exitUsage, "--web.trusted-user: must be given with --web.tls-cert-file or --web.self-signed"},
		"plain HTTP beside TLS":        {[]string{"run", "--web.self-signed", "--web.allow-http"}, exitUsage, "--web.allow-http: must be given without"},
		"a tool that reads its client": {[]string{"mcp", "--from=-"}, exitUsage, "not standard input"},
		"a cluster beside files":       {[]string{"mcp", "--from", one, "--as=a"}, exitUsage, "--as: must be given without files"},
		"a cluster that may be empty":  {[]string{"audit", "--allow-empty"}, exitUsage, "--allow-empty: must be given with PATH"},
		"one input as NEW and from":    {[]string{"diff", "--from", "-", "-"}, exitUsage, "standard input (-) must be given once, not 2 times"},
		"an error and its cluster":     {[]string{"explain", "--error", "-", "--from", "-"}, exitUsage, "standard input (-) must be given once"},
		"an object and its cluster":    {append(from, "-f", "-", "--from", "-"), exitUsage, "standard input (-) must be given once"},
		"two namespaces":               {append(from, "create", "pods", "-n", "a", "--namespace=b"), exitUsage, `--namespace: must be given once, not as "a" and "b"`},
		"two users":                    {[]string{"audit", "--as", "a", "--as", "b"}, exitUsage, "--as: must be given once"},
		"two formats":                  {[]string{"audit", one, "--allow-empty", "-o", "text", "-o", "json"}, exitOK, ""},
		"a label of two values":        {append(from, "create", "pods", "-l", "a=b,c=d,a=c"), exitUsage, `--labels "a=b,c=d,a=c": a must have one value`},
		"a label twice in an object":   {append(from, "-f", file("labels.yaml", strings.Replace(pod("a", "true"), "team: a", "team: a, team: b", 1))), exitUsage, `key "team" already set in map`},
		"a field twice in an object":   {append(from, "-f", file("twice.json", strings.Replace(service, `"v1"`, `"v1","kind":"Pod"`, 1))), exitUsage, `duplicate field "kind": remove one`},
		"another namespace":            {append(from, "-f", web, "-n", "other"), exitUsage, "its namespace is shop, not other: the namespace must be given once"},
		"another name":                 {append(from, "create", "pods", "other", "-f", web), exitUsage, "its name is web, not other"},
		"another label":                {append(from, "-f", web, "-l", "team=b"), exitUsage, "its label team is a"},
		"fewer labels":                 {append(from, "-f", web, "-l", ""), exitUsage, "its label team is a"},
		"another version":              {append(from, "-f", web, "--api-version", "v2"), exitUsage, "it is of v1, not v2"},
		"two versions":                 {append(from, "create", "deployments.v1.apps", "--api-version", "v1beta1"), exitUsage, "it is of version v1, not v1beta1"},
		"one PATH twice":               {[]string{"audit", "-", "-"}, exitUsage, "standard input (-) must be given once"},
		"an empty archive":             {[]string{"audit", file("empty.tar", strings.Repeat("\x00", 10240))}, exitError, "empty.tar: no webhook in it"},
		"a name that may be unread":    {[]string{"impact", "a", "--from", garbage}, exitError, `in what can be read: no webhook, configuration or policy "a"`},
		"a Policy without an end":      {[]string{"audit", one, "--config", "/dev/zero"}, exitUsage, "/dev/zero: must be a regular file"},
		"a server that is too old":     {[]string{"audit", one, "--allow-empty", "--server-version", "v1.5"}, exitOK, "warning: --server-version v1.5: this binary knows v1.30 to v1.37"},
		"a server of the future":       {[]string{"audit", one, "--allow-empty", "--server-version", "v1.99"}, exitOK, "warning: --server-version v1.99: this binary knows v1.30 to v1.37"},
		"a server that is known":       {[]string{"audit", one, "--allow-empty", "--server-version", "v1.36.2"}, exitOK, ""},
		"a server that is no URL":      {[]string{"audit", "--kubeconfig", badURL}, exitError, "host must be a URL"},
		"no such resource":             {append(from, "create", "podz"), exitError, "did you mean pods?"},
		"a chart that is not rendered": {[]string{"audit", chart(t, dir)}, exitError, "render it first, as with helm template"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", tc.args...)
			if r.code != tc.code || !strings.Contains(r.err, tc.want) || (tc.want == "") != (r.err == "") {
				t.Errorf("exit code %d, want %d; stderr %q, want %q", r.code, tc.code, r.err, tc.want)
			}
			if n := strings.Count(r.err, tc.want); tc.want != "" && n != 1 {
				t.Errorf("%q is reported %d times:\n%s", tc.want, n, r.err)
			}
		})
	}
}

// TestUsage: what no command takes is refused before anything is printed.
func TestUsage(t *testing.T) {
	const explain, run = "explain --from testdata/webhooks.yaml ", "run --from=testdata "
	for _, line := range []string{
		"audit testdata -o xml", "audit testdata --fail-on sometimes", "audit testdata --server-version next", "audit testdata --config testdata/nowhere.yaml",
		"audit testdata --baseline testdata/nowhere.json", "audit testdata --baseline testdata/webhooks.yaml", "audit testdata --baseline testdata/nowhere.json -o html",
		"audit --probe icmp", "audit testdata --probe tls", "audit --probe.urls",
		explain, explain + "create", explain + "create pods web more", explain + "--error x", explain + "--error=", explain + "create pods --error x",
		explain + "-f testdata/webhooks.yaml --error x", explain + "--error x -o sarif", explain + "-f testdata/no.yaml", explain + "-f /dev/null",
		explain + "-f ../../pkg/classify/testdata/service-missing.yaml", explain + "-f testdata/webhooks.yaml a b c d", explain + "-f testdata/webhooks.yaml get",
		"scrape", "scrape one two", "scrape localhost:8443", "scrape http://localhost",
		"run --from=-", "run --from=testdata/none", "run --server-version=v1.36", run + "--leader-elect --namespace=a", run + "--web.self-signed", run + "--probe=tls",
		run + "--observe=apiserver", run + "--web.listen-address=:8443",
	} {
		if r := execute(t, "", strings.Fields(line)...); r.code != exitUsage || r.out != "" || !strings.HasPrefix(r.err, "webhook-auditor: ") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q: want usage", line, r.code, r.out, r.err)
		}
	}
}

// TestServerVersionNamed: what the user states is not reported as missing.
func TestServerVersionNamed(t *testing.T) {
	r := execute(t, "", "audit", "testdata/webhooks.yaml", "--server-version", "v1.34", "--fail-on", "never")
	if r.code != exitOK || strings.Contains(r.out, "No server version") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}

// chart packs a chart of software with webhooks, as helm package does.
func chart(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "policy-1.0.0.tgz")
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	packed := gzip.NewWriter(f)
	defer packed.Close()
	files := tar.NewWriter(packed)
	defer files.Close()
	const template = "{{- if .Values.webhook }}\nkind: ValidatingWebhookConfiguration\n{{- end }}\n"
	must.Succeed(t, files.WriteHeader(&tar.Header{Name: "policy/templates/webhook.yaml", Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(template))}))
	must.Get(io.WriteString(files, template))(t)
	return path
}
