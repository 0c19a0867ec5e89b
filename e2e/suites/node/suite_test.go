//go:build linux && node

// Package node tests the auditor, as it is shipped, in a cluster of real nodes: what
// breaks there breaks for real.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	environment := map[string]string{"KUBECONFIG": real.Kubeconfig(), "PATH": filepath.Join(root, "bin") + ":" + filepath.Join(root, "e2e", "bin") + ":" + os.Getenv("PATH")}
	for _, cache := range []string{"KUBECACHEDIR", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		environment[cache] = filepath.Join(folder, "cache")
	}
	for name, value := range environment {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
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
		err := real.Await(ctx, func(ctx context.Context) error { _, err := n.Ask(ctx, real.url+"/metrics", real.token); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// run runs a program of e2e/bin or of the machine and returns what it prints; the error has
// it too.
func run(ctx context.Context, stdin string, line ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	command.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(line, " "), err, output, stderr.String())
	}
	return string(output), err
}

// kubectl is run with what an administrator types after "kubectl".
func kubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", append([]string{"kubectl"}, args...)...)
}

// do is kubectl where it may not fail; the arguments are separated by blanks.
func do(t testing.TB, line string) string {
	t.Helper()
	return testenv.Get(kubectl(context.Background(), strings.Fields(line)...))(t)
}

// awaitPrinted waits until kubectl prints a text.
func awaitPrinted(t testing.TB, line, text string) {
	t.Helper()
	testenv.EventuallyWithin(t, patience, func() error {
		if printed := do(t, line); !strings.Contains(printed, text) {
			return fmt.Errorf("kubectl %s: no %q in\n%s", line, text, printed)
		}
		return nil
	})
}

// apply applies a manifest.
func apply(t testing.TB, manifest string) {
	t.Helper()
	testenv.Get(run(context.Background(), manifest, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-"))(t)
}

// says is what a command of the auditor prints, whatever it found.
func says(t testing.TB, args ...string) string {
	t.Helper()
	printed, err := run(t.Context(), "", append([]string{"webhook-auditor"}, args...)...)
	const found = 3
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != found) {
		t.Error(err)
	}
	return printed
}

// consequences are what impact says of a change, before it comes.
type consequences struct {
	Effects []struct {
		Name, Outcome string
		PreStop       bool
		Stops         []string
	}
	Evicted []struct {
		Workload string
		Pods     int
	}
}

func predicted(t testing.TB, args ...string) consequences {
	t.Helper()
	var out consequences
	testenv.Must(t, json.Unmarshal([]byte(says(t, append([]string{"impact", "-o", "json"}, args...)...)), &out))
	return out
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

// finding reports, by the metrics at a URL of the auditor, whether a webhook of the
// configuration has a finding of the check.
func finding(ctx context.Context, address string, s sought) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	text, err := real.Control().Ask(ctx, address+"/metrics", real.token)
	if err != nil {
		return false, err
	}
	scrape, err := metrics.Parse([]byte(text))
	if err != nil {
		return false, err
	}
	if len(scrape.Select("webhook_auditor_findings", nil)) == 0 {
		return false, errors.New("the auditor has not evaluated")
	}
	want := metrics.Labels{"check": s.check, "configuration": s.configuration}
	if s.critical {
		want["severity"] = "critical"
	}
	return len(scrape.Select("webhook_auditor_finding", want)) > 0, nil
}

// awaitFinding waits until the finding is there, or until no replica has it any more, and
// returns how long that took.
func awaitFinding(t testing.TB, s sought) time.Duration {
	t.Helper()
	begun := time.Now()
	testenv.EventuallyWithin(t, patience, func() error {
		replicas := []string{real.url}
		if s.gone {
			pods, err := readyPods(t.Context(), home)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				replicas = append(replicas, "https://"+pod.Status.PodIP+":8443")
			}
		}
		for _, at := range replicas {
			if found, err := finding(t.Context(), at, s); err != nil || found == s.gone {
				return errors.Join(fmt.Errorf("finding %s of %s at %s: %v", s.check, s.configuration, at, found), err)
			}
		}
		return nil
	})
	return time.Since(begun)
}

// sought is a finding that a test waits for, or for the end of it.
type sought struct {
	check, configuration string
	gone                 bool
	critical             bool
}

// ready waits for all Pods of a Deployment.
func ready(t testing.TB, namespace, deployment string) {
	t.Helper()
	do(t, "-n "+namespace+" rollout status deployment/"+deployment+" --timeout=300s")
}

// contains wants all texts to be in the output, whatever its width.
func contains(t testing.TB, what, text string, words ...string) {
	t.Helper()
	unwrapped := strings.Join(strings.Fields(text), " ")
	for _, want := range words {
		if !strings.Contains(unwrapped, want) {
			t.Errorf("%s lacks %q:\n%s", what, want, text)
		}
	}
}
