package classify

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// course is what happens to a cluster, one step after the other. Each step
// replaces what it changes, as a watch does.
var course = []struct {
	what   string
	change func(*inventory.Objects)
}{
	{"nothing", func(*inventory.Objects) {}},
	{"all endpoints go", setReady(false)},
	{"all endpoints come", setReady(true)},
	{"a namespace appears", func(o *inventory.Objects) {
		o.Namespaces = append(slices.Clone(o.Namespaces), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"openshift.io/run-level": "0"}}})
	}},
	{"the endpoints go again", setReady(false)},
	{"configurations fail open", func(o *inventory.Objects) {
		o.Validating = slices.Clone(o.Validating)
		for i, c := range o.Validating {
			c = c.DeepCopy()
			for n := range c.Webhooks {
				c.Webhooks[n].FailurePolicy = new(admissionv1.Ignore)
			}
			o.Validating[i] = c
		}
	}},
	{"Services lose their selectors", func(o *inventory.Objects) {
		o.Services = slices.Clone(o.Services)
		for i, s := range o.Services {
			s = s.DeepCopy()
			s.Spec.Selector = nil
			o.Services[i] = s
		}
	}},
	{"a Pod starts", func(o *inventory.Objects) {
		o.Pods = append(slices.Clone(o.Pods), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "policy", Labels: map[string]string{"app": "policy"}}})
	}},
	{"a Service goes", func(o *inventory.Objects) { o.Services = o.Services[:max(0, len(o.Services)-1)] }},
	{"the CRDs go", func(o *inventory.Objects) { o.CRDs = nil }},
	{"the server is another", func(o *inventory.Objects) { o.Server = inventory.Version{Major: 1, Minor: 33} }},
	{"the configurations go", func(o *inventory.Objects) { o.Validating, o.Mutating = nil, nil }},
}

func setReady(ready bool) func(*inventory.Objects) {
	return func(o *inventory.Objects) {
		o.EndpointSlices = slices.Clone(o.EndpointSlices)
		for i, s := range o.EndpointSlices {
			s = s.DeepCopy()
			for n := range s.Endpoints {
				s.Endpoints[n].Conditions = discoveryv1.EndpointConditions{Ready: &ready}
			}
			o.EndpointSlices[i] = s
		}
	}
}

// TestSuccession: what is taken over from before is what would be made anew,
// whatever happened in between, to a cluster that holds all fixtures.
func TestSuccession(t *testing.T) {
	o, _ := manifest.Read([]string{"testdata"}, manifest.Options{})
	o.Sources, o.NamespacesKnown, o.ServicesKnown.All, o.EndpointsKnown.All = nil, true, true, true
	var facts inventory.Succession
	opinions := Succession{Policy: DefaultPolicy()}
	for i, step := range course {
		step.change(&o)
		now := taken.Add(time.Duration(i) * time.Second)
		fresh := o.Snapshot(now)
		snapshot := facts.Snapshot(o, now)
		if diff := cmp.Diff(fresh, snapshot, compareSnapshots...); diff != "" {
			t.Errorf("%s: -fresh +taken over:\n%s", step.what, diff)
		}
		successive, err := opinions.Evaluate(t.Context(), snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(opinion(evaluate(t, DefaultPolicy(), fresh)), opinion(successive), compareOpinions...); diff != "" {
			t.Errorf("%s: -fresh +taken over:\n%s", step.what, diff)
		}
	}
}

// opinion is what a Report says, without the facts.
func opinion(r *Report) Report {
	out := Report{Costs: r.Costs, Findings: r.Findings, Profiles: slices.Clone(r.Profiles)}
	for i := range out.Profiles {
		p := &out.Profiles[i]
		p.Webhook, p.Snapshot, p.Matcher, p.Policy = nil, nil, nil, nil
	}
	return out
}

var compareOpinions = []cmp.Option{
	cmpopts.IgnoreUnexported(Report{}, Cost{}),
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b *Check) bool { return a == b }),
}

// TestSuccessionJudgesWhatMoved: the other webhooks keep what was found.
func TestSuccessionJudgesWhatMoved(t *testing.T) {
	o := typicalObjects(100)
	var facts inventory.Succession
	before := facts.Snapshot(o, taken)
	o.EndpointSlices = slices.Clone(o.EndpointSlices)
	o.EndpointSlices[3] = o.EndpointSlices[3].DeepCopy()
	o.EndpointSlices[3].Endpoints = nil
	moved, only := facts.Snapshot(o, taken).MovedEndpoints(before)
	want := map[inventory.Key]bool{{Namespace: "team-03", Name: "policy"}: true}
	if diff := cmp.Diff(want, moved); diff != "" || !only {
		t.Errorf("only endpoints moved: %t; -want +got:\n%s", only, diff)
	}
	o.Services = slices.Clone(o.Services)
	o.Services[3] = o.Services[3].DeepCopy()
	o.Services[3].Spec.Ports[0].Port = 8443
	if _, only := facts.Snapshot(o, taken).MovedEndpoints(before); only {
		t.Error("a port that changed is taken for endpoints that moved")
	}
}
