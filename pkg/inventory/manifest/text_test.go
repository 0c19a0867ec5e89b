package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
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
		"an OpenShift to come":           {clusterVersion("{desired: {version: 5.4.0}}"), "unknown"},
		"the newest kubelet":             {node("a", "v1.33.1") + node("b", "v1.34.1") + node("c", "v1.32.9"), "v1.34.1"},
		"no version":                     {node("a", "latest"), "unknown"},
		"an object with such a field":    {"apiVersion: example.com/v1\nkind: Build\ngitVersion: v1.30.0\n", "unknown"},
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
	if diff := cmp.Diff(want, describe(o)); diff != "" || summary.Inputs[0].Skipped != 2 {
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
	twice := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: twice\n  annotations: {<<: {a: b}, c: d,\n    c: e}\n"
	o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(bomb.String() + "---\n" + loop + "---\n" + fine + "---\n" + twice)})
	want := []string{
		"<stdin>:24 Namespace /fine",
		"! <stdin>:1: Namespace: aliases for more than 1048576 values",
		"! <stdin>:17: Namespace: not YAML: anchor 'l' value contains itself",
		`! <stdin>:36: Namespace: not YAML: mapping key "c" already defined`,
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

// TestLargeLists: a list of YAML that is read in pieces has the type that follows its
// items, and each item its line.
func TestLargeLists(t *testing.T) {
	for indent, start := range map[string]string{"": "apiVersion: v1\nitems:\n", "  ": "# all\napiVersion: v1\nitems:\n"} {
		var list strings.Builder
		list.WriteString(start)
		const count = 5
		for i := range count {
			fmt.Fprintf(&list, "%[1]s- metadata:\n%[1]s    name: n%[2]d\n\n# between\n%[1]s    annotations: {a: %[3]s}\n", indent, i, strings.Repeat("x", pieceSize/2))
		}
		list.WriteString("kind: NamespaceList\nmetadata:\n  lists:\n  - none")
		var want []string
		for i := range count {
			want = append(want, fmt.Sprintf("<stdin>:%d Namespace /n%d", strings.Count(start, "\n")+5*i+1, i))
		}
		expect.Equal(t, want, describe(readString(t, list.String())))
	}
}

// TestListsInParts: of a list that is larger than a part, as kubectl writes it, each item is read, with
// its line.
func TestListsInParts(t *testing.T) {
	const count, large = 12, listPart / 5
	for start, item := range map[string]string{
		"apiVersion: v1\nitems:\n": "- apiVersion: v1\n  kind: Namespace\n  metadata:\n    name: n%d\n    annotations:\n      a: %s\n",
		"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n": `        {
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": "n%d", "annotations": {"a": "%s"}
            }
        },
`,
	} {
		var list strings.Builder
		list.WriteString(start)
		for i := range count {
			fmt.Fprintf(&list, item, i, strings.Repeat("x", large))
		}
		text := list.String() + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
		if strings.HasPrefix(start, "{") {
			text = strings.TrimSuffix(list.String(), ",\n") + "\n    ],\n    \"kind\": \"List\"\n}\n"
		}
		var want []string
		for i := range count {
			want = append(want, fmt.Sprintf("<stdin>:%d Namespace /n%d", strings.Count(start, "\n")+6*i+1, i))
		}
		expect.Equal(t, want, describe(readString(t, text)))
	}
}
