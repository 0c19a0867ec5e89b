package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// recordScale makes an hour of the recording five minutes; the rules' windows
// and waiting times shrink with it.
const recordScale = 1.0 / 12

// recordedEnd is the time at which every recording ends, so that two of them
// compare.
var recordedEnd = time.Date(2026, time.March, 2, 10, 0, 0, 0, time.UTC)

// recorded are the series that the dashboards read. Of requests, only writes of
// what the demo writes.
var recorded = []string{
	`{__name__=~"webhook_auditor_.*"}`,
	`{__name__=~"ALERTS|ALERTS_FOR_STATE"}`,
	`{__name__=~"process_(resident_memory_bytes|cpu_seconds_total)",job="webhook-auditor"}`,
	`{__name__=~"apiserver_admission_(webhook|step|match_condition)_.*|apiserver_(crd_)?conversion_webhook_.*"}`,
	`{__name__=~"apiserver_request_((sli_)?duration_seconds_(sum|count)|total)",verb=~"POST|PUT|PATCH|APPLY|DELETE"}`,
}

// record writes an hour of series into the file: an hour of a healthy cluster
// whose webhooks then break one after the other.
func (d *demo) record(ctx context.Context, binaries, file string) error {
	fixtures, err := readFixtures(d.hooks)
	if err != nil {
		return err
	}
	if err := load(ctx, d.plane.Config(), fixtures[0], d.hooks); err != nil {
		return err
	}
	if err := d.startAuditor(ctx); err != nil {
		return err
	}
	if err := d.startAlerts(ctx, binaries, recordScale); err != nil {
		return err
	}
	begun := time.Now()
	ctx, stop := context.WithDeadline(ctx, begun.Add(scaledMinutes(66)))
	defer stop()
	var users sync.WaitGroup
	users.Go(func() { d.breakWebhooks(ctx, begun, fixtures[1:]) })
	if err := d.sendRecordedRequests(ctx, &users); err != nil {
		return err
	}
	users.Wait()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	return d.dump(context.WithoutCancel(ctx), file)
}

func scaledMinutes(n float64) time.Duration {
	return time.Duration(n * recordScale * float64(time.Minute))
}

// breakWebhooks is the incident: everything broken is registered, then healthy
// webhooks become slow and fail.
func (d *demo) breakWebhooks(ctx context.Context, begun time.Time, broken []fixture) {
	steps := []struct {
		minute float64
		do     func()
	}{
		{30, func() {
			for _, f := range broken {
				if err := load(ctx, d.plane.Config(), f, d.hooks); err != nil {
					d.say("%v", err)
				}
			}
		}},
		{36, func() {
			d.hooks.Behave("/allow/deployments.policy.example.com", webhook.Behaviour{Delay: 1200 * time.Millisecond})
		}},
		{44, func() {
			d.hooks.Behave("/patch/configmaps.policy.example.com", webhook.Behaviour{FailEvery: 3})
		}},
	}
	for _, step := range steps {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(begun.Add(scaledMinutes(step.minute)))):
			d.say("minute %.0f of the recording", step.minute)
			step.do()
		}
	}
}

// sendRecordedRequests plays users, each of whom writes one kind of object.
func (d *demo) sendRecordedRequests(ctx context.Context, users *sync.WaitGroup) error {
	kube, err := kubernetes.NewForConfig(d.plane.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(d.plane.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mutated := metav1.ObjectMeta{GenerateName: "user-", Labels: map[string]string{"policy.example.com/mutate": "true"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "user"}}, Spec: job.Template.Spec}
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	deployment := appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}
	for _, write := range []func(){
		func() {
			_, _ = kube.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: generated, Spec: deployment}, metav1.CreateOptions{})
		},
		func() {
			_, _ = kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: mutated}, metav1.CreateOptions{})
		},
		func() {
			_, _ = kube.CoreV1().ConfigMaps("legacy").Create(ctx, &corev1.ConfigMap{ObjectMeta: generated}, metav1.CreateOptions{})
		},
		func() {
			_, _ = kube.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: generated}, metav1.CreateOptions{})
		},
		func() {
			_, _ = kube.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: generated, Spec: job.Template.Spec}, dryRun)
		},
		func() {
			_, _ = kube.BatchV1().Jobs("policy").Create(ctx, &batchv1.Job{ObjectMeta: generated, Spec: job}, metav1.CreateOptions{})
		},
		func() { convert(ctx, objects, "policy.example.com", "rulesets", "Ruleset", [2]string{"v1", "v1beta1"}) },
		func() { convert(ctx, objects, "storage.example.com", "backups", "Backup", [2]string{"v1", "v2"}) },
	} {
		users.Go(func() { repeat(ctx, write) })
	}
	return nil
}

// convert stores an object in one version and reads it in the other.
func convert(ctx context.Context, objects dynamic.Interface, group, resource, kind string, versions [2]string) {
	in := func(version string) dynamic.ResourceInterface {
		return objects.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace("default")
	}
	stored := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + versions[0], "kind": kind, "metadata": map[string]any{"name": "daily"},
	}}
	_, _ = in(versions[0]).Create(ctx, stored, metav1.CreateOptions{})
	_, _ = in(versions[1]).Get(ctx, "daily", metav1.GetOptions{})
}

func repeat(ctx context.Context, write func()) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		write()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sampled is one time series as Prometheus' API returns it.
type sampled struct {
	Metric map[string]string
	Values [][2]any
}

// dump writes what Prometheus holds in the OpenMetrics format, gzipped, with
// its times stretched to the hour that they stand for.
func (d *demo) dump(ctx context.Context, file string) error {
	end := time.Now()
	families := map[string][]sampled{}
	for _, selector := range recorded {
		found, err := d.samples(ctx, selector, end)
		if err != nil {
			return err
		}
		for _, s := range found {
			families[s.Metric["__name__"]] = append(families[s.Metric["__name__"]], s)
		}
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	defer out.Close()
	packed := gzip.NewWriter(out)
	text := bufio.NewWriter(packed)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, s := range families[name] {
			s.write(text, end)
		}
	}
	fmt.Fprintln(text, "# EOF")
	return errors.Join(text.Flush(), packed.Close(), out.Close())
}

func (d *demo) samples(ctx context.Context, selector string, end time.Time) ([]sampled, error) {
	window := strconv.Itoa(int(scaledMinutes(70)/time.Second)) + "s"
	query := url.Values{"query": {selector + "[" + window + "]"}, "time": {strconv.FormatFloat(seconds(end), 'f', 3, 64)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.alerts.Prometheus+"/api/v1/query", strings.NewReader(query.Encode()))
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading Prometheus: %w", err)
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []sampled }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("reading Prometheus' answer: %w", err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("reading %s: %s", selector, answer.Error)
	}
	return answer.Data.Result, nil
}

// Samples of a recording are 25 seconds apart; unchanged ones further, but less
// than the five minutes after which Prometheus calls a series stale.
const (
	changing = 25 * time.Second
	constant = 3 * time.Minute
)

// timestamps are series whose value is a time.
var timestamps = regexp.MustCompile(`_timestamp_seconds$|^ALERTS_FOR_STATE$`)

// write writes the series in stretched time. Unchanged samples are thinned.
func (s sampled) write(out io.Writer, end time.Time) {
	name := s.Metric["__name__"]
	var pairs []string
	for _, label := range slices.Sorted(maps.Keys(s.Metric)) {
		if label != "__name__" {
			pairs = append(pairs, label+"="+strconv.Quote(s.Metric[label]))
		}
	}
	head := name + "{" + strings.Join(pairs, ",") + "} "
	var last string
	var written time.Time
	for i, v := range s.Values {
		value, t := v[1].(string), stretched(v[0].(float64), end)
		switch {
		case name == snapshotTaken:
			value = aged(value, v[0].(float64), t)
		case timestamps.MatchString(name):
			value = stretchedValue(value, end)
		}
		since := t.Sub(written)
		if i < len(s.Values)-1 && (since < changing || value == last && since < constant) {
			continue
		}
		last, written = value, t
		fmt.Fprintf(out, "%s%s %d\n", head, value, t.Unix())
	}
}

// snapshotTaken is the time of the auditor's newest data, whose age is not
// stretched: alerts and boards compare it with minutes.
const snapshotTaken = "webhook_auditor_snapshot_timestamp_seconds"

// aged is the time that lies as far before t as the value before the sample.
func aged(value string, sampled float64, t time.Time) string {
	taken, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return value
	}
	return strconv.FormatFloat(seconds(t)-(sampled-taken), 'f', 3, 64)
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// stretched is when the recording says that something happened.
func stretched(at float64, end time.Time) time.Time {
	back := (seconds(end) - at) / recordScale
	return recordedEnd.Add(-time.Duration(back * float64(time.Second)))
}

// stretchedValue is the time a sample's value stands for. What lies in the
// future is as far from the end as it was.
func stretchedValue(value string, end time.Time) string {
	at, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(at) {
		return value
	}
	if ahead := at - seconds(end); ahead > 0 {
		return strconv.FormatFloat(seconds(recordedEnd)+ahead, 'f', 0, 64)
	}
	return strconv.FormatInt(stretched(at, end).Unix(), 10)
}
