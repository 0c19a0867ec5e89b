// Command record writes what the API server exports about webhooks, after
// webhooks of every kind were called: the metrics that the boards' expressions
// are held against where no API server runs.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
	"github.com/webhook-auditor/webhook-auditor/e2e/screenshots/allseries"
)

// wanted are the series that boards read. Of requests, only those on the
// resource that the webhooks intercept.
var wanted = regexp.MustCompile(`^(# (HELP|TYPE) )?(apiserver_admission_(webhook|step|match_condition)_|apiserver_(crd_)?conversion_webhook_|apiserver_request_(sli_)?duration_seconds|apiserver_request_total|process_)`)

var request = regexp.MustCompile(`^apiserver_request_.*resource="configmaps"`)

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
		return fmt.Errorf("usage: record BINARIES FILE")
	}
	server, err := webhook.Start()
	if err != nil {
		return err
	}
	defer server.Close()
	plane, err := cluster.Start(ctx, cluster.Options{Binaries: args[0], WithoutControllers: true})
	if err != nil {
		return err
	}
	defer plane.Stop()
	if err := allseries.Export(ctx, plane, server); err != nil {
		return err
	}
	return scrape(ctx, plane, args[1])
}

func scrape(ctx context.Context, plane *cluster.ControlPlane, path string) error {
	kube, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	body, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return fmt.Errorf("scraping: %w", err)
	}
	defer body.Close()
	lines, err := trim(body)
	if err != nil {
		return fmt.Errorf("reading the scrape: %w", err)
	}
	fmt.Printf("%s: %d lines\n", path, len(lines))
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func trim(text io.Reader) ([]string, error) {
	var lines []string
	scanner := bufio.NewScanner(text)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		if !wanted.MatchString(line) {
			continue
		}
		if strings.HasPrefix(line, "apiserver_request_") && !request.MatchString(line) {
			continue
		}
		lines = append(lines, line)
	}
	return lines, scanner.Err()
}
