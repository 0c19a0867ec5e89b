package installer

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// sequence are the names in the order of the program, with a blank line between stages.
func sequence(t *testing.T, of []Installer, name string, all []*inventory.Manifest) string {
	t.Helper()
	at := slices.IndexFunc(of, func(i Installer) bool { return i.Name == name })
	var out strings.Builder
	steps := Programs(of, all)[at].Steps
	for i, s := range steps {
		if i > 0 && steps[i-1].stage(s) != 0 {
			out.WriteString("\n")
		}
		out.WriteString(all[s.Object].Name + "\n")
	}
	return out.String()
}

func read(t *testing.T, path string) []*inventory.Manifest {
	t.Helper()
	o, _ := manifest.Read([]string{path}, manifest.Options{})
	for _, e := range o.Errors {
		t.Error(e)
	}
	var out []*inventory.Manifest
	for i := range o.Manifests {
		out = append(out, &o.Manifests[i])
	}
	return out
}

// TestHelm holds the order against Helm's own, which e2e/helm writes.
func TestHelm(t *testing.T) {
	all := read(t, "testdata/order.yaml")
	for _, version := range []string{"3", "4"} {
		want := must.Get(os.ReadFile("testdata/order-" + version + ".txt"))(t)
		got := strings.ReplaceAll(sequence(t, Installers, "Helm "+version, all), "\n\n", "\n")
		if got != string(want) {
			t.Errorf("in the order of Helm %s: %s, want %s", version, strings.Fields(got), strings.Fields(string(want)))
		}
	}
}

// manifests makes one from each line: KIND NAME [ANNOTATION=VALUE;...].
func manifests(lines string) []*inventory.Manifest {
	var out []*inventory.Manifest
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, annotations, _ := strings.Cut(rest, " ")
		m := &inventory.Manifest{Kind: kind, Key: inventory.Key{Name: name}, Order: map[string]string{}}
		for annotation := range strings.SplitSeq(annotations, ";") {
			key, value, _ := strings.Cut(annotation, "=")
			m.Order[key] = value
		}
		out = append(out, m)
	}
	return out
}

// TestArgo: phases, waves, kinds, names, and what is left out.
func TestArgo(t *testing.T) {
	got := sequence(t, Installers, "Argo CD", manifests(`
Widget zebra
Widget ant
ValidatingWebhookConfiguration ant
PriorityClass bear
Deployment zebra
Service zebra
Namespace zebra
Widget late argocd.argoproj.io/sync-wave=2
Widget early argocd.argoproj.io/sync-wave=-1
Widget weighed helm.sh/hook-weight=1
Widget wave argocd.argoproj.io/sync-wave=none;helm.sh/hook-weight=1
Job helm-pre helm.sh/hook=pre-upgrade
Job helm-post helm.sh/hook=post-install;helm.sh/hook-weight=5
Job helm-both helm.sh/hook=post-install,pre-upgrade
Job helm-test helm.sh/hook=test
Widget crd-install helm.sh/hook=crd-install
Job argo-pre argocd.argoproj.io/hook=PreSync;argocd.argoproj.io/sync-wave=-1
Job argo-sync argocd.argoproj.io/hook=Sync;helm.sh/hook=post-install
Job argo-post argocd.argoproj.io/hook=PostSync,Skip
Job argo-skip argocd.argoproj.io/hook=Skip
Job argo-fail argocd.argoproj.io/hook=SyncFail
`))
	const want = `argo-pre

helm-both
helm-pre

early

zebra
zebra
zebra
argo-sync
ant
ant
bear
crd-install
zebra

wave
weighed

late

argo-post

helm-post
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// TestUninstall: kinds in reverse, Services before what is behind them, unknown kinds by
// name at the end; hooks stay.
func TestUninstall(t *testing.T) {
	all := manifests(`
Widget cart
Service service
Deployment backend
CustomResourceDefinition crd
MutatingWebhookConfiguration mutating
ValidatingWebhookConfiguration validating
APIService api
Namespace namespace
Job hook helm.sh/hook=pre-delete
`)
	for name, want := range map[string]string{
		"Helm 3": "api service backend crd namespace mutating validating cart",
		"Helm 4": "validating mutating api service backend crd namespace cart",
	} {
		if got := strings.Join(strings.Fields(sequence(t, Uninstallers, name, all)), " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
