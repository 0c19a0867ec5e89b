package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// TestPrintPolicy: each key has its row and each example its section, each
// block of YAML is a valid Policy, and the last one is the default.
func TestPrintPolicy(t *testing.T) {
	text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return WritePolicy(b) }))
	for _, k := range classify.PolicyKeys {
		if n := strings.Count(text, "\n| `"+k.Path+"` |"); n != 1 {
			t.Errorf("%s has %d rows, want 1", k.Path, n)
		}
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) != len(classify.PolicyExamples)+1 {
		t.Fatalf("%d blocks of YAML, want %d examples and the defaults", len(blocks), len(classify.PolicyExamples))
	}
	var last classify.Policy
	for _, block := range blocks {
		var err error
		if last, err = classify.ParsePolicy([]byte(block[1])); err != nil {
			t.Errorf("%v in:\n%s", err, block[1])
		}
	}
	if diff := cmp.Diff(classify.DefaultPolicy(), last, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-default +documented:\n%s", diff)
	}
}
