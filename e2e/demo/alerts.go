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
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
)

// timeScale makes a minute of the alerts three seconds, as no user watches a
// demo for a quarter of an hour.
const timeScale = 0.05

func (d *demo) startAlerts(ctx context.Context) error {
	d.say("starting Prometheus and Alertmanager with the rules of webhook-auditor print rules")
	ports, err := process.FreePorts(1)
	if err != nil {
		return err
	}
	d.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	d.alerts, err = monitoring.Start(ctx, monitoring.Options{
		Binaries:  binaries,
		Auditor:   program,
		Routes:    "../rules/alertmanager.yaml",
		TimeScale: timeScale,
		APIServer: d.plane.Config(),
		Targets:   monitoring.Targets{Controllers: d.plane.ControllersURL(), Auditors: []string{"http://" + d.address}},
	})
	if err != nil {
		return fmt.Errorf("starting what e2e/prom/build.sh builds: %w", err)
	}
	d.stops = append(d.stops, d.alerts.Stop)
	return nil
}

// sendRequests plays the users of the cluster, who meet healthy and broken
// webhooks, until the demo ends. The outcome of a request shows in the alerts,
// of which begin and end are printed. Users may delete whatever they like meanwhile.
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
	firing, begun := map[string]bool{}, time.Now()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		stored = stored || storeBackup(ctx, objects) == nil
		_, _ = kube.CoreV1().ConfigMaps("legacy").Create(ctx, &corev1.ConfigMap{ObjectMeta: generated}, dryRun)
		_, _ = kube.BatchV1().Jobs("policy").Create(ctx, &batchv1.Job{ObjectMeta: generated, Spec: job}, dryRun)
		_, _ = backups(objects, "v2").Get(ctx, "daily", metav1.GetOptions{})
		firing = d.printAlerts(ctx, firing, begun)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// printAlerts prints the alerts that Alertmanager has now and did not have before, and those
// that ended; it returns what it has now.
func (d *demo) printAlerts(ctx context.Context, before map[string]bool, begun time.Time) map[string]bool {
	all, err := d.alerts.Alerts(ctx)
	if err != nil {
		return before // it is asked again soon
	}
	now, elapsed := map[string]bool{}, time.Since(begun).Seconds()
	for _, a := range all {
		line := fmt.Sprintf("%s (%s): %s", a.Labels["alertname"], a.Labels["severity"], a.Annotations["summary"])
		if a.Status.State == "suppressed" {
			line += " (suppressed: another alert explains it)"
		}
		if now[line] = true; !before[line] {
			d.say("alert after %.0f s: %s", elapsed, line)
		}
	}
	for line := range before {
		if !now[line] {
			d.say("ended after %.0f s: %s", elapsed, line)
		}
	}
	return now
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
