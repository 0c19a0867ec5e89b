//go:build linux && node

// Package node tests the auditor, as it is shipped, in a cluster of real nodes: what
// breaks there breaks for real.
package node

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

var writeTable = flag.String("write", "", "the document that takes the table of what was measured")

const (
	home = "webhook-auditor"
	// patience bounds most waits: kube-proxy, kubelets and controllers take seconds,
	// more on a machine that does other things.
	patience = 3 * time.Minute
)

// The cluster that all tests of the package share, one after the other, and its auditor.
var (
	real struct {
		*nodes.Cluster
		root, token, url string // of the auditor's Service
	}
	measured measurements
)

func TestMain(m *testing.M) {
	os.Exit(nodes.Isolated{Inside: func(folder string) int {
		if err := start(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := measured.write(*writeTable); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}}.Run())
}

// start brings the cluster up and installs the auditor as README.md prints it.
func start(folder string) error {
	root, err := programs.Root()
	if err != nil {
		return err
	}
	real.root = root
	ctx := context.Background()
	if real.Cluster, err = nodes.Start(ctx, nodes.FromEnvironment(root, folder)); err != nil {
		return err
	}
	for _, line := range []string{
		"apply -f " + filepath.Join(root, "manifests", "install.yaml"),
		"create serviceaccount scraper",
		"create clusterrolebinding scraper --clusterrole=webhook-auditor-metrics-reader --serviceaccount=default:scraper",
		"-n " + home + " rollout status deployment/webhook-auditor --timeout=300s",
		"-n kube-system rollout status deployment/coredns --timeout=300s",
	} {
		if _, err := kubectl(ctx, strings.Fields(line)...); err != nil {
			return err
		}
	}
	token, err := kubectl(ctx, "create", "token", "scraper", "--duration=2h")
	if err != nil {
		return err
	}
	real.token = strings.TrimSpace(token)
	return served(ctx)
}

// served waits until the kube-proxy of each node leads to the auditor.
func served(ctx context.Context) error {
	address, err := kubectl(ctx, "-n", home, "get", "service", "webhook-auditor", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return err
	}
	real.url = "https://" + address + ":8443"
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, n := range real.Nodes {
		for {
			_, err := n.Ask(ctx, real.url+"/metrics", real.token)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return err
			}
			time.Sleep(500 * time.Millisecond)
		}
	}
	return nil
}

// kubectl returns what kubectl prints as an administrator; the error has it too.
func kubectl(ctx context.Context, args ...string) (string, error) {
	return kubectlWith(ctx, "", args...)
}

// kubectlWith gives kubectl something to read.
func kubectlWith(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(real.root, "e2e", "bin", "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+real.Kubeconfig())
	command.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s%s", strings.Join(args, " "), err, output, stderr.String())
	}
	return string(output), nil
}

// do is kubectl where it may not fail; the arguments are separated by blanks.
func do(t testing.TB, line string) string {
	t.Helper()
	output, err := kubectl(context.Background(), strings.Fields(line)...)
	testenv.Must(t, err)
	return output
}

// apply applies a manifest.
func apply(t testing.TB, manifest string) {
	t.Helper()
	_, err := kubectlWith(context.Background(), manifest, "apply", "-f", "-")
	testenv.Must(t, err)
}

// says is what a command of the auditor prints, whatever its exit code says. It runs
// on the node with the control plane, where administrators sit.
func says(t testing.TB, args ...string) string {
	t.Helper()
	result, err := typed(t, args...)
	testenv.Must(t, err)
	if result.Code == 1 || result.Code == 2 {
		t.Errorf("webhook-auditor %s: exit code %d\n%s", strings.Join(args, " "), result.Code, result.Stderr)
	}
	return result.Stdout + result.Stderr
}

// typed is what became of a command of the auditor.
func typed(t testing.TB, args ...string) (auditor.Result, error) {
	return auditor.Command(t.Context(), filepath.Join(real.root, "bin", "webhook-auditor"), append(args, "--kubeconfig="+real.Kubeconfig())...)
}

// ask reads a path of the auditor through its Service, from a node.
func ask(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return real.Control().Ask(ctx, real.url+path, real.token)
}

// failures tries something five times a second until it is stopped, and returns what
// failed.
func failures(try func(context.Context) error) (stop func() []error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan []error, 1)
	go func() {
		var failed []error
		for ctx.Err() == nil {
			if err := try(context.Background()); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
			}
			time.Sleep(200 * time.Millisecond)
		}
		done <- failed
	}()
	return func() []error { cancel(); return <-done }
}

// finding reports, by the metrics of a replica, whether a webhook of the configuration has
// a finding of the check.
func finding(ctx context.Context, check, configuration string) (bool, error) {
	text, err := ask(ctx, "/metrics")
	if err != nil {
		return false, err
	}
	scrape, err := metrics.Parse(strings.NewReader(text))
	if err != nil {
		return false, err
	}
	if len(scrape.Select("webhook_auditor_findings", nil)) == 0 {
		return false, errors.New("the auditor has not evaluated")
	}
	return len(scrape.Select("webhook_auditor_finding", metrics.Labels{"check": check, "configuration": configuration})) > 0, nil
}

// awaitFinding waits until the finding is there, or until it is gone, and returns how long
// that took.
func awaitFinding(t testing.TB, s sought) time.Duration {
	t.Helper()
	begun := time.Now()
	testenv.EventuallyWithin(t, patience, func() error {
		found, err := finding(t.Context(), s.check, s.configuration)
		if err == nil && found == s.gone {
			err = fmt.Errorf("finding %s of %s: %v", s.check, s.configuration, found)
		}
		return err
	})
	return time.Since(begun)
}

// sought is a finding that a test waits for, or for the end of it.
type sought struct {
	check, configuration string
	gone                 bool
}

// ready waits for all Pods of a Deployment.
func ready(t testing.TB, namespace, deployment string) {
	t.Helper()
	do(t, "-n "+namespace+" rollout status deployment/"+deployment+" --timeout=300s")
}

// contains wants all texts to be in the output.
func contains(t testing.TB, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", what, want, text)
		}
	}
}
