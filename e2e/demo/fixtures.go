package main

import (
	"context"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

//go:embed *.yaml
var fixtures embed.FS

// clientConfig is what says how to reach a webhook.
var clientConfig = regexp.MustCompile(`(?m)^( *)clientConfig:\n`)

// fixture is one file: a kind of fault, or none.
type fixture struct {
	file, summary string // the summary is the first line of its header
	objects       []*unstructured.Unstructured
}

// readFixtures reads all files, the healthy one first, and fits them to the
// webhook server.
func readFixtures(server *webhook.Server) ([]fixture, error) {
	files, err := fs.Glob(fixtures, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the fixtures: %w", err)
	}
	const healthy = "healthy.yaml"
	files = append([]string{healthy}, slices.DeleteFunc(files, func(file string) bool { return file == healthy })...)
	var out []fixture
	for _, file := range files {
		text, err := fs.ReadFile(fixtures, file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		fit := strings.ReplaceAll(string(text), "18443", fmt.Sprint(server.Port()))
		if !strings.Contains(fit, "caBundle:") { // as CA injectors do in clusters
			fit = clientConfig.ReplaceAllString(fit, "$0$1  caBundle: "+base64.StdEncoding.EncodeToString(server.CABundle())+"\n")
		}
		objects, err := apply.Objects([]byte(fit))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		out = append(out, fixture{file: file, summary: summary(fit), objects: objects})
	}
	return out, nil
}

// breakLater are those that break once the auditor runs, so that what it shows of changes
// and alerts moves.
var breakLater = []string{"chain-outlasts-request.yaml", "no-ready-endpoints.yaml"}

// byTime splits the fixtures into those that break now and later.
func byTime(all []fixture) (before, later []fixture) {
	for _, f := range all {
		if slices.Contains(breakLater, f.file) {
			later = append(later, f)
		} else {
			before = append(before, f)
		}
	}
	return before, later
}

func summary(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(line, "# ")
}

// load applies a fixture and puts the webhook server behind the Services that
// ask for it.
func load(ctx context.Context, config *rest.Config, f fixture, server *webhook.Server) error {
	if err := apply.Apply(ctx, config, f.objects...); err != nil {
		return fmt.Errorf("loading %s: %w", f.file, err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, object := range f.objects {
		if object.GetKind() != "Service" || object.GetLabels()["demo"] != "served" {
			continue
		}
		backend := webhook.Backend{Client: kube, Namespace: object.GetNamespace(), Name: object.GetName(), Server: server}
		if err := backend.CreateEndpoints(ctx); err != nil {
			return fmt.Errorf("loading %s: %w", f.file, err)
		}
	}
	return nil
}
