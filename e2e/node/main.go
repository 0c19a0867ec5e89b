//go:build linux

// Command node runs a cluster of real nodes until it is interrupted, and prints the
// kubeconfig for it: "make cluster".
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
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
)

func main() {
	os.Exit(nodes.Isolated{Outside: outside, Inside: inside}.Run())
}

// The API server is inside; connections to it pass the machine's loopback and a socket.
const (
	socket     = "api.sock"
	kubeconfig = "kubeconfig"
	portFile   = "port"
)

func outside(folder string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for kubectl: %w", err)
	}
	go forward(listener, func() (net.Conn, error) { return net.Dial("unix", filepath.Join(folder, socket)) })
	port := listener.Addr().(*net.TCPAddr).Port
	return os.WriteFile(filepath.Join(folder, portFile), []byte(strconv.Itoa(port)), 0o600)
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
	listener, err := net.Listen("unix", filepath.Join(folder, socket))
	if err != nil {
		return fmt.Errorf("listening for kubectl: %w", err)
	}
	go forward(listener, func() (net.Conn, error) { return net.Dial("tcp", strings.TrimPrefix(c.Config().Host, "https://")) })
	port, err := os.ReadFile(filepath.Join(folder, portFile))
	if err != nil {
		return err
	}
	config := c.Config()
	config.Host = "https://127.0.0.1:" + string(port)
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
	count, err := strconv.Atoi(cmp.Or(os.Getenv("NODES"), "3"))
	if err != nil || count < 1 {
		return nodes.Options{}, fmt.Errorf("reading NODES: %q is no number of nodes", os.Getenv("NODES"))
	}
	options := nodes.Options{
		Binaries: filepath.Join(root, "e2e", "bin"), Folder: folder, Nodes: count,
		ProxyMode:      cmp.Or(os.Getenv("PROXY_MODE"), "iptables"),
		APIServerFlags: strings.Fields(os.Getenv("APISERVER_FLAGS")),
		Emulated:       os.Getenv("EMULATED_VERSION"),
	}
	if image := filepath.Join(root, "dist", "webhook-auditor-image.tar"); exists(image) {
		options.Images = append(options.Images, image)
	}
	return options, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// forward copies what connections bring to and from what dial connects to.
func forward(listener net.Listener, dial func() (net.Conn, error)) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // the program ends
		}
		go func() {
			defer client.Close()
			server, err := dial()
			if err != nil {
				return
			}
			defer server.Close()
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			}()
			_, _ = io.Copy(client, server)
		}()
	}
}
