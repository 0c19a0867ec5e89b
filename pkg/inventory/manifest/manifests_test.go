package manifest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestManifests: what is still to be applied, in its order, and what is a copy of a
// cluster.
func TestManifests(t *testing.T) {
	const gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: one, labels: {a: b}, annotations: {helm.sh/hook: post-install, other: x}}\n"
	for name, test := range map[string]struct{ text, want string }{
		"in the order of the file": {namespace("a") + "---\n" + gadget + "---\n" + namespace("b"), "Namespace a, Gadget one map[a:b] [helm.sh/hook], Namespace b"},
		"twice":                    {gadget + "---\n" + gadget, "Gadget one map[a:b] [helm.sh/hook], Gadget one map[a:b] [helm.sh/hook]"},
		"a List":                   {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: example.com/v1\n  kind: Gadget\n  metadata: {name: one, namespace: team}\n- apiVersion: v1\n  kind: Service\n  metadata: {name: two}\n  spec: {ports: [{port: 1}]}\n", "Gadget team/one, Service two"},
		"a List with anchors":      {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: &v example.com/v1\n  kind: Gadget\n  metadata: {name: one}\n- apiVersion: *v\n  kind: Gadget\n  metadata: {name: two}\n", "Gadget one, Gadget two"},
		"JSON":                     {`{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one"}}`, "Gadget one"},
		"empty documents":          {"---\n---\n# nothing\n---\n" + namespace("a") + "---\n---\n", "Namespace a"},
		"no name":                  {"apiVersion: example.com/v1\nkind: Gadget\nmetadata: {generateName: one-}\n", ""},
		"not valid":                {"apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: [1]}\n---\n" + namespace("a"), "Namespace a"},
		"the core group":           {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n", "ConfigMap one"},
		"of a cluster":             {gadget + "---\n" + strings.Replace(namespace("a"), "name: a", "name: a\n  uid: some-uid", 1), ""},
		"of a cluster, not read":   {gadget + "---\napiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: two, resourceVersion: \"7\"}\n", "Gadget one map[a:b] [helm.sh/hook]"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(test.text)})
			var got []string
			for i := range o.Manifests {
				m := &o.Manifests[i]
				one := m.String()
				if m.Labels != nil {
					one += fmt.Sprint(" ", m.Labels)
				}
				if m.Order != nil {
					one += fmt.Sprint(" ", m.Order)
				}
				got = append(got, one)
			}
			if strings.Join(got, ", ") != test.want || len(o.Errors) > 0 {
				t.Errorf("got %s, want %s; errors: %v", strings.Join(got, ", "), test.want, o.Errors)
			}
		})
	}
}

// TestManifestsByFolder: a folder is applied together, and an archive is not applied.
func TestManifestsByFolder(t *testing.T) {
	root := t.TempDir()
	for path, name := range map[string]string{"a.yaml": "a", "b/c.yaml": "c", "b/d.yaml": "d", "e.yaml": "e"} {
		path = filepath.Join(root, path)
		must.Write(t, path, namespace(name))
	}
	archive := must.File(t, "archive.tar", string(tree{"x.yaml": namespace("x")}.tar(t)))
	o, _ := Read([]string{root, filepath.Join(root, "a.yaml"), archive}, Options{})
	var got []string
	for _, m := range o.Manifests {
		got = append(got, m.Name+" of "+strings.TrimPrefix(m.Input, root))
	}
	const want = "a of , c of /b, d of /b, e of , a of /a.yaml"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}
