package report

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
)

// change is one that upgrades the server, resolves two findings, adds one and
// leaves the others.
func change() Comparison {
	before, after := NewDocument(reporttest.Report()), NewDocument(reporttest.Report())
	before.Taken, before.Server = before.Taken.Add(-24*time.Hour), "v1.36.4"
	before.Findings = before.Findings[1:]
	after.Findings = append(after.Findings[:1:1], after.Findings[3:]...)
	return NewComparison(before, after)
}

func TestComparison(t *testing.T) {
	for file, write := range map[string]func(io.Writer, Comparison) error{
		"comparison.txt":  func(w io.Writer, c Comparison) error { return Write(w, "text", c, TextOptions{Width: 100}) },
		"comparison.md":   func(w io.Writer, c Comparison) error { return Write(w, "markdown", c, TextOptions{}) },
		"comparison.json": WriteJSON[Comparison],
	} {
		var b bytes.Buffer
		must.Succeed(t, write(&b, change()))
		golden.Compare(t, file, b.Bytes())
	}
}

func TestDiagnosis(t *testing.T) {
	r := reporttest.Report()
	for i := range r.Profiles {
		r.Profiles[i].Snapshot = r.Snapshot
	}
	var answers []diagnose.Answer
	for _, text := range []string{
		`failed calling webhook "pods.policy.example.com": failed to call webhook: Post "https://policy.policy.svc:443/?timeout=10s": no endpoints available for service "policy"`,
		`admission webhook "gone.example.com" denied the request: no`,
	} {
		for _, c := range diagnose.Parse(text) {
			answers = append(answers, diagnose.Explain(r, c))
		}
	}
	s := reporttest.Gathered(r).Snapshot
	golden.Compare(t, "diagnosis.txt", reporttest.Rendered(t, func(b *bytes.Buffer) error {
		return Write(b, "text", NewDiagnosis(answers, s), TextOptions{Width: 100})
	}))
	golden.Compare(t, "diagnosis.json", reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteJSON(b, NewDiagnosis(answers, s)) }))
}
