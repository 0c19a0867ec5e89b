package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// TestSeveralContexts: one report of two clusters and of one that does not exist.
func TestSeveralContexts(t *testing.T) {
	kubeconfig := fakeCluster(t)
	flags := []string{"audit", "--kubeconfig", kubeconfig, "--context", "here", "--context", "nowhere", "--context", "there", "--fail-on", "never"}
	t.Run("JSON", func(t *testing.T) {
		got := execute(t, "", append(flags, "-o", "json")...)
		var d report.Document
		if err := json.Unmarshal([]byte(got.out), &d); err != nil || got.code != exitError {
			t.Fatalf("exit code %d, %v: %s", got.code, err, got.err)
		}
		counts := map[string]int{}
		for _, w := range d.Webhooks {
			counts[w.Context]++
		}
		if len(counts) != 2 || counts["here"] != counts["there"] || counts["here"] == 0 || d.Totals.Webhooks != len(d.Webhooks) {
			t.Errorf("webhooks by context are %v, %d in all", counts, d.Totals.Webhooks)
		}
		if !strings.Contains(got.err, "context nowhere: ") {
			t.Errorf("stderr lacks the context that does not exist:\n%s", got.err)
		}
	})
	t.Run("text", func(t *testing.T) {
		got := execute(t, "", flags...)
		for _, heading := range []string{"Context here:\n", "Context nowhere:\n", "Context there:\n"} {
			if !strings.Contains(got.out, heading) {
				t.Errorf("%q is missing:\n%s", heading, got.out)
			}
		}
	})
	t.Run("a webhook of all", func(t *testing.T) {
		got := execute(t, "", append(flags, "-o", "json", "validatingwebhookconfiguration/policy")...)
		if strings.Contains(got.out, "widgets.example.com") || strings.Count(got.out, `"context": "here"`) == 0 {
			t.Errorf("the report is\n%s", got.out)
		}
	})
	for _, wrong := range []string{"--watch", "--baseline=x", "-o=sarif", "--observe=apiserver", "manifests"} {
		if got := execute(t, "", append(flags, wrong)...); got.code != exitUsage || !strings.Contains(got.err, "--context: must be given") {
			t.Errorf("%s: exit code %d, %s", wrong, got.code, got.err)
		}
	}
}

// TestLastContextOfOneCluster: a command that reads one cluster takes the last
// --context, as kubectl does.
func TestLastContextOfOneCluster(t *testing.T) {
	kubeconfig := fakeCluster(t)
	got := execute(t, "", "explain", "--kubeconfig", kubeconfig, "--context", "nowhere", "--context", "here", "create", "pods")
	if strings.Contains(got.err, "nowhere") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}
