package main

import (
	"context"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
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
	slices.SortStableFunc(files, func(a, b string) int {
		return strings.Compare(order(a), order(b))
	})
	var out []fixture
	for _, file := range files {
		text, err := fs.ReadFile(fixtures, file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		fit := strings.ReplaceAll(string(text), "18443", fmt.Sprint(server.Port()))
		objects, err := apply.Objects([]byte(fit))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		for _, object := range objects {
			trust(object, server.CABundle())
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

// order sorts the healthy fixture before the broken ones.
func order(file string) string {
	if file == "healthy.yaml" {
		return ""
	}
	return file
}

func summary(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(line, "# ")
}

// trust fills in the caBundle of every webhook that has none, as CA injectors
// do in clusters.
func trust(object *unstructured.Unstructured, bundle []byte) {
	for _, config := range clientConfigs(object.Object) {
		if _, given := config["caBundle"]; !given {
			config["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
		}
	}
}

// clientConfigs finds the places in an object, however deep, that say how to
// reach a webhook.
func clientConfigs(value any) []map[string]any {
	var out []map[string]any
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if config, ok := child.(map[string]any); ok && key == "clientConfig" {
				out = append(out, config)
			}
			out = append(out, clientConfigs(child)...)
		}
	case []any:
		for _, child := range v {
			out = append(out, clientConfigs(child)...)
		}
	}
	return out
}

// load applies a fixture and puts the webhook server behind the Services that
// ask for it.
func load(ctx context.Context, config *rest.Config, f fixture, server *webhook.Server) error {
	client, err := apply.New(config)
	if err != nil {
		return err
	}
	if err := client.Apply(ctx, f.objects...); err != nil {
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
