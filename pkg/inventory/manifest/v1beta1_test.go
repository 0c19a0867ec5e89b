package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func readString(t *testing.T, text string) inventory.Objects {
	t.Helper()
	o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(text)})
	for _, e := range o.Errors {
		t.Error(e)
	}
	return o
}

// TestV1beta1Defaults reads a webhook that leaves everything to the API, and
// one that leaves nothing to it.
func TestV1beta1Defaults(t *testing.T) {
	const text = `
apiVersion: admissionregistration.k8s.io/v1beta1
kind: KIND
metadata: {name: old}
webhooks:
- name: defaulted.example.com
- name: explicit.example.com
  failurePolicy: Fail
  matchPolicy: Equivalent
  sideEffects: None
  timeoutSeconds: 5
  admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: KIND
metadata: {name: new}
webhooks:
- name: defaulted.example.com
`
	want := []admissionv1.ValidatingWebhook{{
		Name:                    "defaulted.example.com",
		FailurePolicy:           new(admissionv1.Ignore),
		MatchPolicy:             new(admissionv1.Exact),
		SideEffects:             new(admissionv1.SideEffectClassUnknown),
		TimeoutSeconds:          new(int32(30)),
		AdmissionReviewVersions: []string{"v1beta1"},
	}, {
		Name:                    "explicit.example.com",
		FailurePolicy:           new(admissionv1.Fail),
		MatchPolicy:             new(admissionv1.Equivalent),
		SideEffects:             new(admissionv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(5)),
		AdmissionReviewVersions: []string{"v1"},
	}}
	o := readString(t, strings.ReplaceAll(text, "KIND", inventory.KindValidating))
	expect.Equal(t, want, o.Validating[0].Webhooks)
	expect.Equal(t, []admissionv1.ValidatingWebhook{{Name: "defaulted.example.com"}}, o.Validating[1].Webhooks)
	o = readString(t, strings.ReplaceAll(text, "KIND", inventory.KindMutating))
	for i, w := range o.Mutating[0].Webhooks {
		got := admissionv1.ValidatingWebhook{
			Name: w.Name, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions,
		}
		expect.Equal(t, want[i], got)
	}
}

func TestV1beta1CRD(t *testing.T) {
	o := readString(t, `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec:
  group: example.com
  version: v1
  names: {plural: as, kind: A}
  subresources: {status: {}}
  validation: {openAPIV3Schema: {type: object}}
---
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: bs.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: bs, kind: B}
  versions:
  - {name: v1, served: true, storage: true}
  - {name: v2, served: true, subresources: {scale: {specReplicasPath: .a, statusReplicasPath: .b}}}
  conversion:
    strategy: Webhook
    webhookClientConfig: {service: {namespace: ns, name: s}}
`)
	want := []apiextensionsv1.CustomResourceDefinitionSpec{{
		Group: "example.com",
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "as", Singular: "a", Kind: "A"},
		Scope: apiextensionsv1.NamespaceScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}},
	}, {
		Group: "example.com",
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "bs", Singular: "b", Kind: "B"},
		Scope: apiextensionsv1.ClusterScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1", Served: true, Storage: true},
			{Name: "v2", Served: true, Subresources: &apiextensionsv1.CustomResourceSubresources{
				Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".a", StatusReplicasPath: ".b"},
			}},
		},
		Conversion: &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "ns", Name: "s"}},
				ConversionReviewVersions: []string{"v1beta1"},
			},
		},
	}}
	expect.Equal(t, want, []apiextensionsv1.CustomResourceDefinitionSpec{o.CRDs[0].Spec, o.CRDs[1].Spec})
}

func TestV1beta1Slice(t *testing.T) {
	o := readString(t, `
apiVersion: discovery.k8s.io/v1beta1
kind: EndpointSlice
metadata: {name: s-1, namespace: ns}
addressType: IPv4
ports: [{name: "", port: 443}]
endpoints:
- addresses: [10.0.0.1]
  conditions: {ready: false}
  topology: {kubernetes.io/hostname: node, topology.kubernetes.io/zone: zone}
`)
	want := []*discoveryv1.EndpointSlice{{
		ObjectMeta:  metav1.ObjectMeta{Name: "s-1", Namespace: "ns"},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(443))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{"10.0.0.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
			NodeName:   new("node"),
			Zone:       new("zone"),
		}},
	}}
	expect.Equal(t, want, o.EndpointSlices, cmpopts.IgnoreTypes(metav1.TypeMeta{}))
}

func TestServerVersion(t *testing.T) {
	const operator = "---\napiVersion: config.openshift.io/v1\nkind: ClusterOperator\nmetadata: {name: kube-apiserver}\nstatus: {versions: [{name: operator, version: 4.20.1}, {name: kube-apiserver, version: 1.33.5}]}\n"
	clusterVersion := func(status string) string {
		return "---\napiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\nstatus: " + status + "\n"
	}
	node := func(name, version string) string {
		return "---\napiVersion: v1\nkind: Node\nmetadata: {name: " + name + "}\nstatus: {nodeInfo: {kubeletVersion: " + version + "}}\n"
	}
	for name, test := range map[string]struct{ text, want string }{
		"nothing":                        {namespace("a"), "unknown"},
		"what the API server answers":    {`{"major": "1", "minor": "36", "gitVersion": "v1.36.2+k3s1"}`, "v1.36.2+k3s1"},
		"what kubectl version prints":    {"clientVersion: {gitVersion: v1.30.0}\nserverVersion: {major: \"1\", minor: \"35\", gitVersion: v1.35.1}\n", "v1.35.1"},
		"the server before all else":     {operator + "---\nserverVersion: {gitVersion: v1.35.1}\n" + node("a", "v1.34.0"), "v1.35.1"},
		"the operator of kube-apiserver": {clusterVersion("{desired: {version: 4.20.1}}") + operator, "v1.33.5"},
		"OpenShift's last update":        {clusterVersion("{desired: {version: 4.21.0}, history: [{state: Partial, version: 4.21.0}, {state: Completed, version: 4.20.9}]}"), "v1.33"},
		"OpenShift's first update":       {clusterVersion("{desired: {version: 4.21.0}, history: [{state: Partial, version: 4.21.0}]}"), "v1.34"},
		"OpenShift's wish":               {clusterVersion("{desired: {version: 4.3.1}}"), "v1.16"},
		"OpenShift before it kept step":  {clusterVersion("{desired: {version: 4.2.0}}"), "unknown"},
		"an OpenShift to come":           {clusterVersion("{desired: {version: 5.0.0}}"), "unknown"},
		"the newest kubelet":             {node("a", "v1.33.1") + node("b", "v1.34.1") + node("c", "v1.32.9"), "v1.34.1"},
		"no version":                     {node("a", "latest"), "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			o := readString(t, test.text)
			if got := o.Server.String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestOpenShift: OpenShift is recognized by any group that only OpenShift serves.
func TestOpenShift(t *testing.T) {
	for text, want := range map[string]bool{
		namespace("openshift-a"): false,
		"apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: a}\n":                                                                               true,
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: config.openshift.io/v1\n  kind: Proxy\n- apiVersion: v1\n  kind: Secret\n":                         true,
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.config.openshift.io}\nspec: {group: config.openshift.io}\n": true,
		"apiVersion: example.com/v1\nkind: A\nmetadata: {name: route.openshift.io}\n":                                                                         false,
		`{"kind": "ProxyList", "apiVersion": "config.openshift.io/v1", "items": [{}, {}]}`:                                                                    true,
	} {
		if o := readString(t, text); o.OpenShift != want {
			t.Errorf("%q: %t", text, o.OpenShift)
		}
	}
}

// TestDump reads what kubectl cluster-info dump prints: objects and logs in
// turn.
func TestDump(t *testing.T) {
	o, summary := Read([]string{"-"}, Options{Stdin: strings.NewReader(`{
    "kind": "ServiceList",
    "apiVersion": "v1",
    "items": [
        {
            "metadata": {"name": "a", "namespace": "ns"}
        }
    ]
}
{
    "kind": "EventList",
    "apiVersion": "v1",
    "items": [{}, {}]
}
==== START logs for container c of pod n/a-1 ====
{"level": "info"
---
apiVersion: v1
==== END logs for container c of pod n/a-1 ====
{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "b", "namespace": "ns"}}
`)})
	want := []string{"<stdin>:5 Service ns/a", "<stdin>:20 Service ns/b"}
	if diff := cmp.Diff(want, describe(o)); diff != "" || summary.Skipped != 2 {
		t.Error(diff, summary)
	}
}

// TestAliases reads what is fine and refuses what would never end.
func TestAliases(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: bomb\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c <= 'k'; c++ {
		one := "*" + string(c-1)
		bomb.WriteString("  " + string(c) + ": &" + string(c) + " [" + one + strings.Repeat(", "+one, 9) + "]\n")
	}
	loop := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: loop\n  labels: &l\n    a: *l\n"
	fine := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: fine\n  labels: &l {a: &a b}\n  annotations: {<<: [*l, {c: *a}], a: d}\n"
	o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(bomb.String() + "---\n" + loop + "---\n" + fine)})
	want := []string{
		"<stdin>:24 Namespace /fine",
		"! <stdin>:1: Namespace/bomb: aliases for more than 1048576 values",
		"! <stdin>:17: Namespace/loop: not YAML: anchor 'l' value contains itself",
	}
	expect.Equal(t, want, describe(o))
	expect.Equal(t, map[string]string{"a": "d", "c": "b"}, o.Namespaces[0].Annotations)
}

// TestAliasesOfLargeValues refuses what would take gigabytes once it is written
// out, though it is few values, and merge keys that double with each line.
func TestAliasesOfLargeValues(t *testing.T) {
	large := namespace("large") + "  labels:\n    a: &a " + strings.Repeat("x", 1<<20) + "\n" + strings.Repeat("    b: *a\n", 10_000)
	var merges strings.Builder
	merges.WriteString(namespace("merges") + "  a: &a {x: y}\n")
	for c := 'b'; c <= 'z'; c++ {
		fmt.Fprintf(&merges, "  %c: &%c {<<: [*%c, *%c]}\n", c, c, c-1, c-1)
	}
	o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(large + "---\n" + merges.String() + "---\n" + namespace("fine"))})
	if len(o.Errors) != 2 || len(o.Namespaces) != 1 {
		t.Errorf("%d namespaces, errors %v", len(o.Namespaces), o.Errors)
	}
	for _, e := range o.Errors {
		if !strings.Contains(e.Message, "aliases for more than") {
			t.Error(e)
		}
	}
}

// TestBlankedBundles says that nothing is known of what an insights archive
// blanks, not that it is broken.
func TestBlankedBundles(t *testing.T) {
	o := readString(t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "a"}, "webhooks": [{"name": "a", "clientConfig": {"url": "https://a", "caBundle": "eHh4eHh4eHh4"}}]}`)
	s := o.Snapshot(metav1.Now().Time)
	if a := s.Webhooks[0].Backend.Authority; a == nil || !a.Blanked {
		t.Errorf("%+v", a)
	}
}

// TestV1beta1Budget: in v1beta1 an empty selector selects nothing.
func TestV1beta1Budget(t *testing.T) {
	for version, selects := range map[string]bool{"v1": true, "v1beta1": false} {
		t.Chdir(t.TempDir())
		must.Write(t, "budget.yaml", "apiVersion: policy/"+version+"\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {minAvailable: 1, selector: {}}\n")
		o, _ := Read([]string{"budget.yaml"}, Options{})
		if len(o.Errors) > 0 || len(o.DisruptionBudgets) != 1 || (o.DisruptionBudgets[0].Spec.Selector != nil) != selects {
			t.Errorf("%s: %v, errors %v", version, o.DisruptionBudgets, o.Errors)
		}
	}
}
