// Command record writes what API servers serve into the folder given as
// argument, v1.37.txt, v1.36.txt and so on: the one that runs here, at its own
// version and emulating each older one it can, and older ones
// from their sources.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/client-go/discovery"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apiresources"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
)

// versions are those that kube-apiserver 1.37 can be or emulate.
var versions = []string{"1.37", "1.36", "1.35", "1.34"}

// sources are older releases of Kubernetes, and what of their stable versions
// is served only behind a feature gate that is off by default.
var sources = []struct {
	version, release string
	gated            []string
}{
	{"1.33", "v1.33.0", nil},
	{"1.32", "v1.32.0", []string{"v1 pods/resize"}},
	{"1.31", "v1.31.0", nil},
	{"1.30", "v1.30.0", nil},
}

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
	for _, source := range sources {
		folder, err := discoveryOf(ctx, source.release)
		if err != nil {
			return fmt.Errorf("recording %s: %w", source.version, err)
		}
		lines, err := apiresources.Recorded(folder, source.gated...)
		if err != nil {
			return fmt.Errorf("recording %s: %w", source.version, err)
		}
		if err := write(filepath.Join(args[1], "v"+source.version+".txt"), lines); err != nil {
			return err
		}
	}
	return nil
}

// discoveryOf is the folder in the sources of a release that lists what it
// serves.
func discoveryOf(ctx context.Context, release string) (string, error) {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", "k8s.io/kubernetes@"+release)
	output, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", download, err, output)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		return "", fmt.Errorf("%s: %w", download, err)
	}
	return filepath.Join(module.Dir, "api", "discovery"), nil
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
	lines, err := apiresources.Lines(client)
	if err != nil {
		return err
	}
	return write(path, lines)
}

func write(path string, lines []string) error {
	fmt.Printf("%s: %d resources\n", path, len(lines))
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
