package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func namespace(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + name + "\n"
}

// TestHostileArchives reads what can be read of archives that mean harm or
// came to harm.
func TestHostileArchives(t *testing.T) {
	few := defaultLimits
	few.entries = 2
	brief := defaultLimits
	brief.objects = 2
	small := defaultLimits
	small.member = 60
	little := defaultLimits
	little.members = 2 * int64(len(namespace("a")))

	whole := tree{"a.yaml": namespace("a"), "b.yaml": namespace("b"), "c.yaml": namespace("c")}.tar(t)
	for name, test := range map[string]struct {
		limits  limits
		archive []byte
		want    []string
	}{
		"names that lead out": {defaultLimits, tree{"../a.yaml": namespace("a"), "/b.yaml": namespace("b"), "c/../../d.yaml": namespace("d"), "./e.yaml": namespace("e")}.tar(t), []string{
			"archive!e.yaml:1 Namespace /e",
			"! archive!../a.yaml: its name leads out of the archive: not read",
			"! archive!/b.yaml: its name leads out of the archive: not read",
			"! archive!../d.yaml: its name leads out of the archive: not read",
		}},
		"links": {defaultLimits, links(t), []string{
			"archive!last.yaml:1 Namespace /last",
			"! archive!hard.yaml: a link to /etc/passwd: links in archives are not followed",
			"! archive!pipe.yaml: not a regular file",
			"! archive!soft.yaml: a link to ../../etc/passwd: links in archives are not followed",
		}},
		"truncated in a member": {defaultLimits, whole[:1024+512+20], []string{
			"archive!a.yaml:1 Namespace /a",
			"! archive!b.yaml:2: the archive is truncated",
			"! archive: reading the archive after b.yaml: the archive is truncated: what follows is not read",
		}},
		"truncated in a header": {defaultLimits, whole[:1024+100], []string{
			"archive!a.yaml:1 Namespace /a",
			"! archive: reading the archive after a.yaml: the archive is truncated: what follows is not read",
		}},
		"truncated and compressed": {defaultLimits, unfinished(t, whole[:1024]), []string{
			"archive!a.yaml:1 Namespace /a",
			"! archive: reading the archive after a.yaml: the archive is truncated: what follows is not read",
		}},
		"not compressed after all": {defaultLimits, []byte("\x1f\x8bxxxxxxxxxxxxxxxxxxx"), []string{
			"! archive: gzip: invalid header",
		}},
		"too many entries": {few, whole, []string{
			"archive!a.yaml:1 Namespace /a",
			"archive!b.yaml:1 Namespace /b",
			"! archive: more than 2 entries: what follows b.yaml is not read",
		}},
		"too many objects": {brief, tree{"a.yaml": namespace("a"), "b.yaml": namespace("b") + "---\n" + namespace("c"), "d.yaml": namespace("a")}.tar(t), []string{
			"archive!d.yaml:1 Namespace /a",
			"archive!b.yaml:1 Namespace /b",
			"! archive!b.yaml:6: more than 2 objects: this and what follows is not read",
		}},
		"too large a member": {small, tree{"a.yaml": namespace("a"), "b.yaml": namespace("b") + "---\n" + namespace("b2"), "c.yaml": namespace("c")}.tar(t), []string{
			"archive!a.yaml:1 Namespace /a",
			"archive!b.yaml:1 Namespace /b",
			"archive!c.yaml:1 Namespace /c",
			"! archive!b.yaml:6: too large for an archive of objects: the rest of the file is not read",
		}},
		"too large together": {little, whole, []string{
			"archive!a.yaml:1 Namespace /a",
			"archive!b.yaml:1 Namespace /b",
			"! archive!c.yaml:1: the manifests of the archive are too large together: the rest is not read",
		}},
		"another format": {defaultLimits, []byte("PK\x03\x04 and more"), []string{
			"! archive: a zip archive: unpack it first",
		}},
		"packed twice": {defaultLimits, must.Gzip(t, must.Gzip(t, []byte(namespace("a")))), []string{
			"! archive: a gzip archive in another one: unpack it first",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			must.Write(t, "archive", string(test.archive))
			o, _ := Read([]string{"archive"}, Options{limits: test.limits})
			expect.Equal(t, test.want, describe(o))
		})
	}
}

// unfinished is a compressed stream of which the end is missing.
func unfinished(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(w.Write(data))(t)
	must.Succeed(t, w.Flush())
	return b.Bytes()
}

func links(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must.Add(t, w, &tar.Header{Name: "hard.yaml", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, "")
	must.Add(t, w, &tar.Header{Name: "pipe.yaml", Typeflag: tar.TypeFifo}, "")
	must.Add(t, w, &tar.Header{Name: "soft.yaml", Typeflag: tar.TypeSymlink, Linkname: "../../etc/passwd"}, "")
	must.Add(t, w, &tar.Header{Name: "soft.log", Typeflag: tar.TypeSymlink, Linkname: "other.log"}, "")
	must.Add(t, w, &tar.Header{Name: "dir.yaml/", Typeflag: tar.TypeDir}, "")
	must.Add(t, w, &tar.Header{Name: "last.yaml", Typeflag: tar.TypeReg}, namespace("last"))
	must.Succeed(t, w.Close())
	return b.Bytes()
}

// TestErrorsAreBounded reads an archive in which everything is wrong.
func TestErrorsAreBounded(t *testing.T) {
	t.Chdir(t.TempDir())
	bad := tree{}
	for i := range maxErrors + 5 {
		bad[fmt.Sprintf("../%d.yaml", i)] = ""
	}
	must.Write(t, "archive", string(bad.tar(t)))
	o, _ := Read([]string{"archive"}, Options{})
	if len(o.Errors) != maxErrors+1 || o.Errors[maxErrors].Message != "and 5 more errors" {
		t.Errorf("%d errors, the last: %v", len(o.Errors), o.Errors[len(o.Errors)-1])
	}
}

// TestDirectory follows links inside of a directory only, and opens nothing
// that could block.
func TestDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	tree{
		"outside.yaml":         namespace("outside"),
		"dir/b/real.yaml":      namespace("real"),
		"dir/a.yml":            namespace("a"),
		"dir/c.JSON":           `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}}`,
		"dir/readme.md":        namespace("unread"),
		"dir/values.yaml":      "replicas: 1\n",
		"dir/tsconfig.json":    "{ // a comment\n}",
		"dir/zz/unread.tar":    "not an archive",
		"dir/zz/template.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ include \"x\" . }}\n",
	}.write(t, ".")
	for link, to := range map[string]string{
		"dir/in.yaml":   "b/real.yaml",
		"dir/out.yaml":  "../outside.yaml",
		"dir/gone.yaml": "nowhere.yaml",
		"dir/loop":      ".",
	} {
		must.Succeed(t, os.Symlink(to, link))
	}
	o, summary := Read([]string{"dir"}, Options{})
	want := []string{
		"a.yml:1 Namespace /a",
		"in.yaml:1 Namespace /real",
		"c.JSON:1 Namespace /c",
		"! dir/gone.yaml: no such file or directory",
		"! dir/out.yaml: a link out of the folder: name what it leads to as a path of its own",
		"! dir/zz/template.yaml: 1 template to render first: no chart shows how",
	}
	expect.Equal(t, want, describe(o))
	const packed = "1 packed file, as dir/zz/unread.tar: not read; unpack first what holds manifests"
	if in := summary.Inputs[0]; !slices.Contains(in.Lacks, packed) || in.Kind != "manifests" || in.Objects != 3 || in.Skipped != 2 {
		t.Errorf("%+v", summary)
	}
}

// TestTwoClusters: of objects that share a name and are two, each named once, the latter count. What
// a must-gather has in a version that is gone is not reported as missing.
func TestTwoClusters(t *testing.T) {
	of := func(uid, rest string) string {
		return must.File(t, "archive.tar", string(tree{"cluster-scoped-resources/core/namespaces/a.yaml": strings.Replace(namespace("a"), "name:", "uid: "+uid+"\n  name:", 1) + rest}.tar(t)))
	}
	same, other := of("one", ""), of("two", "---\n"+strings.Replace(hookYAML, "/v1\n", "/v1beta1\n", 1))
	for reported, paths := range map[string][]string{"": {same, same}, "Namespace/a is another one in ": {same, other}} {
		o, summary := Read(paths, Options{})
		lacks := slices.DeleteFunc(summary.Inputs[1].Lacks, func(s string) bool { return !strings.HasPrefix(s, "Namespace/") })
		if (reported != "") != (len(lacks) == 1) || !strings.HasPrefix(strings.Join(lacks, ""), reported) || len(o.Namespaces) != 1 {
			t.Errorf("%q, want %q", lacks, reported)
		}
		for _, e := range summary.Empty {
			if isOld := e.Source.File == other; isOld != strings.Contains(e.Message, "which no API server since v1.25 takes") {
				t.Error(e)
			}
		}
	}
}

func TestSeveralPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Write(t, "a.yaml", namespace("a")+"  labels: {from: file}\n---\n"+namespace("b"))
	must.Write(t, "b.yaml.gz", string(must.Gzip(t, []byte(namespace("c")))))
	var progress []string
	o, summary := Read([]string{"a.yaml", "missing.yaml", "-", "b.yaml.gz"}, Options{
		Stdin:    strings.NewReader("# a comment\n" + namespace("a") + "  labels: {from: stdin}\n"),
		Progress: func(files, objects int) { progress = append(progress, fmt.Sprint(files, " ", objects)) },
	})
	want := []string{
		"<stdin>:2 Namespace /a",
		"a.yaml:7 Namespace /b",
		"b.yaml.gz:1 Namespace /c",
		"! missing.yaml: no such file or directory",
	}
	expect.Equal(t, want, describe(o))
	if got := o.Namespaces[0].Labels["from"]; got != "stdin" {
		t.Errorf("label %q: the last one counts", got)
	}
	expect.Equal(t, []string{"1 2", "2 2", "3 3"}, progress)
	wantInputs := []Input{
		{Path: "a.yaml", Kind: "manifests", Objects: 1},
		{Path: "missing.yaml"},
		{Path: "-", Kind: "manifests", Objects: 1},
		{Path: "b.yaml.gz", Kind: "manifests", Objects: 1},
	}
	if diff := cmp.Diff(wantInputs, summary.Inputs, cmpopts.IgnoreFields(Input{}, "Lacks")); diff != "" {
		t.Error(diff)
	}
}

// TestGoroutines reads an error-laden tree and looks for what it left running.
func TestGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	Read([]string{"testdata/read", "missing"}, Options{})
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}

func TestLargeDocuments(t *testing.T) {
	t.Chdir(t.TempDir())
	large := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: large\n  annotations:\n    a: " + strings.Repeat("x", maxObject) + "\n"
	larger := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: larger\n" + strings.Repeat("# "+strings.Repeat("x", 1<<20)+"\n", maxDocument>>20)
	must.Write(t, "a.yaml", namespace("a")+"---\n"+large+"---\n"+larger+"---\n"+namespace("b"))
	o, _ := Read([]string{"a.yaml"}, Options{})
	want := []string{
		"a.yaml:1 Namespace /a",
		"a.yaml:82 Namespace /b",
		"! a.yaml:6: Namespace: an object of 16 MiB: more than 16 are not read in one piece",
		"! a.yaml:13: a document of more than 64 MiB: split the file",
	}
	expect.Equal(t, want, describe(o))
}

// TestEndlessLine reads a line that is longer than memory should be, and what
// follows it.
func TestEndlessLine(t *testing.T) {
	const length = 512 << 20
	in := io.MultiReader(
		strings.NewReader(namespace("a")+"---\n"),
		io.LimitReader(letters{}, length),
		strings.NewReader("\n---\n"+namespace("b")),
	)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o, _ := Read([]string{"-"}, Options{Stdin: in})
	runtime.ReadMemStats(&after)
	want := []string{
		"<stdin>:1 Namespace /a",
		"<stdin>:8 Namespace /b",
		"! <stdin>:6: a document of more than 64 MiB: split the file",
	}
	expect.Equal(t, want, describe(o))
	// A slice that grows to 64 MiB has allocated several times that.
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > length {
		t.Errorf("allocated %d MiB for a line of %d", allocated>>20, length>>20)
	}
}

// letters never end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestDeepNesting reads what is nested deeper than a stack should be.
func TestDeepNesting(t *testing.T) {
	const depth = 20_000
	var blocks strings.Builder
	for i := range 2000 {
		blocks.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, text := range map[string]string{
		"truncated JSON": `{"apiVersion": "v1", "kind": "Namespace", "metadata": ` + strings.Repeat(`{"a": `, depth) + "\n",
		"JSON":           `{"apiVersion": "v1", "kind": "Namespace", "metadata": ` + strings.Repeat(`{"a": `, depth) + strings.Repeat("}", depth) + "}\n",
		"brackets":       "apiVersion: v1\nkind: Namespace\nmetadata: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "\n",
		"braces":         "apiVersion: v1\nkind: Namespace\nmetadata: " + strings.Repeat("{a: ", depth) + strings.Repeat("}", depth) + "\n",
		"an open list":   "apiVersion: v1\nkind: Namespace\nmetadata: " + strings.Repeat("[", depth) + "\n",
		"dashes":         "apiVersion: v1\nkind: Namespace\nmetadata:\n" + strings.Repeat("- ", depth) + "a\n",
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(text + "---\n" + namespace("b"))})
			if len(o.Errors) != 1 || len(o.Namespaces) != 1 || o.Namespaces[0].Name != "b" {
				t.Errorf("%d namespaces, errors %v", len(o.Namespaces), o.Errors)
			}
		})
	}
	if o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(blocks.String() + "---\n" + namespace("b"))}); len(o.Namespaces) != 1 {
		t.Errorf("errors %v", o.Errors)
	}
}

// TestManyFaults reads what would take minutes if each fault were looked into.
func TestManyFaults(t *testing.T) {
	const nested, webhooks = 2000, 200
	lists := strings.Repeat(`{"apiVersion": "v1", "kind": "List", "items": [`, nested) + strings.Repeat("]}", nested)
	bundles := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata:\n  name: a\nwebhooks:\n" +
		strings.Repeat("- name: a\n  clientConfig:\n    caBundle: '?'\n", webhooks)
	o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(lists + "\n---\n" + bundles + "---\n" + namespace("fine"))})
	want := []string{"! <stdin>:1: List: more than 8 lists in one another: write the items into one"}
	for i := range webhooks {
		want = append(want, fmt.Sprintf("! <stdin>:%d: ValidatingWebhookConfiguration/a: webhooks[%d].clientConfig.caBundle: must be base64", 2+5+3*(i+1), i))
	}
	expect.Equal(t, want, describe(inventory.Objects{Errors: o.Errors}))
	if len(o.Namespaces) != 1 || len(o.Validating) != 1 || len(o.Validating[0].Webhooks) != webhooks {
		t.Errorf("%d Namespaces, %d configurations", len(o.Namespaces), len(o.Validating))
	}
}

// TestBadBundles: the error names the object and the field, however the object is
// written, and the rest of it is read.
func TestBadBundles(t *testing.T) {
	const start = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n"
	for name, tc := range map[string]struct {
		text, want string
	}{
		"YAML":          {start + "metadata:\n  name: a\nwebhooks:\n- name: b\n  clientConfig:\n    url: https://b\n    caBundle: '?'\n", "9: ValidatingWebhookConfiguration/a: webhooks[0]"},
		"a name in {}":  {start + "metadata: {name: a}\nwebhooks: [{name: b, clientConfig: {url: https://b, caBundle: '?'}}]\n", "4: ValidatingWebhookConfiguration/a: webhooks[0]"},
		"several lines": {start + "metadata: {name: a}\nwebhooks:\n- name: b\n  clientConfig:\n    caBundle: |\n      ?\n      ?\n", "7: ValidatingWebhookConfiguration/a: webhooks[0]"},
		"JSON":          {`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",` + "\n" + `"metadata": {"name": "a"}, "webhooks": [{}, {"name": "b",` + "\n" + `"clientConfig": {"caBundle": "?"}}]}`, "3: ValidatingWebhookConfiguration/a: webhooks[1]"},
		"shared by an alias": {
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: &n a}\n- apiVersion: admissionregistration.k8s.io/v1\n  kind: ValidatingWebhookConfiguration\n  metadata: {name: *n}\n  webhooks:\n  - name: b\n    clientConfig: {caBundle: '?'}\n",
			"12: ValidatingWebhookConfiguration/a: webhooks[0]",
		},
		"a conversion": {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec:\n  group: example.com\n  conversion:\n    webhook:\n      clientConfig:\n        caBundle: '?'\n", "9: CustomResourceDefinition/as.example.com: spec.conversion.webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(tc.text)})
			want := []string{"! <stdin>:" + tc.want + ".clientConfig.caBundle: must be base64"}
			expect.Equal(t, want, describe(inventory.Objects{Errors: o.Errors}))
			if len(o.Validating)+len(o.CRDs) != 1 {
				t.Errorf("%d configurations, %d CRDs", len(o.Validating), len(o.CRDs))
			}
		})
	}
}

// TestListsAreReadInPlace: the items of a list are not copied, of which a dump of all Pods has 50,000.
func TestListsAreReadInPlace(t *testing.T) {
	item := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"` + strings.Repeat("a", 1<<20) + `"}}`
	text := `{"apiVersion":"v1","kind":"List","items":[` + strings.Repeat(item+",", 15) + item + `]}`
	file := must.File(t, "list.json", text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Read([]string{file}, Options{})
	runtime.ReadMemStats(&after)
	if times := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(text)); times > 7 {
		t.Errorf("reading allocates %.1f times the size of the list", times)
	}
}
