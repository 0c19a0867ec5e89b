package admission

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestRootFields: the fields are those of all kinds of Kubernetes' own.
func TestRootFields(t *testing.T) {
	want := map[string]bool{"apiVersion": true, "kind": true}
	for _, kind := range scheme.Scheme.AllKnownTypes() {
		if _, isObject := kind.FieldByName("ObjectMeta"); !isObject {
			continue
		}
		for field := range kind.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				want[name] = true
			}
		}
	}
	expect.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(slices.Values(rootFields)))
}

// TestObjectsAsAdmissionMeetsThem: what the API server fills in is not missing. The
// answers agree with e2e/suites/explain, which asks a real API server.
func TestObjectsAsAdmissionMeetsThem(t *testing.T) {
	var manifests map[string]map[string]any
	must.Succeed(t, yaml.Unmarshal(must.Get(os.ReadFile("testdata/objects.yaml"))(t), &manifests))
	for _, row := range must.Rows(t, "testdata/objects.tsv", 5) {
		t.Run(row[1]+" "+row[4], func(t *testing.T) {
			var known struct {
				Subject
				As     string
				Groups []string
			}
			must.Succeed(t, yaml.UnmarshalStrict([]byte(row[2]), &known))
			if known.User = NewUser(known.As, known.Groups); row[3] != "" {
				if known.Object = manifests[row[3]]; known.Object == nil {
					t.Fatalf("testdata/objects.yaml has no object %s", row[3])
				}
			}
			s := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{validating("a", func(w *admissionv1.ValidatingWebhook) {
				w.Rules[0].APIGroups, w.Rules[0].APIVersions, w.Rules[0].Resources = []string{"*"}, []string{"*"}, []string{"*/*"}
				w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: row[4]}}
			})}}.Snapshot(time.Time{})
			op, what, _ := strings.Cut(row[1], " ")
			r := must.Get(New(s).OpenRequest(Operation(op), resource(t, what), known.Subject))(t)
			got := r.Match(s.Webhooks[0])
			verdict, refused := strings.CutSuffix(row[0], ", refused")
			if string(got.Match) != verdict || got.Refused != refused {
				t.Errorf("%+v, want %s", got, row[0])
			}
		})
	}
}
