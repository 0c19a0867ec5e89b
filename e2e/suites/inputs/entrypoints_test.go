package inputs

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// compared is a control plane that the test fills and empties.
var compared = suite.Shared(cluster.Options{WithoutControllers: true})

// dumped is a resource of which a cluster is dumped.
type dumped struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// dumpedResources are all that the auditor reads, in the order in which they are made.
var dumpedResources = []dumped{
	{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "Namespace", false},
	{schema.GroupVersionResource{Version: "v1", Resource: "services"}, "Service", true},
	{schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}, "EndpointSlice", true},
	{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "Pod", true},
	{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "Node", false},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, "DaemonSet", true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, "StatefulSet", true},
	{schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, "PodDisruptionBudget", true},
	{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, "NetworkPolicy", true},
	{schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, "APIService", false},
	{schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "CustomResourceDefinition", false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}, "ValidatingAdmissionPolicy", false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}, "ValidatingAdmissionPolicyBinding", false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"}, "MutatingAdmissionPolicy", false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"}, "MutatingAdmissionPolicyBinding", false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}, "ValidatingWebhookConfiguration", false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}, "MutatingWebhookConfiguration", false},
}

// TestEntryPoints: of clusters that are made up, and of the fixtures of all checks together,
// each way to ask says the same, but for what it names as not checked. CLUSTERS=200 makes so
// many, from the seed CLUSTERS_SEED on.
func TestEntryPoints(t *testing.T) {
	w := environment{compared.UseAlone(t)}
	running := w.Run(t, routing)
	first, count := number("CLUSTERS_SEED", 1), number("CLUSTERS", 3)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := clusterMaker{rand.New(rand.NewPCG(uint64(seed), 0))}
			w.comparePoints(t, running, testenv.Get(apply.Objects([]byte(strings.Join(m.objects(), "\n---\n"))))(t), m)
		})
	}
}

// TestEntryPointsOfFixtures: the same of the fixtures of all checks together.
func TestEntryPointsOfFixtures(t *testing.T) {
	w := environment{compared.UseAlone(t)}
	var objects []*unstructured.Unstructured
	for _, file := range testenv.Get(filepath.Glob(root + "pkg/classify/testdata/*.yaml"))(t) {
		objects = append(objects, fixture(t, file)...)
	}
	w.comparePoints(t, w.Run(t, routing), objects, clusterMaker{rand.New(rand.NewPCG(0, 0))})
}

// TestEntryPointsOfCases: the same of the manifests of public reports and of outages; ENTRY_CASES=1 compares each.
func TestEntryPointsOfCases(t *testing.T) {
	w := environment{compared.UseAlone(t)}
	running, step, n := w.Run(t, routing), number("ENTRY_CASES", 40), 0
	for _, file := range slices.Concat(testenv.Get(filepath.Glob(root+"cmd/webhook-auditor/testdata/cases/*.txtar"))(t), testenv.Get(filepath.Glob(root+"pkg/classify/testdata/outages/*.yaml"))(t)) {
		var objects []*unstructured.Unstructured
		for _, part := range caseFile.Split(string(read(t, file)), -1) {
			some, err := objectsOf([]byte(part))
			for _, o := range some {
				kind := slices.IndexFunc(dumpedResources, func(r dumped) bool { return r.kind == o.GetKind() })
				if err != nil || kind < 0 {
					continue
				}
				if dumpedResources[kind].namespaced {
					o.SetNamespace(cmp.Or(o.GetNamespace(), "default"))
					namespace := &unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "Namespace"}}
					namespace.SetName(o.GetNamespace())
					objects = append(objects, namespace)
				}
				objects = append(objects, o)
			}
		}
		if len(objects) == 0 {
			continue
		}
		if n++; n%step != 0 {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) { w.comparePoints(t, running, objects, clusterMaker{rand.New(rand.NewPCG(0, 0))}) })
	}
}

// caseFile is the line before each file of a case.
var caseFile = regexp.MustCompile(`(?m)^-- \S+ --$`)

// routing says how the API server calls Services, which no object of a cluster shows.
const routing = "--aggregator-routing=true"

// fixture are the objects of a file, as an API server of a test takes them.
func fixture(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	return testenv.Get(objectsOf(read(t, file)))(t)
}

func objectsOf(text []byte) ([]*unstructured.Unstructured, error) {
	objects, err := apply.Objects(address.ReplaceAll(text, []byte("https://localhost:9")))
	for _, o := range objects {
		unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
		switch o.GetKind() {
		case "Service":
			if ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP"); ip != "None" {
				unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
			}
		case "EndpointSlice":
			o.Object["addressType"] = "FQDN"
			endpoints, _ := o.Object["endpoints"].([]any)
			for i := range endpoints {
				endpoints[i].(fields)["addresses"] = []any{fmt.Sprintf("127.0.0.%d", i+1)}
			}
		}
	}
	return objects, err
}

// address matches that of a webhook's URL, which API servers of a test are not to call.
var address = regexp.MustCompile(`https://[a-z0-9.:-]+`)

func number(variable string, preset int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return preset
}

func (w environment) fill(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, r := range dumpedResources {
		for _, o := range objects {
			if o.GroupVersionKind() != r.GroupVersion().WithKind(r.kind) {
				continue
			}
			client := w.client(r, o.GetNamespace())
			made, err := client.Create(t.Context(), o, metav1.CreateOptions{})
			if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				t.Log(o.GetKind(), o.GetName(), err)
			}
			if status, has := o.Object["status"]; has && err == nil && r.kind == "Pod" {
				made.Object["status"] = status
				testenv.Get(client.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}))(t)
			}
		}
		if r.kind == crds.kind {
			w.established(t)
		}
	}
}

// established waits for the CRDs, before anything intercepts what the API server writes of them;
// of two kinds of one name, and with a caBundle that is none, one never is.
func (w environment) established(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() error {
		for _, crd := range testenv.Get(w.CRDs.ApiextensionsV1().CustomResourceDefinitions().List(t.Context(), metav1.ListOptions{}))(t).Items {
			condition := apihelpers.FindCRDCondition(&crd, apiextensionsv1.Established)
			if condition == nil || condition.Reason == "Installing" {
				return fmt.Errorf("%s is not established yet", crd.Name)
			}
		}
		return nil
	})
}

func (w environment) client(r dumped, namespace string) dynamic.ResourceInterface {
	if r.namespaced {
		return w.Dynamic.Resource(r.GroupVersionResource).Namespace(namespace)
	}
	return w.Dynamic.Resource(r.GroupVersionResource)
}

// empty takes away all that was made: first what intercepts deletions, which the API server
// may ask a little longer.
func (w environment) empty(t *testing.T) {
	t.Helper()
	for _, r := range slices.Backward(dumpedResources) {
		for _, o := range w.list(t, r) {
			name := o.GetName()
			if strings.HasPrefix(name, "kube") || name == "default" || r.kind == "APIService" && o.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] != "" {
				continue
			}
			testenv.Eventually(t, func() error {
				err := w.client(r, o.GetNamespace()).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
				if r.kind == "Namespace" && err == nil {
					_, err = w.Kube.CoreV1().Namespaces().Finalize(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.UpdateOptions{})
				}
				if r.kind == crds.kind && err == nil { // which the API server takes away later
					return fmt.Errorf("%s is still there", name)
				}
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})
		}
	}
}

func (w environment) list(t *testing.T, r dumped) []unstructured.Unstructured {
	t.Helper()
	list := testenv.Get(w.Dynamic.Resource(r.GroupVersionResource).List(t.Context(), metav1.ListOptions{}))(t)
	return list.Items
}

// settled waits until the API server serves the custom resources that it has, and no others.
func (w environment) settled(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() error {
		want, groups := map[string]bool{}, map[string]bool{}
		for _, crd := range testenv.Get(w.CRDs.ApiextensionsV1().CustomResourceDefinitions().List(t.Context(), metav1.ListOptions{}))(t).Items {
			groups[crd.Spec.Group] = true
			for _, v := range crd.Spec.Versions {
				if v.Served && apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.Established) {
					want[crd.Spec.Group+"/"+v.Name+" "+crd.Spec.Names.Plural] = true
				}
			}
		}
		_, lists, _ := w.Kube.Discovery().ServerGroupsAndResources() // an aggregated API server need not answer
		served := map[string]bool{}
		for _, list := range lists {
			for _, r := range list.APIResources {
				group, _, _ := strings.Cut(list.GroupVersion, "/")
				if (groups[group] || strings.Contains(group, "example.com")) && !strings.Contains(r.Name, "/") {
					served[list.GroupVersion+" "+r.Name] = true
				}
			}
		}
		if !maps.Equal(want, served) {
			return fmt.Errorf("it serves %v, not %v", served, want)
		}
		return nil
	})
}

// dump writes the cluster as one file, as a folder and as a must-gather, by their names.
func (w environment) dump(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	folder, archive := filepath.Join(dir, "folder"), filepath.Join(dir, "must-gather.tar")
	testenv.Must(t, os.Mkdir(folder, 0o700))
	whole := &unstructured.UnstructuredList{Object: fields{"apiVersion": "v1", "kind": "List"}}
	gathered := map[string]*unstructured.UnstructuredList{}
	namespaces := w.list(t, dumpedResources[0])
	for _, r := range dumpedResources {
		list := func(path string) *unstructured.UnstructuredList {
			out := gathered[path]
			if out == nil {
				out = &unstructured.UnstructuredList{Object: fields{"apiVersion": r.GroupVersion().String(), "kind": r.kind + "List"}}
				gathered[path] = out
			}
			return out
		}
		path := cmp.Or(r.Group, "core") + "/" + r.Resource + ".yaml"
		if r.namespaced { // the tool writes empty lists as well
			for _, n := range namespaces {
				list("namespaces/" + n.GetName() + "/" + path)
			}
		} else {
			list("cluster-scoped-resources/" + path)
		}
		for i, o := range w.list(t, r) {
			o.SetAPIVersion(r.GroupVersion().String())
			o.SetKind(r.kind)
			whole.Items = append(whole.Items, o)
			testenv.Must(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%d.json", r.Resource, i)), encoded(t, &o), 0o600))
			switch {
			case r.namespaced:
				l := list("namespaces/" + o.GetNamespace() + "/" + path)
				l.Items = append(l.Items, o)
			default:
				l := list("cluster-scoped-resources/" + path)
				l.Items = append(l.Items, o)
			}
		}
	}
	file := filepath.Join(dir, "file.json")
	testenv.Must(t, os.WriteFile(file, encoded(t, whole), 0o600))
	out := testenv.Get(os.Create(archive))(t)
	writer := tar.NewWriter(out)
	for path, list := range gathered {
		text := encoded(t, list)
		testenv.Must(t, writer.WriteHeader(&tar.Header{Name: "must-gather.local.1/image/" + path, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))}))
		testenv.Get(writer.Write(text))(t)
	}
	testenv.Must(t, writer.Close())
	testenv.Must(t, out.Close())
	return map[string]string{"file": file, "folder": folder, "must-gather": archive}
}

func encoded(t *testing.T, o json.Marshaler) []byte {
	t.Helper()
	return testenv.Get(o.MarshalJSON())(t)
}

// question is one that a user asks, in the words of the command line after the program.
type question string

type point struct {
	name string
	ask  func(question) string
}

// commands asks the program, once for each question, of the source that the flags name.
func commands(t *testing.T, name string, source ...string) point {
	return point{name, func(q question) string {
		words := strings.Fields(string(q))
		args := append(words, source...)
		switch {
		case words[0] == "audit":
			args[len(words)] = strings.TrimPrefix(source[0], "--from=")
		case words[0] == "explain" && strings.HasPrefix(source[0], "--kubeconfig="):
			args = append(args, "--offline") // what no file has
		}
		result := testenv.Command(t, append(args, "-o=json")...)
		if strings.Contains(result.Stderr, "ERROR") && !strings.Contains(result.Stderr, "metrics.example.com") { // a difference may be of that
			t.Log(name, q, result.Stderr)
		}
		return plain(result.Stdout)
	}}
}

// agent asks the tools of mcp.
func agent(t *testing.T, name string, source ...string) point {
	command := exec.Command(testenv.Binary(t), append([]string{"mcp"}, source...)...)
	session := testenv.Get(mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil))(t)
	t.Cleanup(func() { _ = session.Close() })
	return point{name, func(q question) string {
		words := slices.DeleteFunc(strings.Fields(string(q)), func(word string) bool { return strings.HasPrefix(word, "--fail-on") })
		arguments := map[string]any{"format": "json"}
		switch {
		case words[0] == "audit":
		case words[0] == "diff":
			arguments["manifests"] = string(testenv.Get(os.ReadFile(words[1]))(t))
		case strings.HasPrefix(words[1], "--down="):
			arguments["down"] = []string{strings.TrimPrefix(words[1], "--down=")}
		case words[0] == "impact":
			arguments["configuration"] = words[1]
		case words[0] == "explain":
			arguments["operation"], arguments["resource"] = words[1], words[2]
			for i, word := range words[3:] {
				switch last := words[i+2]; {
				case last == "-n":
					arguments["namespace"] = word
				case strings.HasPrefix(word, "--labels="):
					arguments["labels"] = strings.TrimPrefix(word, "--labels=")
				case !strings.HasPrefix(word, "-"):
					arguments["name"] = word
				}
			}
		}
		r := testenv.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: words[0], Arguments: arguments}))(t)
		return plain(r.Content[0].(*mcp.TextContent).Text)
	}}
}

// plain is an answer without what says where and when it was read; "" is for what is no answer.
func plain(answer string) string {
	var document map[string]any
	if json.NewDecoder(strings.NewReader(answer)).Decode(&document) != nil {
		return ""
	}
	text, _ := json.MarshalIndent(dropSources(document), "", " ") // it was read from JSON
	return string(text)
}

// dropSources leaves fields out that name a source or a time.
func dropSources(v any) any {
	switch v := v.(type) {
	case fields:
		for _, field := range []string{"inputs", "taken", "baseline", "source", "look", "errors", "server"} {
			delete(v, field)
		}
		for key := range v {
			v[key] = dropSources(v[key])
		}
	case []any:
		for i := range v {
			v[i] = dropSources(v[i])
		}
	}
	return v
}

// difference are the first lines in which two answers differ.
func difference(a, b string) string {
	was, now := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out []string
	for i := 0; i < max(len(was), len(now)) && len(out) < 12; i++ {
		if i < len(was) && !slices.Contains(now, was[i]) {
			out = append(out, "-"+was[i])
		}
		if i < len(now) && !slices.Contains(was, now[i]) {
			out = append(out, "+"+now[i])
		}
	}
	return strings.Join(out, "\n")
}

// comparePoints wants one answer of all that knows as much, and of files none that the cluster
// contradicts.
func (w environment) comparePoints(t *testing.T, running *auditor.Auditor, objects []*unstructured.Unstructured, m clusterMaker) {
	t.Helper()
	w.fill(t, objects)
	defer w.empty(t)
	w.settled(t)
	registers := func(r dumped) bool {
		return (r.Group == "admissionregistration.k8s.io" || r.kind == crds.kind) && len(w.list(t, r)) > 0
	}
	if !slices.ContainsFunc(dumpedResources, registers) {
		return // the API server took none: files without any are no input
	}
	changed := filepath.Join(t.TempDir(), "new.json")
	testenv.Must(t, os.WriteFile(changed, []byte(m.registration("ValidatingWebhookConfiguration", "a")), 0o600))
	questions := []question{"audit --fail-on=never", "impact --down=shop/web --fail-on=never", "impact --down=infra/api --fail-on=never", question("diff --fail-on=never " + changed)}
	requests := m.requests()
	var cards []question
	for _, o := range objects {
		if o.GroupVersionKind().Group == "admissionregistration.k8s.io" && !strings.HasSuffix(o.GetKind(), "Binding") || o.GetKind() == "CustomResourceDefinition" {
			cards = append(cards, question("impact "+strings.ToLower(o.GetKind())+"/"+o.GetName()))
		}
	}
	m.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
	questions = append(questions, cards[:min(len(cards), 8)]...)
	for _, request := range requests {
		questions = append(questions, question("explain "+request))
	}
	kubeconfig := "--kubeconfig=" + w.Plane.Kubeconfig()
	live := commands(t, "cluster", kubeconfig, routing)
	paths, flags := w.dump(t), []string{"--server-version=v" + programs.Release(), routing}
	of := func(name string) []string { return append([]string{"--from=" + paths[name]}, flags...) }
	gathered, file := commands(t, "must-gather", of("must-gather")...), agent(t, "mcp of a file", of("file")...)
	same := [][2]point{{live, gathered}, {gathered, agent(t, "mcp of must-gather", of("must-gather")...)}, {file, agent(t, "mcp of a folder", of("folder")...)}}
	online := agent(t, "mcp of the cluster", kubeconfig, routing)
	for _, q := range questions {
		texts := map[string]string{}
		ask := func(p point) string {
			if _, asked := texts[p.name]; !asked {
				texts[p.name] = p.ask(q)
			}
			return texts[p.name]
		}
		for _, pair := range same {
			if a, b := ask(pair[0]), ask(pair[1]); a != b {
				t.Errorf("%s: %s and %s differ:\n%s", q, pair[0].name, pair[1].name, difference(a, b))
			}
		}
		switch words := strings.Fields(string(q)); {
		case words[0] == "audit":
			of, from := testenv.Report(t, kubeconfig, routing, "--fail-on=never")
			read, _ := testenv.Report(t, append(flags, paths["file"], "--fail-on=never")...)
			_ = from
			compareFindings(t, of, read)
		case words[0] == "explain":
			compareChains(t, q, ask(live), ask(file))
			compareChains(t, q, ask(online), ask(live))
		case ask(live) != ask(online):
			t.Errorf("%s: %s and %s differ:\n%s", q, live.name, online.name, difference(ask(live), ask(online)))
		}
	}
	w.compareUnchanged(t)
	findings := testenv.Parse(t, testenv.Command(t, "audit", "-o=json", "--fail-on=never", kubeconfig, routing)).Findings
	comparePage(t, running, findings, requests, kubeconfig, routing, "--offline")
	comparePage(t, testenv.RunAs(t, "", append([]string{"--from=" + paths["must-gather"]}, flags...)...), findings, requests, of("must-gather")...)
}

// compareUnchanged wants diff to say nothing of manifests that the cluster has as they are.
func (w environment) compareUnchanged(t *testing.T) {
	t.Helper()
	list := &unstructured.UnstructuredList{Object: fields{"apiVersion": "v1", "kind": "List"}}
	for _, r := range dumpedResources {
		for _, o := range w.list(t, r) {
			o.SetAPIVersion(r.GroupVersion().String())
			o.SetKind(r.kind)
			delete(o.Object, "status")
			for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
				unstructured.RemoveNestedField(o.Object, "metadata", field)
			}
			list.Items = append(list.Items, o)
		}
	}
	file := filepath.Join(t.TempDir(), "same.json")
	testenv.Must(t, os.WriteFile(file, encoded(t, list), 0o600))
	var diff struct {
		Added, Resolved []testenv.ReportedFinding
		Registrations   []any
	}
	result := testenv.Command(t, "diff", file, "-o=json", "--kubeconfig="+w.Plane.Kubeconfig())
	testenv.Must(t, json.Unmarshal([]byte(result.Stdout), &diff))
	diff.Added = slices.DeleteFunc(diff.Added, func(f testenv.ReportedFinding) bool { return slices.Contains(ofFiles, f.Check) })
	if len(diff.Added)+len(diff.Resolved)+len(diff.Registrations) > 0 {
		t.Errorf("what the cluster has changes it: %s", result.Stdout)
	}
}

// ofFiles are checks of what is in files alone: bundles and certificates to be written, objects to
// be sent or installed, and workloads without Pods.
var ofFiles = []string{"bundle-conflict", "refused-by-api", "host-port", "backend-selector", "issued-certificate", "platform-limits"}

// findingKey is what identifies a finding.
func findingKey(f testenv.ReportedFinding) string {
	return strings.Join([]string{f.Check, f.Type, f.Configuration, f.Name}, " ")
}

// impliedBy are words of findings that a kind is needed for.
var impliedBy = map[string]string{"Services": "Service", "EndpointSlices": "endpoint", "Namespaces": "namespace", "CustomResourceDefinitions": "example.com", "policy bindings": "binding", "Pods or workloads": "Pod"}

// isNamed says whether the finding is about something that the input says it lacks.
func isNamed(f testenv.ReportedFinding, document testenv.Document) bool {
	if testenv.ContainsAll(f.Message, "the input lacks") || testenv.ContainsAll(f.Message, "not in the input") {
		return true
	}
	elsewhere := func(o testenv.ReportedFinding) bool {
		named := f
		named.Check = "service-elsewhere" // "which the input lacks (did you mean …?)"
		return findingKey(o) == findingKey(named)
	}
	if f.Check == "service-missing" && slices.ContainsFunc(document.Findings, elsewhere) {
		return true
	}
	return slices.ContainsFunc(document.Inputs[0].Lacks, func(lack string) bool {
		if strings.HasSuffix(lack, "such params is unknown") && strings.Contains(f.Message, "params") {
			return true
		}
		lack, _, _ = strings.Cut(strings.TrimPrefix(lack, "no "), ":")
		if _, kind, counted := strings.Cut(lack, " more "); counted {
			lack = strings.TrimSuffix(kind, "s") + "s"
		}
		word, isKind := impliedBy[lack]
		if subject := lack[strings.LastIndex(lack, " ")+1:]; !isKind {
			word = subject
		}
		return strings.Contains(f.Message+" "+f.Name, word)
	})
}

// compareFindings wants each finding that a file does not have, or has alone, to be about
// something that is named as missing of it.
func compareFindings(t *testing.T, live, file testenv.Document) {
	t.Helper()
	for _, side := range []struct {
		name        string
		mine, other testenv.Document
	}{{"the cluster", live, file}, {"the file", file, live}} {
		for _, f := range side.mine.Findings {
			if !slices.ContainsFunc(side.other.Findings, func(o testenv.ReportedFinding) bool { return findingKey(o) == findingKey(f) }) && !isNamed(f, file) {
				t.Errorf("of %s alone: %s: %s; the file says it lacks %q", side.name, findingKey(f), f.Message, file.Inputs[0].Lacks)
			}
		}
	}
}

// explained is what is read of a chain.
type explained struct {
	Request        struct{ Operation string }
	Notes          []string
	Chain, Skipped []struct{ Type, Configuration, Name, Called string }
}

// calls are whether each webhook and policy is called.
func (e explained) calls() map[string]string {
	out := map[string]string{}
	for _, s := range slices.Concat(e.Skipped, e.Chain) { // of several bindings what is most
		key := strings.Join([]string{s.Type, s.Configuration, s.Name}, " ")
		if called := cmp.Or(s.Called, "no"); out[key] != "yes" {
			out[key] = called
		}
	}
	return out
}

// compareChains wants what knows less of a request to say no more than "maybe" of what it
// does not know.
func compareChains(t *testing.T, q question, more, less string) {
	t.Helper()
	var a, b explained
	if err := json.Unmarshal([]byte(less), &b); err != nil {
		if more != "" {
			t.Errorf("%s: no answer where less is known, else %s", q, more)
		}
		return
	}
	if json.Unmarshal([]byte(more), &a) != nil {
		if !testenv.ContainsAll(strings.Join(b.Notes, " "), "the input has no CRD of") {
			t.Errorf("%s: what is not served is answered: %s", q, less)
		}
		return
	}
	if a.Request.Operation != b.Request.Operation && testenv.ContainsAll(strings.Join(b.Notes, " "), "where the object does not exist") {
		return
	}
	sure := a.calls()
	for key, called := range b.calls() {
		if called != "maybe" && sure[key] != called {
			t.Errorf("%s: %s is called: %s; where less is known: %s\n%s\n%s", q, key, sure[key], called, more, less)
		}
	}
}

// verdict matches that of a page.
var verdict = regexp.MustCompile(`<h2>([^<]*)</h2>`)

// comparePage wants the findings in the metrics of a running auditor, and its page to answer
// requests as explain does.
func comparePage(t *testing.T, a *auditor.Auditor, findings []testenv.ReportedFinding, requests []string, source ...string) {
	t.Helper()
	want := map[string]bool{}
	for _, f := range findings {
		if !f.Acknowledged {
			want[findingKey(f)] = true
		}
	}
	testenv.Eventually(t, func() error {
		scrape, err := a.Scrape(t.Context())
		got := map[string]bool{}
		for _, s := range scrape.Select(auditor.Prefix+"finding", nil) {
			got[strings.Join([]string{s.Labels["check"], strings.Replace(s.Labels["type"], "admit", "mutating", 1), s.Labels["configuration"], s.Labels["name"]}, " ")] = true
		}
		if err == nil && !maps.Equal(want, got) {
			err = fmt.Errorf("the metrics have %v, audit %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		return err
	})
	for _, request := range requests[:4] {
		response := testenv.Get(http.PostForm(a.URL+"/ask", url.Values{"text": {request}}))(t)
		body := testenv.Get(io.ReadAll(response.Body))(t)
		testenv.Must(t, response.Body.Close())
		words := append([]string{"explain", "-o=markdown"}, strings.Fields(request)...)
		result := testenv.Command(t, append(words, source...)...)
		line, _, _ := strings.Cut(strings.TrimPrefix(result.Stdout, "### "), "\n")
		answer := verdict.FindSubmatch(body)
		if (answer == nil) != (result.Stdout == "") || answer != nil && html.UnescapeString(string(answer[1])) != strings.ReplaceAll(html.UnescapeString(line), `\`, "") {
			t.Errorf("%s: the page says %q, explain %q %s", request, answer, line, result.Stderr)
		}
	}
}
