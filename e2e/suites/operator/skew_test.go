package operator

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// recorded is what an older build wrote and exported in a cluster with one webhook,
// whose Service is missing: its lease, its objects, the names and labels of its
// series.
//
//go:embed testdata/older
var recorded embed.FS

const olderVersion = "e549849"

// TestVersionSkew: beside a replica of an older version that holds the lease, this
// one exports the same series and writes nothing. Once it takes over, conditions
// have the times at which they changed under the older one.
func TestVersionSkew(t *testing.T) {
	t.Parallel()
	w := testenv.New(t, cluster.Options{WithoutControllers: true})
	w.InstallAPIs(t)
	b := w.Backend(t, "skew")
	testenv.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, b.Namespace, testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	left := leftByOlder(t, w)
	release := heldByOlder(t, w)
	a := w.Run(t, elected...)

	rolling := metrics.Present(auditor.Prefix+"condition", metrics.Labels{"condition": "Progressing", "status": "True"})
	_, err := a.Eventually(t.Context(), func(m metrics.Metrics) error {
		if err := rolling(m); err != nil {
			return err
		}
		return metrics.Present(auditor.Prefix+"finding", metrics.Labels{"check": "service-missing", "configuration": b.Namespace})(m)
	})
	testenv.Must(t, err)
	scrape, err := a.Scrape(t.Context())
	testenv.Must(t, err)
	exportsAll(t, scrape)
	for target, version := range left {
		_, found, err := w.Status(t.Context(), target)
		testenv.Must(t, err)
		if found.GetResourceVersion() != version {
			t.Errorf("%s was written while the older replica held the lease: %v", target.Name, found.Object["status"])
		}
	}

	release()
	for _, target := range testenv.Targets {
		testenv.Eventually(t, func() error { return continues(t, w, target) })
	}
	lease, err := w.Kube.CoordinationV1().Leases(testenv.Home).Get(t.Context(), testenv.Home, metav1.GetOptions{})
	testenv.Must(t, err)
	if *lease.Spec.LeaseTransitions != 2 || *lease.Spec.HolderIdentity == "older_1" {
		t.Errorf("the lease is %+v, want the next holder of the same", lease.Spec)
	}
}

// recordedAs decodes one of the recorded files.
func recordedAs(t *testing.T, name string, into any) {
	t.Helper()
	text, err := recorded.ReadFile("testdata/older/" + name + ".yaml")
	testenv.Must(t, err)
	testenv.Must(t, yaml.UnmarshalStrict(text, into))
}

// leftByOlder writes the objects of the older build as it did, and returns their
// resourceVersions.
func leftByOlder(t *testing.T, w *testenv.Env) map[testenv.Target]string {
	t.Helper()
	out := map[testenv.Target]string{}
	for _, target := range testenv.Targets {
		object := &unstructured.Unstructured{}
		recordedAs(t, target.Resource.Resource, &object.Object)
		status := object.Object["status"]
		unstructured.RemoveNestedField(object.Object, "status")
		options := metav1.ApplyOptions{FieldManager: "webhook-auditor"}
		client := w.Dynamic.Resource(target.Resource)
		_, err := client.Apply(t.Context(), target.Name, object, options)
		testenv.Must(t, err)
		unstructured.RemoveNestedField(object.Object, "spec")
		object.Object["status"] = status
		written, err := client.ApplyStatus(t.Context(), target.Name, object, options)
		testenv.Must(t, err)
		out[target] = written.GetResourceVersion()
	}
	return out
}

// heldByOlder holds the lease as the older build did, until the function that it
// returns gives it up as the older build does when it is stopped.
func heldByOlder(t *testing.T, w *testenv.Env) (release func()) {
	t.Helper()
	leases := w.Kube.CoordinationV1().Leases(testenv.Home)
	lease := &coordinationv1.Lease{}
	recordedAs(t, "lease", lease)
	lease.Spec.RenewTime = new(metav1.NowMicro())
	held, err := leases.Create(t.Context(), lease, metav1.CreateOptions{})
	testenv.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-tick.C:
			}
			held.Spec.RenewTime = new(metav1.NowMicro())
			updated, err := leases.Update(t.Context(), held, metav1.UpdateOptions{})
			if err != nil {
				done <- fmt.Errorf("renewing the lease of the older replica: %w", err)
				return
			}
			held = updated
		}
	}()
	return func() {
		cancel()
		testenv.Must(t, <-done)
		held.Spec.HolderIdentity, held.Spec.LeaseDurationSeconds = new(""), new(int32(1))
		_, err := leases.Update(t.Context(), held, metav1.UpdateOptions{})
		testenv.Must(t, err)
	}
}

// exportsAll wants each series of the older build, with its labels.
func exportsAll(t *testing.T, scrape metrics.Metrics) {
	t.Helper()
	exported := map[string]bool{}
	for _, s := range scrape {
		exported[fmt.Sprintf("%s{%s}", s.Name, strings.Join(slices.Sorted(maps.Keys(s.Labels)), ","))] = true
	}
	text, err := recorded.ReadFile("testdata/older/series.txt")
	testenv.Must(t, err)
	for line := range strings.Lines(string(text)) {
		if !exported[strings.TrimSpace(line)] {
			t.Errorf("the older build exports %s, this one does not", strings.TrimSpace(line))
		}
	}
}

// continues wants a target to be written by this version, and each condition that
// the older one wrote to have changed when it did under that one.
func continues(t *testing.T, w *testenv.Env, target testenv.Target) error {
	t.Helper()
	var before struct{ Status testenv.Status }
	object := map[string]any{}
	recordedAs(t, target.Resource.Resource, &object)
	testenv.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object, &before))
	after, _, err := w.Status(t.Context(), target)
	if err != nil {
		return err
	}
	if after.Versions[0].Version == olderVersion {
		return fmt.Errorf("%s is still of version %s", target.Name, olderVersion)
	}
	for _, want := range before.Status.Conditions {
		i := slices.IndexFunc(after.Conditions, func(c metav1.Condition) bool { return c.Type == want.Type })
		if i < 0 || after.Conditions[i].Status != want.Status {
			return fmt.Errorf("%s: want %s=%s, have %+v", target.Name, want.Type, want.Status, after.Conditions)
		}
		if got := after.Conditions[i].LastTransitionTime; want.Type != "Progressing" && !got.Equal(&want.LastTransitionTime) {
			return fmt.Errorf("%s: %s changed at %s, want %s, as under the older version", target.Name, want.Type, got, want.LastTransitionTime)
		}
	}
	return nil
}
