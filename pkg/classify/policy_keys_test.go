package classify

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// pathsOf are the keys of a struct and of the structs in its lists.
func pathsOf(t reflect.Type, above string) []string {
	var out []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		out = append(out, above+name)
		if field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct {
			out = append(out, pathsOf(field.Type.Elem(), above+name+"[].")...)
		}
	}
	return out
}

// TestPolicyKeysAreDocumented: each key, in the order of the fields.
func TestPolicyKeysAreDocumented(t *testing.T) {
	var documented []string
	for _, k := range PolicyKeys {
		documented = append(documented, k.Path)
		if !strings.HasSuffix(k.Text, ".") {
			t.Errorf("%s: %q is no sentence", k.Path, k.Text)
		}
	}
	if diff := cmp.Diff(pathsOf(reflect.TypeFor[Policy](), ""), documented); diff != "" {
		t.Errorf("PolicyKeys differs from the fields of Policy: -fields +documented\n%s", diff)
	}
}

// TestPolicyExamples: each one is valid and decides something, and together
// they have every key.
func TestPolicyExamples(t *testing.T) {
	all := reflect.ValueOf(DefaultPolicy())
	decided := map[string]bool{}
	for _, e := range PolicyExamples {
		p, err := ParsePolicy([]byte(e.YAML))
		if err != nil {
			t.Errorf("%s: %v", e.Title, err)
			continue
		}
		before := len(decided)
		for i := range all.NumField() {
			if !reflect.DeepEqual(reflect.ValueOf(p).Field(i).Interface(), all.Field(i).Interface()) {
				decided[all.Type().Field(i).Name] = true
			}
		}
		if len(decided) == before && !strings.HasPrefix(e.YAML, "acknowledgements:") {
			t.Errorf("%s: decides nothing that the examples before it do not", e.Title)
		}
	}
	for field := range all.Type().Fields() {
		if !decided[field.Name] {
			t.Errorf("no example decides %s", field.Name)
		}
	}
	for _, k := range PolicyKeys {
		key := k.Path[strings.LastIndex(k.Path, ".")+1:] + ":"
		if !slices.ContainsFunc(PolicyExamples, func(e policyExample) bool { return strings.Contains(e.YAML, key) }) {
			t.Errorf("no example has %s", k.Path)
		}
	}
}

// TestPolicyExampleAcknowledgesACriticalFinding: the first example does what
// its title says.
func TestPolicyExampleAcknowledgesACriticalFinding(t *testing.T) {
	example := must.Get(ParsePolicy([]byte(PolicyExamples[0].YAML)))(t)
	acknowledged := example.Acknowledgements[0]
	objects, summary := manifest.Read([]string{"testdata/" + acknowledged.Check + ".yaml"}, manifest.Options{})
	if len(summary.Inputs) != 1 {
		t.Fatalf("read %d inputs", len(summary.Inputs))
	}
	objects.NamespacesKnown, objects.ServicesKnown.All, objects.EndpointsKnown.All = true, true, true
	snapshot := objects.Snapshot(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	before := evaluate(t, DefaultPolicy(), snapshot)
	critical := slices.IndexFunc(before.Findings, func(f *Finding) bool { return f.Check.Name == acknowledged.Check && f.Severity == Critical })
	if critical < 0 {
		t.Fatalf("no critical finding of %s", acknowledged.Check)
	}
	example.Acknowledgements[0].Configuration = before.Findings[critical].Webhook.Configuration
	for day, want := range map[time.Time]bool{acknowledged.Until.Time: true, acknowledged.Until.AddDate(0, 0, 2): false} {
		after := evaluate(t, example, objects.Snapshot(day))
		i := slices.IndexFunc(after.Findings, func(f *Finding) bool {
			return f.Check.Name == acknowledged.Check && f.Webhook == before.Findings[critical].Webhook
		})
		if i < 0 || after.Findings[i].Acknowledged != want {
			t.Errorf("on %s: acknowledged %t, want %t", day, !want, want)
		}
	}
}
