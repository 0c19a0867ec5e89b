//go:build linux

// Command node runs a cluster of real nodes until it is interrupted, and prints the
// kubeconfig for it: "make cluster".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/proxy"
)

func main() {
	os.Exit(nodes.Isolated{Outside: outside, Inside: inside}.Run())
}

// The API server is inside; connections to it pass the machine's loopback and a socket.
const (
	socket     = "api.sock"
	kubeconfig = "kubeconfig"
	address    = "address"
)

func outside(folder string) error {
	balancer, err := proxy.StartBalancer(filepath.Join(folder, socket))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, address), []byte(balancer.Address), 0o600)
}

func inside(folder string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(ctx context.Context, folder string) error {
	options, err := fromEnvironment(folder)
	if err != nil {
		return err
	}
	begun := time.Now()
	c, err := nodes.Start(ctx, options)
	if err != nil {
		return err
	}
	config := c.Config()
	relay, err := proxy.StartRelay(filepath.Join(folder, socket), strings.TrimPrefix(config.Host, "https://"))
	if err != nil {
		return err
	}
	defer relay.Close()
	at, err := os.ReadFile(filepath.Join(folder, address))
	if err != nil {
		return err
	}
	config.Host = "https://" + string(at)
	path := filepath.Join(folder, kubeconfig)
	if err := cluster.WriteKubeconfig(path, config); err != nil {
		return err
	}
	fmt.Printf("%d nodes are ready after %s. Ctrl-C ends them.\n\nexport KUBECONFIG=%s\nexport PATH=%s:$PATH\n", len(c.Nodes), time.Since(begun).Round(time.Second), path, options.Binaries)
	<-ctx.Done()
	return nil
}

func fromEnvironment(folder string) (nodes.Options, error) {
	root, err := programs.Root()
	if err != nil {
		return nodes.Options{}, err
	}
	options := nodes.FromEnvironment(root, folder)
	if count := os.Getenv("NODES"); count != "" {
		if options.Nodes, err = strconv.Atoi(count); err != nil || options.Nodes < 1 {
			return options, fmt.Errorf("reading NODES: %q is no number of nodes", count)
		}
	}
	if _, err := os.Stat(options.Images[0]); err != nil {
		options.Images = options.Images[1:] // it is not built
	}
	return options, nil
}
