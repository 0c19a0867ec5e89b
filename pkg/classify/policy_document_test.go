package classify

import (
	"reflect"
	"regexp"
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
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+?)` \\| (.+) \\|$").FindAllStringSubmatch(PolicyDocument(), -1) {
		documented = append(documented, row[1])
		if !strings.HasSuffix(row[2], ".") {
			t.Errorf("%s: %q is no sentence", row[1], row[2])
		}
	}
	if diff := cmp.Diff(pathsOf(reflect.TypeFor[Policy](), ""), documented); diff != "" {
		t.Errorf("POLICY.md differs from the fields of Policy: -fields +documented\n%s", diff)
	}
}

// TestPolicyExamples: each one is valid and decides something, and together
// they have every key.
func TestPolicyExamples(t *testing.T) {
	all, examples := reflect.ValueOf(DefaultPolicy()), ""
	decided := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(PolicyDocument(), -1) {
		p, err := ParsePolicy([]byte(block[1]))
		if err != nil {
			t.Errorf("%v in:\n%s", err, block[1])
			continue
		}
		before := len(decided)
		for i := range all.NumField() {
			if !reflect.DeepEqual(reflect.ValueOf(p).Field(i).Interface(), all.Field(i).Interface()) {
				decided[all.Type().Field(i).Name] = true
			}
		}
		if len(decided) == before && !strings.HasPrefix(block[1], "acknowledgements:") {
			t.Errorf("it decides nothing that the examples before it do not:\n%s", block[1])
		}
		examples += block[1]
	}
	for field := range all.Type().Fields() {
		if !decided[field.Name] {
			t.Errorf("no example decides %s", field.Name)
		}
	}
	for _, path := range pathsOf(reflect.TypeFor[Policy](), "") {
		if key := path[strings.LastIndex(path, ".")+1:] + ":"; !strings.Contains(examples, key) {
			t.Errorf("no example has %s", path)
		}
	}
}
