// Command record writes what the API server serves, at its own version and
// emulating each older one it can, into the folder given as argument:
// v1.37.txt, v1.36.txt and so on.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/client-go/discovery"

	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/served"
)

// versions are those that kube-apiserver 1.37 can be or emulate.
var versions = []string{"1.37", "1.36", "1.35", "1.34"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: record BINARIES FOLDER")
	}
	for _, version := range versions {
		if err := record(ctx, args[0], version, filepath.Join(args[1], "v"+version+".txt")); err != nil {
			return fmt.Errorf("recording %s: %w", version, err)
		}
	}
	return nil
}

func record(ctx context.Context, binaries, version, path string) error {
	plane, err := cluster.Start(ctx, cluster.Options{
		Binaries:           binaries,
		APIServerFlags:     []string{"--emulated-version=" + version},
		WithoutControllers: true,
	})
	if err != nil {
		return err
	}
	defer plane.Stop()
	client, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	lines, err := served.Lines(client)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d resources\n", path, len(lines))
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
