package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestReportWatch: the first report is whole, later ones are what changed.
func TestReportWatch(t *testing.T) {
	healthy := inventory.Objects{}.Snapshot(time.Now())
	broken := dead(time.Now())
	var out, stderr bytes.Buffer
	w := &reportWatch{audit: &audit{output: "table"}, policy: classify.DefaultPolicy(), limit: classify.Critical}
	for i, step := range []struct {
		snapshot *inventory.Snapshot
		want     []string
	}{
		{broken, []string{"SEVERITY", "critical  service-missing", "1 critical"}},
		{dead(time.Now()), nil},
		{healthy, []string{"CHANGE", "resolved  critical  service-missing"}},
		{healthy, nil},
		{broken, []string{"added", "service-missing"}},
	} {
		out.Reset()
		must.Succeed(t, w.publish(t.Context(), admission.New(step.snapshot), streams{out: &out, err: &stderr}))
		for _, want := range step.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("step %d: no %q in:\n%s", i, want, out.String())
			}
		}
		if len(step.want) == 0 && out.Len() > 0 {
			t.Errorf("step %d: nothing changed, and it prints:\n%s", i, out.String())
		}
	}
	if err := exitStatus(*w.last, w.limit); !errors.Is(err, errFindings) {
		t.Errorf("the exit code is that of %v", err)
	}
}

func TestWatchUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"files":             {"testdata/webhooks.yaml"},
		"a baseline":        {"--baseline", "testdata/webhooks.yaml"},
		"a probe":           {"--probe", "tls"},
		"another version":   {"--server-version", "v1.36"},
		"a closed document": {"-o", "sarif"},
	} {
		r := execute(t, "", append([]string{"audit", "--watch"}, args...)...)
		if r.code != exitUsage || r.out != "" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, r.code, r.out, r.err)
		}
	}
}
