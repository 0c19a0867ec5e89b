package main

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
)

// timeScale makes a minute of the alerts three seconds, as no user watches a
// demo for a quarter of an hour.
const timeScale = 0.05

func (d *demo) startAlerts(ctx context.Context) error {
	d.say("starting Prometheus and Alertmanager with the rules of webhook-auditor print rules")
	var err error
	d.alerts, err = monitoring.Start(ctx, monitoring.Options{
		Binaries:  binaries,
		Auditor:   program,
		Routes:    "../rules/alertmanager.yaml",
		TimeScale: timeScale,
		APIServer: d.plane.Config(),
		Targets:   monitoring.Targets{Controllers: d.plane.ControllersURL(), Auditors: []string{d.auditor.URL}},
	})
	if err != nil {
		return fmt.Errorf("starting what e2e/prom/build.sh builds: %w", err)
	}
	d.stops = append(d.stops, d.alerts.Stop)
	return nil
}

// sendRequests plays the users of the cluster, who meet healthy and broken
// webhooks, until the demo ends. The outcome of a request shows in the alerts,
// each of which is printed once. Users may delete whatever they like meanwhile.
func (d *demo) sendRequests(ctx context.Context) error {
	kube, err := kubernetes.NewForConfig(d.plane.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(d.plane.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	stored := false
	printed, begun := map[string]bool{}, time.Now()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		stored = stored || storeBackup(ctx, objects) == nil
		_, _ = kube.CoreV1().ConfigMaps("legacy").Create(ctx, &corev1.ConfigMap{ObjectMeta: generated}, dryRun)
		_, _ = kube.BatchV1().Jobs("policy").Create(ctx, &batchv1.Job{ObjectMeta: generated, Spec: job}, dryRun)
		_, _ = backups(objects, "v2").Get(ctx, "daily", metav1.GetOptions{})
		d.printAlerts(ctx, printed, begun)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// printAlerts prints the alerts that Alertmanager has and that were not printed
// before.
func (d *demo) printAlerts(ctx context.Context, printed map[string]bool, begun time.Time) {
	all, err := d.alerts.Alerts(ctx)
	if err != nil {
		return // it is asked again soon
	}
	for _, a := range all {
		line := fmt.Sprintf("%s (%s): %s", a.Labels["alertname"], a.Labels["severity"], a.Annotations["summary"])
		if printed[line] {
			continue
		}
		printed[line] = true
		if a.Status.State == "suppressed" {
			line += " (suppressed: another alert explains it)"
		}
		d.say("alert after %.0f s: %s", time.Since(begun).Seconds(), line)
	}
}

// storeBackup stores what can be read in no other version.
func storeBackup(ctx context.Context, objects dynamic.Interface) error {
	backup := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "storage.example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": "daily"},
	}}
	if _, err := backups(objects, "v1").Create(ctx, backup, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("storing a backup: %w", err)
	}
	return nil
}

func backups(objects dynamic.Interface, version string) dynamic.ResourceInterface {
	return objects.Resource(schema.GroupVersionResource{Group: "storage.example.com", Version: version, Resource: "backups"}).Namespace("storage")
}

// What users ask for; nothing of it is kept.
var (
	generated = metav1.ObjectMeta{GenerateName: "user-"}
	dryRun    = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	job       = batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "main", Image: "example.com/main"}},
	}}}
)
