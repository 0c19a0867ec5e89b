package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
)

// Home is the namespace of the auditor.
const Home = "webhook-auditor"

// Target is an object that the auditor writes its conditions to.
type Target struct {
	Resource schema.GroupVersionResource
	Name     string
}

// The objects that the auditor writes.
var (
	ClusterOperator = Target{schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "clusteroperators"}, "webhook-auditor"}
	WebhookAudit    = Target{schema.GroupVersionResource{Group: "webhook-auditor.io", Version: "v1alpha1", Resource: "webhookaudits"}, "cluster"}
	Targets         = []Target{ClusterOperator, WebhookAudit}
)

// InstallAPIs makes what the auditor finds where it is installed: its namespace
// and the APIs of what it writes.
func (e *Env) InstallAPIs(t testing.TB) {
	t.Helper()
	e.Namespace(t, Home)
	e.Install(t, OpenShift(t, "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml"))
	e.Install(t, ManifestFile(t, "base/crd.yaml"))
}

// ManifestFile reads one of the files that a cluster applies.
func ManifestFile(t testing.TB, path string) []byte {
	t.Helper()
	manifests := Get(programs.Manifests())(t)
	return Get(os.ReadFile(filepath.Join(manifests, filepath.FromSlash(path))))(t)
}

// Status reads what a target says of itself; both say it alike.
func (e *Env) Status(ctx context.Context, target Target) (status configv1.ClusterOperatorStatus, object *unstructured.Unstructured, err error) {
	object, err = e.Dynamic.Resource(target.Resource).Get(ctx, target.Name, metav1.GetOptions{})
	if err != nil {
		return status, nil, err
	}
	written, _, err := unstructured.NestedMap(object.Object, "status")
	if err != nil {
		return status, nil, err
	}
	return status, object, runtime.DefaultUnstructuredConverter.FromUnstructured(written, &status)
}

// Condition wants a condition of a target to have the status, and a reason and
// a message with the given texts.
func (e *Env) Condition(ctx context.Context, target Target, want metav1.Condition) error {
	status, _, err := e.Status(ctx, target)
	if err != nil {
		return err
	}
	for _, c := range status.Conditions {
		if string(c.Type) == want.Type && string(c.Status) == string(want.Status) && strings.Contains(c.Reason, want.Reason) && strings.Contains(c.Message, want.Message) {
			return nil
		}
	}
	return fmt.Errorf("%s: want %s=%s %s %q, have %+v", target.Name, want.Type, want.Status, want.Reason, want.Message, status.Conditions)
}

// AsExpected is a condition without an error.
func AsExpected(name string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: "AsExpected"}
}

// WaitForCondition waits for a condition of both targets.
func (e *Env) WaitForCondition(t testing.TB, want metav1.Condition) {
	t.Helper()
	for _, target := range Targets {
		Eventually(t, func() error { return e.Condition(t.Context(), target, want) })
	}
}

// Events are those on an object.
func (e *Env) Events(ctx context.Context, name string) ([]corev1.Event, error) {
	list, err := e.Kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// WaitForEvent waits for an Event on an object.
func (e *Env) WaitForEvent(t testing.TB, object, kind, text string) {
	t.Helper()
	Eventually(t, func() error {
		events, err := e.Events(t.Context(), object)
		for _, e := range events {
			if e.Type == kind && strings.Contains(e.Message, text) {
				return nil
			}
		}
		if err == nil {
			err = fmt.Errorf("no %s Event %q on %s among %v", kind, text, object, events)
		}
		return err
	})
}

// WriteCondition gives a target a condition, as written by the manager.
func (e *Env) WriteCondition(t testing.TB, target Target, manager string, condition metav1.Condition) {
	t.Helper()
	kind, spec := "ClusterOperator", map[string]any{}
	if target == WebhookAudit {
		kind, spec = "WebhookAudit", nil // it has none
	}
	e.writeStatus(t, target, kind, manager, spec, map[string]any{"conditions": []any{map[string]any{
		"type": condition.Type, "status": string(condition.Status), "reason": "Old", "message": "",
		"lastTransitionTime": condition.LastTransitionTime.UTC().Format(time.RFC3339),
	}}})
}

// SetUpgrading sets whether the cluster is being upgraded.
func (e *Env) SetUpgrading(t testing.TB, status metav1.ConditionStatus) {
	t.Helper()
	version := Target{schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "clusterversions"}, "version"}
	spec := map[string]any{"clusterID": "00000000-0000-4000-8000-000000000000"}
	e.writeStatus(t, version, "ClusterVersion", "cluster-version-operator", spec, map[string]any{
		"availableUpdates": nil, "observedGeneration": int64(1), "versionHash": "x",
		"desired": map[string]any{"version": "4.22.0", "image": "x"},
		"conditions": []any{map[string]any{
			"type": "Progressing", "status": string(status), "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
	})
}

// writeStatus makes an object where there is none, and gives it a status, as written by the
// manager.
func (e *Env) writeStatus(t testing.TB, target Target, kind, manager string, spec, status map[string]any) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(target.Resource.GroupVersion().String())
	object.SetKind(kind)
	object.SetName(target.Name)
	if spec != nil {
		object.Object["spec"] = spec
	}
	client, options := e.Dynamic.Resource(target.Resource), metav1.ApplyOptions{FieldManager: manager}
	Get(client.Apply(t.Context(), target.Name, object, options))(t)
	object.Object["status"] = status
	Get(client.ApplyStatus(t.Context(), target.Name, object, options))(t)
}
