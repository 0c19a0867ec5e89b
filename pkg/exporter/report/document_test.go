package report

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func TestJSON(t *testing.T) {
	for name, r := range map[string]*classify.Report{
		"report.json": reporttest.Blind(reporttest.Report()),
		"empty.json":  {Snapshot: &inventory.Snapshot{Taken: reporttest.Taken}},
	} {
		t.Run(name, func(t *testing.T) {
			got := reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteJSON(b, NewDocument(r)) })
			golden.Compare(t, name, got)
			if bytes.Contains(got, []byte("null")) {
				t.Errorf("got null, want empty lists:\n%s", got)
			}
		})
	}
}

func TestWebhooksAreSorted(t *testing.T) {
	r := reporttest.Report()
	slices.Reverse(r.Profiles)
	d := NewDocument(r)
	var got []string
	for _, w := range d.Webhooks {
		got = append(got, strings.Join([]string{string(w.Type), w.Configuration, w.Name}, "/"))
	}
	want := []string{
		"admit/injector/inject.mesh.example.com",
		"conversion/widgets.example.com/widgets.example.com",
		"validating/policy/pods.policy.example.com",
		"validating/policy/quota.policy.example.com",
	}
	expect.Equal(t, want, got)
}

func TestReadDocument(t *testing.T) {
	want := NewDocument(reporttest.Blind(reporttest.Report()))
	got := must.Get(ReadDocument(bytes.NewReader(reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteJSON(b, want) }))))(t)
	for _, w := range got.Webhooks {
		maps.DeleteFunc(w.Reach, func(_ classify.Class, r []inventory.Resource) bool { return len(r) == 0 })
	}
	expect.Equal(t, want, got, cmpopts.EquateEmpty())
}

func TestReadDocumentRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"something else": {"kind: List", "audit -o json"},
		"truncated":      {`{"version":"v2","findings":[{"check":`, "audit -o json"},
		"empty":          {"", "audit -o json"},
		"later version":  {`{"version":"v3"}`, `version is "v3"`},
		"no version":     {`{}`, `version is ""`},
		"severity":       {`{"version":"v1","findings":[{"severity":"fatal"}]}`, "must be one of info, warning, critical"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadDocument(strings.NewReader(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestErrorsKeepTheirPlace(t *testing.T) {
	file := inventory.Source{File: "x.yaml", Line: 3}
	for _, tc := range []struct {
		failure inventory.Error
		want    string
	}{
		{inventory.Error{Source: file, Object: "Service/a", Message: "unknown field"}, "x.yaml:3: Service/a: unknown field"},
		{inventory.Error{Source: file, Message: "truncated"}, "x.yaml:3: truncated"},
		{inventory.Error{Source: file, Object: "x.yaml", Message: "truncated"}, "x.yaml:3: truncated"},
		{inventory.Error{Source: inventory.Source{File: "x.tar.gz"}, Message: "truncated"}, "x.tar.gz: truncated"},
		{inventory.Error{Object: "services", Message: "forbidden"}, "services: forbidden"},
		{inventory.Error{Message: "out of memory"}, "out of memory"},
	} {
		if got := newError(tc.failure).String(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
		if want := tc.failure.Source; newError(tc.failure).Line != want.Line {
			t.Errorf("%s: got line %d, want %d", tc.want, newError(tc.failure).Line, want.Line)
		}
	}
}
