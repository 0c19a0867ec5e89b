package manifest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// describe lists what was read, one object or webhook a line, and the errors.
func describe(o inventory.Objects) []string {
	var out []string
	add := func(kind, namespace, name string, hooks ...string) {
		key := inventory.SourceKey{Kind: kind, Namespace: namespace, Name: name}
		out = append(out, fmt.Sprintf("%s %s %s/%s", fileLine(o.Sources[key].Source), kind, namespace, name))
		for i, h := range hooks {
			key.Webhook, key.Index = h, i
			out = append(out, fmt.Sprintf("%s   %s", fileLine(o.Sources[key].Source), h))
		}
	}
	for _, v := range o.Validating {
		var hooks []string
		for _, w := range v.Webhooks {
			hooks = append(hooks, w.Name)
		}
		add("ValidatingWebhookConfiguration", "", v.Name, hooks...)
	}
	for _, v := range o.Mutating {
		var hooks []string
		for _, w := range v.Webhooks {
			hooks = append(hooks, w.Name)
		}
		add("MutatingWebhookConfiguration", "", v.Name, hooks...)
	}
	for _, v := range o.CRDs {
		add("CustomResourceDefinition", "", v.Name)
	}
	for _, v := range o.Namespaces {
		add("Namespace", "", v.Name)
	}
	for _, v := range o.Services {
		add("Service", v.Namespace, v.Name)
	}
	for _, v := range o.EndpointSlices {
		add("EndpointSlice", v.Namespace, v.Name)
	}
	for _, v := range o.APIServices {
		add("APIService", "", v.Name)
	}
	for _, e := range o.Errors {
		out = append(out, "! "+e.Error())
	}
	return out
}

func fileLine(s inventory.Source) string { return fmt.Sprintf("%s:%d", filepath.Base(s.File), s.Line) }

// TestRead reads each file of testdata/read and compares what was read, and
// from which lines, with what stands beside it.
func TestRead(t *testing.T) {
	files, err := filepath.Glob("testdata/read/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".want") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			objects, summary := Read([]string{file}, Options{})
			got := strings.Join(append(describe(objects), fmt.Sprintf("objects %d, skipped %d", summary.Inputs[0].Objects, summary.Inputs[0].Skipped)), "\n") + "\n"
			got = strings.ReplaceAll(got, "testdata/read/", "")
			golden.Compare(t, "read/"+filepath.Base(file)+".want", []byte(got))
		})
	}
}
