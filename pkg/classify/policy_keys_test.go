package classify

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
