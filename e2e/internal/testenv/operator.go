package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	manifests, err := programs.Manifests()
	Must(t, err)
	text, err := os.ReadFile(filepath.Join(manifests, filepath.FromSlash(path)))
	Must(t, err)
	return text
}

// Status is what the tests read of a target.
type Status struct {
	Conditions []metav1.Condition `json:"conditions"`
	Versions   []struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"versions"`
	RelatedObjects []struct {
		Group    string `json:"group"`
		Resource string `json:"resource"`
		Name     string `json:"name"`
	} `json:"relatedObjects"`
}

// Status reads a target.
func (e *Env) Status(ctx context.Context, target Target) (Status, *unstructured.Unstructured, error) {
	found, err := e.Dynamic.Resource(target.Resource).Get(ctx, target.Name, metav1.GetOptions{})
	if err != nil {
		return Status{}, nil, err
	}
	text, err := found.MarshalJSON()
	if err != nil {
		return Status{}, nil, err
	}
	var out struct {
		Status Status `json:"status"`
	}
	return out.Status, found, json.Unmarshal(text, &out)
}

// Condition wants a condition of a target to have the status, and a reason and
// a message with the given texts.
func (e *Env) Condition(ctx context.Context, target Target, want metav1.Condition) error {
	status, _, err := e.Status(ctx, target)
	if err != nil {
		return err
	}
	for _, c := range status.Conditions {
		if c.Type == want.Type && c.Status == want.Status && strings.Contains(c.Reason, want.Reason) && strings.Contains(c.Message, want.Message) {
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
	kinds := map[Target]string{ClusterOperator: "ClusterOperator", WebhookAudit: "WebhookAudit"}
	object := func() *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetAPIVersion(target.Resource.GroupVersion().String())
		o.SetKind(kinds[target])
		o.SetName(target.Name)
		if target == ClusterOperator {
			o.Object["spec"] = map[string]any{}
		}
		return o
	}
	options := metav1.ApplyOptions{FieldManager: manager}
	client := e.Dynamic.Resource(target.Resource)
	_, err := client.Apply(t.Context(), target.Name, object(), options)
	Must(t, err)
	status := object()
	status.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": condition.Type, "status": string(condition.Status), "reason": "Old", "message": "",
		"lastTransitionTime": condition.LastTransitionTime.UTC().Format(time.RFC3339),
	}}}
	_, err = client.ApplyStatus(t.Context(), target.Name, status, options)
	Must(t, err)
}

// SetUpgrading sets whether the cluster is being upgraded.
func (e *Env) SetUpgrading(t testing.TB, status metav1.ConditionStatus) {
	t.Helper()
	client := e.Dynamic.Resource(schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "clusterversions"})
	version := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
			"metadata": map[string]any{"name": "version"},
		}}
	}
	options := metav1.ApplyOptions{FieldManager: "cluster-version-operator"}
	made := version()
	made.Object["spec"] = map[string]any{"clusterID": "00000000-0000-4000-8000-000000000000"}
	_, err := client.Apply(t.Context(), "version", made, options)
	Must(t, err)
	reported := version()
	reported.Object["status"] = map[string]any{
		"availableUpdates": nil, "observedGeneration": int64(1), "versionHash": "x",
		"desired": map[string]any{"version": "4.22.0", "image": "x"},
		"conditions": []any{map[string]any{
			"type": "Progressing", "status": string(status), "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
	}
	_, err = client.ApplyStatus(t.Context(), "version", reported, options)
	Must(t, err)
}
