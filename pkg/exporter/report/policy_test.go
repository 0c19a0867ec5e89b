package report

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// TestPrintPolicy: the last block of YAML is the default.
func TestPrintPolicy(t *testing.T) {
	text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return WritePolicy(b) }))
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	last, err := classify.ParsePolicy([]byte(blocks[len(blocks)-1][1]))
	if diff := cmp.Diff(classify.DefaultPolicy(), last, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("-default +documented: %v\n%s", err, diff)
	}
}
