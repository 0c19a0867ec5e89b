package manifest

import (
	"archive/tar"
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// insightsMembers are files of an insights archive, which has the folder
// cluster-scoped-resources of a must-gather in it.
var insightsMembers = [][2]string{
	{"cluster-scoped-resources/rbac.authorization.k8s.io/clusterroles/admin.json", `{"metadata": {"name": "admin"}}`},
	{"config/validatingwebhookconfigurations/policy.json", `{"metadata": {"name": "policy"}, "webhooks": [{"name": "a.example.com", "clientConfig": {"url": "https://a"}}]}`},
	{"config/version.json", `{"metadata": {"name": "version"}, "status": {"desired": {"version": "4.20.1"}}}`},
	{"insights-operator/gathers.json", `{}`},
}

// TestInsightsBesideMustGather: an insights archive is recognized in whatever
// order its files come, packed and unpacked.
func TestInsightsBesideMustGather(t *testing.T) {
	check := func(path, kind string, packed []byte) {
		t.Helper()
		o, summary := Read([]string{path}, Options{Stdin: bytes.NewReader(packed)})
		if len(o.Validating) != 1 || len(o.Errors) > 0 || !o.OpenShift || summary.Inputs[0].Kind != kind {
			t.Errorf("%s: %d configurations, OpenShift %t, errors %v, taken for %q, want %q", path, len(o.Validating), o.OpenShift, o.Errors, summary.Inputs[0].Kind, kind)
		}
	}
	for first := range insightsMembers {
		members := slices.Concat(insightsMembers[first:], insightsMembers[:first])
		check("-", "insights archive (archive)", tarOf(t, members))
		slices.Reverse(members)
		check("-", "insights archive (archive)", tarOf(t, members))
	}
	t.Chdir(t.TempDir())
	for _, m := range insightsMembers {
		tree{m[0]: m[1]}.write(t, ".")
	}
	check(".", "insights archive", nil)
}

func tarOf(t *testing.T, members [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		must.Add(t, w, &tar.Header{Name: m[0], Typeflag: tar.TypeReg, Mode: 0o644}, m[1])
	}
	must.Succeed(t, w.Close())
	return b.Bytes()
}

// TestNothingInArchives: an archive in which no webhook is found is an error,
// unless it says that there is none, or another path has some. Manifests without
// webhooks are none.
func TestNothingInArchives(t *testing.T) {
	chart := [][2]string{{"policy/Chart.yaml", "name: policy\n"}, {"policy/templates/webhook.yaml", "{{ if .Values.on }}\nkind: ValidatingWebhookConfiguration\n{{ end }}\n"}}
	t.Chdir(t.TempDir())
	must.Write(t, "webhooks.yaml", hookYAML)
	must.Write(t, "service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
	const none = "cluster-scoped-resources/admissionregistration.k8s.io/"
	for name, tc := range map[string]struct {
		members [][2]string
		beside  []string
		want    string
	}{
		"a chart":             {chart, nil, "render it first, as with helm template"},
		"beside webhooks":     {chart, []string{"webhooks.yaml"}, ""},
		"a must-gather":       {[][2]string{{"x/cluster-scoped-resources/core/nodes/a.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"}}, nil, "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"},
		"one that says so":    {[][2]string{{"x/" + none + "validatingwebhookconfigurations.yaml", emptyList}, {"x/" + none + "mutatingwebhookconfigurations.yaml", emptyList}}, nil, ""},
		"an insights archive": {insightsMembers[2:], nil, "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"},
		"one with webhooks":   {insightsMembers, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, summary := Read(append([]string{"-"}, tc.beside...), Options{Stdin: bytes.NewReader(tarOf(t, tc.members))})
			got := summary.Empty
			if (len(got) == 1) != (tc.want != "") || len(got) > 0 && !strings.Contains(got[0].Message, tc.want) {
				t.Errorf("empty: %v, want one with %q", got, tc.want)
			}
		})
	}
	if _, summary := Read([]string{"service.yaml"}, Options{}); len(summary.Empty) > 0 {
		t.Errorf("manifests without webhooks: %v", summary.Empty)
	}
}

// TestServerVersionNamed: with the flag, no input needs to have it.
func TestServerVersionNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Write(t, "webhooks.yaml", hookYAML)
	for server, told := range map[inventory.Version]bool{{}: true, {Major: 1, Minor: 34}: false} {
		_, summary := Read([]string{"webhooks.yaml"}, Options{Server: server})
		if got := strings.Contains(strings.Join(summary.Inputs[0].Lacks, "; "), "no server version"); got != told {
			t.Errorf("--server-version %s: lacks %q", server, summary.Inputs[0].Lacks)
		}
	}
}

// TestRemovedVersions: v1beta1 of a registration, which no server takes, is reported and no error.
func TestRemovedVersions(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Write(t, "webhooks.yaml", strings.Replace(hookYAML, "k8s.io/v1", "k8s.io/v1beta1", 1))
	o, summary := Read([]string{"webhooks.yaml"}, Options{})
	expect.Equal(t, []string(nil), describe(o))
	expect.Equal(t, "webhooks.yaml:2: ValidatingWebhookConfiguration/policy is in admissionregistration.k8s.io/v1beta1, which no API server since v1.25 takes: not read", summary.Inputs[0].Lacks[len(summary.Inputs[0].Lacks)-1])
}

// TestSameNamedWebhooks: each has its own line, also where two share a name.
func TestSameNamedWebhooks(t *testing.T) {
	t.Chdir(t.TempDir())
	_, again, _ := strings.Cut(hookYAML, "webhooks:\n")
	must.Write(t, "webhooks.yaml", hookYAML+again)
	o, _ := Read([]string{"webhooks.yaml"}, Options{})
	var lines []int
	for _, w := range o.Snapshot(time.Time{}).Webhooks {
		lines = append(lines, w.Object.Source.Line)
	}
	expect.Equal(t, []int{7, 11}, lines)
}

// TestServiceWithoutPorts: no API server takes one that is not headless.
func TestServiceWithoutPorts(t *testing.T) {
	t.Chdir(t.TempDir())
	for spec, want := range map[string]bool{"{}": true, "{clusterIP: None}": false, "{type: ExternalName, externalName: a.example.com}": false, "{ports: [{port: 443}]}": false} {
		must.Write(t, "service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: policy, namespace: policy}\nspec: "+spec)
		_, summary := Read([]string{"service.yaml"}, Options{})
		if got := strings.Contains(strings.Join(summary.Inputs[0].Lacks, "; "), "Service policy/policy has no ports, which no API server takes"); got != want {
			t.Errorf("spec %s: lacks %q", spec, summary.Inputs[0].Lacks)
		}
	}
}
