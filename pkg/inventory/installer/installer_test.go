package installer

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// sequence are the names in the order of an installation, those of one rank joined.
func sequence(t *testing.T, name string, all []*inventory.Manifest) string {
	t.Helper()
	at := slices.IndexFunc(Installers, func(i Installer) bool { return i.Name == name })
	positions := Installers[at].Positions(all)
	var order []int
	for n := range all {
		if positions[n].Applied {
			order = append(order, n)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(positions[a].Rank, positions[b].Rank) })
	var out strings.Builder
	for i, n := range order {
		switch {
		case i > 0 && positions[order[i-1]].Rank == positions[n].Rank:
			out.WriteString(" = ")
		case i > 0 && positions[order[i-1]].Stage != positions[n].Stage:
			out.WriteString("\n\n")
		case i > 0:
			out.WriteString("\n")
		}
		out.WriteString(all[n].Name)
	}
	return out.String() + "\n"
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
		got := strings.ReplaceAll(sequence(t, "Helm "+version, all), "\n\n", "\n")
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
	got := sequence(t, "Argo CD", manifests(`
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
ant = ant
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

// TestAwaited: what an installer waits for.
func TestAwaited(t *testing.T) {
	all := manifests(`
Deployment pre helm.sh/hook=pre-install
Deployment backend
Widget wave argocd.argoproj.io/sync-wave=1
Widget post helm.sh/hook=post-install
`)
	for name, want := range map[string]string{
		"Helm 3":        "backend < post",
		"Helm 4":        "backend < post",
		"kubectl apply": "",
		"Argo CD":       "pre < backend, pre < wave, pre < post, backend < wave, backend < post, wave < post",
	} {
		at := slices.IndexFunc(Installers, func(i Installer) bool { return i.Name == name })
		positions := Installers[at].Positions(all)
		var got []string
		for n, p := range positions {
			for m, other := range positions {
				if other.Stage >= p.Awaited && all[n].Kind != all[m].Kind || name == "Argo CD" && other.Stage >= p.Awaited {
					got = append(got, all[n].Name+" < "+all[m].Name)
				}
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s awaits %q, want %q", name, got, want)
		}
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
		at := slices.IndexFunc(Uninstallers, func(i Installer) bool { return i.Name == name })
		positions := Uninstallers[at].Positions(all)
		got := make([]string, len(all)-1)
		for n, p := range positions {
			if p.Applied {
				got[p.Rank] = all[n].Name
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
