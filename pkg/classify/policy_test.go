package classify

import (
	_ "embed"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// everything is a Policy in which everything is decided.
//
//go:embed testdata/inputs/policy.yaml
var everything string

func TestParsePolicy(t *testing.T) {
	p := must.Get(ParsePolicy([]byte(everything)))(t)
	decided, byDefault := reflect.ValueOf(p), reflect.ValueOf(DefaultPolicy())
	for field := range decided.Type().Fields() {
		if cmp.Equal(decided.FieldByIndex(field.Index).Interface(), byDefault.FieldByIndex(field.Index).Interface(), cmpopts.EquateEmpty()) {
			t.Errorf("testdata/inputs/policy.yaml leaves %s at its default", field.Name)
		}
	}
	var given, written map[string]any
	must.Succeed(t, yaml.Unmarshal([]byte(everything), &given))
	must.Succeed(t, yaml.Unmarshal(must.Get(yaml.Marshal(p))(t), &written))
	for key, want := range given {
		if entries, ok := want.(map[string]any); ok {
			maps.DeleteFunc(written[key].(map[string]any), func(entry string, _ any) bool { return entries[entry] == nil })
		}
		if diff := cmp.Diff(want, written[key]); diff != "" {
			t.Errorf("%s: -given +read:\n%s", key, diff)
		}
	}
}

func TestPolicyRoundTrip(t *testing.T) {
	for name, p := range map[string]Policy{"default": DefaultPolicy(), "everything": must.Get(ParsePolicy([]byte(everything)))(t)} {
		text := must.Get(yaml.Marshal(p))(t)
		again, err := ParsePolicy(text)
		if err != nil {
			t.Fatalf("%s: reading what was written: %v\n%s", name, err, text)
		}
		if diff := cmp.Diff(p, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -written +read:\n%s", name, diff)
		}
	}
}

func TestParsePolicyDefaults(t *testing.T) {
	for _, text := range []string{"", "{}", "# nothing\n", "null"} {
		if got := must.Get(ParsePolicy([]byte(text)))(t); !cmp.Equal(got, DefaultPolicy()) {
			t.Errorf("%q decides something", text)
		}
	}
}

func TestParsePolicyErrors(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/refused-policies.tsv", 2) {
		text, want := row[0], row[1]
		_, err := ParsePolicy([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngives %v\nwant %s", text, err, want)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte("budgets: [[]]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		p, err := ParsePolicy(text)
		if err != nil {
			return
		}
		if _, err := yaml.Marshal(p); err != nil {
			t.Errorf("%q is read, and cannot be written: %v", text, err)
		}
	})
}

func notIn(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

const (
	levelLabel = "openshift.io/run-level"
	nameLabel  = "kubernetes.io/metadata.name"
)

func TestRunLevelExclusions(t *testing.T) {
	s := &inventory.Snapshot{Namespaces: map[string]inventory.Namespace{
		"kube-system": {Name: "kube-system"}, "kube-public": {Name: "kube-public"}, "team": {Name: "team"},
	}}
	for name, test := range map[string]struct {
		label string
		named []string
		want  []metav1.LabelSelectorRequirement
	}{
		"label":          {levelLabel, nil, []metav1.LabelSelectorRequirement{notIn(levelLabel, "0")}},
		"names, unknown": {"", []string{"later", "kube-system"}, []metav1.LabelSelectorRequirement{notIn(nameLabel, "kube-system", "later")}},
		"glob":           {levelLabel, []string{"kube-*", "kube-system"}, []metav1.LabelSelectorRequirement{notIn(levelLabel, "0"), notIn(nameLabel, "kube-public", "kube-system")}},
		"glob, nothing":  {levelLabel, []string{"no-*"}, []metav1.LabelSelectorRequirement{notIn(levelLabel, "0")}},
		"nothing":        {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := DefaultPolicy()
			p.RunLevelLabel, p.RunLevelZero = test.label, test.named
			expect.Equal(t, test.want, p.RunLevelExclusions(s))
		})
	}
}

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
