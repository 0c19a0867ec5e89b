package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
)

// program follows the webhooks of a cluster and serves what it knows of them.
type program struct {
	name string
	path string
	env  []string
	args func(kubeconfig, host string, ports []int) []string
	// lines are the beginnings of the lines of /metrics that there must be, and
	// how many of each, once the program knows the cluster.
	lines map[string]int
	// configuration and endpoint select, where the program can, the series that show a
	// change of them.
	configuration, endpoint string
}

// running is a program that was started.
type running struct {
	program
	url     string
	folder  string
	process *process.Process
}

const (
	ours         = "webhook-auditor"
	stateMetrics = "kube-state-metrics"
)

func (c *filled) auditor(binary string) program {
	hooks := c.size.Configurations*c.size.Hooks + c.size.Converting
	query := func(family string) string { return "?name[]=" + auditor.Prefix + family }
	return program{
		name: ours, path: binary, env: []string{"GOGC=50"}, // as the manifests have it
		args: func(kubeconfig, host string, ports []int) []string {
			return []string{"run", "--kubeconfig=" + kubeconfig, fmt.Sprintf("--web.listen-address=%s:%d", host, ports[0]), "--web.max-series=1000000"}
		},
		lines:         map[string]int{auditor.Prefix + "webhook_info{": hooks, auditor.Prefix + "webhook_backend_ready{": hooks},
		configuration: query("webhook_timeout_seconds"), endpoint: query("webhook_backend_ready"),
	}
}

// kubeStateMetrics has the same kinds but for CRDs, APIServices and policies, and joins
// nothing.
func (c *filled) kubeStateMetrics(folder string) program {
	services := c.size.Services + c.size.Unrelated
	return program{
		name: stateMetrics, path: filepath.Join(folder, "kube-state-metrics"),
		args: func(kubeconfig, host string, ports []int) []string {
			return []string{
				"--kubeconfig=" + kubeconfig, "--host=" + host, fmt.Sprintf("--port=%d", ports[0]),
				"--telemetry-host=" + host, fmt.Sprintf("--telemetry-port=%d", ports[1]),
				"--resources=validatingwebhookconfigurations,mutatingwebhookconfigurations,namespaces,services,endpointslices," +
					"pods,daemonsets,deployments,networkpolicies,poddisruptionbudgets",
			}
		},
		lines: map[string]int{
			"kube_validatingwebhookconfiguration_info{": c.size.Configurations,
			"kube_endpointslice_info{":                  services,
			"kube_pod_info{":                            c.size.Pods,
		},
	}
}

func (c *filled) start(p program) (*running, error) {
	ports, err := process.FreePorts(2)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	const host = "127.0.0.1"
	started, err := process.RunWith(p.env, p.path, filepath.Join(folder, "log"), p.args(c.plane.Kubeconfig(), host, ports)...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return &running{program: p, url: fmt.Sprintf("http://%s:%d/metrics", host, ports[0]), folder: folder, process: started}, nil
}

func (r *running) stop() error { return errors.Join(r.process.Stop(), os.RemoveAll(r.folder)) }

// incomplete says what of the cluster /metrics does not show yet; empty once it shows
// all.
func (r *running) incomplete(ctx context.Context) (string, error) {
	select {
	case <-r.process.Done():
		return "", fmt.Errorf("%s has ended:\n%s", r.name, r.process.Output())
	default:
	}
	body, err := fetch(ctx, r.url)
	if err != nil {
		return err.Error(), ctx.Err() // it does not listen yet
	}
	body = append([]byte("\n"), body...)
	for line, n := range r.lines {
		if found := bytes.Count(body, []byte("\n"+line)); found < n {
			return fmt.Sprintf("%d of %d lines %s", found, n, line), nil
		}
	}
	return "", nil
}

func (r *running) awaitComplete(ctx context.Context) error {
	missing := ""
	err := await(func() (bool, error) {
		var err error
		missing, err = r.incomplete(ctx)
		return missing == "", err
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, missing)
	}
	return nil
}
