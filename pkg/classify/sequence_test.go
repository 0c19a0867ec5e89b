package classify

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// edits are what changes in a cluster again and again, so that the n-th Snapshot has
// what none before had: of webhooks, beside which all that is remembered holds, and of
// what is around them.
var edits = map[string]func(o *inventory.Objects, w *admissionv1.ValidatingWebhook, n int){
	"webhooks": func(_ *inventory.Objects, w *admissionv1.ValidatingWebhook, n int) {
		w.Name = fmt.Sprintf("revision-%d.example.com", n)
		w.MatchConditions[0].Expression = fmt.Sprintf("request.name != 'revision-%d'", n)
		w.NamespaceSelector = byName("NotIn", team(n))
		w.ObjectSelector = byName("NotIn", team(n))
		w.ClientConfig.CABundle = fmt.Appendf(nil, "# revision %d", n)
		w.Rules = append(w.Rules, kubetest.Rule(team(n)+".example.com", "widgets", admissionv1.Create))
	},
	"what is around": func(o *inventory.Objects, w *admissionv1.ValidatingWebhook, n int) {
		addPolicy(o, team(n), fmt.Sprintf("request.name != 'revision-%d'", n))
		o.CRDs = append(slices.Clone(o.CRDs), kubetest.CRD(team(n)+".example.com", "widgets", "v1", "v2"))
		o.Namespaces = slices.Clone(o.Namespaces)
		addNamespace(o, team(n), map[string]string{"revision": team(n)})
		o.Services, o.EndpointSlices, o.Pods = slices.Clone(o.Services), slices.Clone(o.EndpointSlices), slices.Clone(o.Pods)
		addBackend(o, team(n), fmt.Sprintf("revision-%d", n))
		w.ClientConfig.Service.Namespace, w.ClientConfig.Service.Name = team(n), fmt.Sprintf("revision-%d", n)
	},
}

// evaluated is what evaluates one Snapshot after another.
type evaluated struct {
	builder inventory.Builder
	matcher *admission.Matcher
}

// TestGrowthOverSnapshots: what evaluates 120 Snapshots, of which each has what
// none before had, says of the first ones what a new evaluation says, and holds no more
// than after a few.
func TestGrowthOverSnapshots(t *testing.T) {
	const few, all = 20, 120
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			e := evaluated{}
			var lengths map[string]int
			var heap uint64
			e.all(t, edit, all, func(n int, o inventory.Objects, r *Report) {
				if n < few {
					sameAnew(t, o, r)
				}
				if n == few {
					lengths, heap = lengthsIn(&e), heapInUse()
				}
			})
			now := heapInUse()
			t.Logf("after %d Snapshots the heap has %d kB, after %d it had %d", all, now>>10, few, heap>>10)
			if now > heap+heap/10 {
				t.Errorf("after %d Snapshots the heap has %d kB, after %d it had %d", all, now>>10, few, heap>>10)
			}
			for path, now := range lengthsIn(&e) {
				if before := lengths[path]; now > before+before/4+10 {
					t.Errorf("after %d Snapshots %s has %d elements, after %d it had %d", all, path, now, few, before)
				}
			}
			runtime.KeepAlive(e)
		})
	}
}

// all evaluates so many Snapshots, each edited, and calls each with the Reports.
func (e *evaluated) all(t *testing.T, edit func(o *inventory.Objects, w *admissionv1.ValidatingWebhook, n int), all int, each func(n int, o inventory.Objects, r *Report)) {
	t.Helper()
	cluster := crowd{edit: catchAll, around: withBackends}.objects(3)
	for n := range all {
		o := cluster
		configuration := o.Validating[0].DeepCopy()
		configuration.Webhooks[0].MatchConditions = []admissionv1.MatchCondition{{Name: "some", Expression: "request.name != 'revision'"}}
		edit(&o, &configuration.Webhooks[0], n)
		o.Validating = append([]*admissionv1.ValidatingWebhookConfiguration{configuration}, o.Validating[1:]...)
		e.matcher = e.matcher.Next(e.builder.Snapshot(o, taken))
		r := must.Get(DefaultPolicy().EvaluateBy(t.Context(), e.matcher))(t)
		each(n, o, r)
	}
}

// sameAnew compares all that the Report says with what is evaluated anew.
func sameAnew(t *testing.T, o inventory.Objects, r *Report) {
	t.Helper()
	anew := evaluate(t, DefaultPolicy(), o.Snapshot(taken))
	options := cmp.Options{
		cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Profile{}, "Webhook", "Snapshot", "Matcher", "Policy"), // compared with the Snapshots
		cmpopts.IgnoreFields(start.Wait{}, "Webhook"), cmpopts.IgnoreUnexported(admission.Limit{}),
		cmp.Comparer(func(a, b *Check) bool { return a == b }),
	}
	var diff strings.Builder
	diff.WriteString(cmp.Diff(anew.Snapshot, r.Snapshot, compareSnapshots...) + cmp.Diff(anew.Findings, r.Findings, options) + cmp.Diff(anew.Costs, r.Costs, options))
	for i := range anew.Profiles {
		diff.WriteString(cmp.Diff(anew.Profiles[i], r.Profiles[i], options))
	}
	if diff.String() != "" || !slices.Equal(anew.Errors, r.Errors) {
		t.Fatalf("-anew +taken over:\n%s%v", diff.String(), r.Errors)
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one left to finalizers
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// lengthsIn adds up the lengths of all maps and slices that v leads to, by the type and
// the field that holds them. It goes through this project's types only.
func lengthsIn(v any) map[string]int {
	l := lengths{sums: map[string]int{}, visits: map[visit]bool{}}
	l.add("", reflect.ValueOf(v))
	return l.sums
}

type visit struct {
	reflect.Type
	address uintptr
}

type lengths struct {
	sums   map[string]int
	visits map[visit]bool
}

func (l *lengths) add(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Map:
		if l.first(v) {
			l.sums[path] += v.Len()
			for each := v.MapRange(); each.Next(); {
				l.add(path+"[]", each.Value())
			}
		}
	case reflect.Slice:
		if v.Len() > 0 && l.first(v) {
			l.sums[path] += v.Len()
			for i := range v.Len() {
				l.add(path+"[]", v.Index(i))
			}
		}
	case reflect.Pointer:
		if l.first(v) {
			l.add(path, v.Elem())
		}
	case reflect.Struct:
		if strings.Contains(v.Type().PkgPath(), "webhook-auditor") {
			for i := range v.NumField() {
				l.add(v.Type().String()+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
}

// first reports whether what v refers to was not counted before.
func (l *lengths) first(v reflect.Value) bool {
	at := visit{v.Type(), v.Pointer()}
	defer func() { l.visits[at] = true }()
	return v.Pointer() != 0 && !l.visits[at]
}
