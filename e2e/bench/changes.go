package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// isolation is the time without a change before the next one, and pace that
	// between two changes of many.
	isolation = 300 * time.Millisecond
	pace      = 120 * time.Millisecond
	many      = 200
)

// measureChanges changes a webhook and what is behind one over and over, and
// measures the time from the answer of the API server until /metrics shows it.
func (c *filled) measureChanges(ctx context.Context, o options, r *running, results *column) error {
	if o.changes == 0 {
		return nil
	}
	namespace, name := c.size.service(1)
	for _, kind := range []struct {
		row    string
		query  string
		change func(context.Context, int) error
	}{
		{"change of a configuration → visible", r.configuration, c.changeTimeout},
		{"last endpoint → visible", r.endpoint, func(ctx context.Context, i int) error {
			patch := fmt.Appendf(nil, `[{"op":"replace","path":"/endpoints/0/conditions/ready","value":%t}]`, i%2 == 1)
			_, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
			return err
		}},
	} {
		delays, err := delays(ctx, o.changes, r.url+kind.query, kind.change)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.row, err)
		}
		results.addDelays(kind.row, delays)
	}
	return errors.Join(c.measureFirstScrapes(ctx, o, r, results), c.measureMany(ctx, r, results), c.measurePodChanges(ctx, r, results))
}

// measureFirstScrapes is what the first scrape after a change takes, which has what later
// ones find ready.
func (c *filled) measureFirstScrapes(ctx context.Context, o options, r *running, results *column) error {
	var took []time.Duration
	cpu := 0.0
	for i := range o.changes {
		if err := errors.Join(c.changeTimeout(ctx, i), sleep(ctx, isolation)); err != nil {
			return err
		}
		before, began := cpuSeconds(r.process.PID()), time.Now()
		if err := scrape(ctx, r.url); err != nil {
			return err
		}
		took = append(took, time.Since(began))
		cpu += cpuSeconds(r.process.PID()) - before
	}
	results.addDelays("first compressed scrape after a change", took)
	results.add("CPU of that first scrape, ms", 1000*cpu/float64(o.changes))
	return nil
}

func (c *filled) changeTimeout(ctx context.Context, i int) error {
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":%d}]`, 5+i%2)
	_, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Patch(ctx, configurationName(1), types.JSONPatchType, patch, metav1.PatchOptions{})
	return err
}

// measureMany is the CPU of many changes one after another.
func (c *filled) measureMany(ctx context.Context, r *running, results *column) error {
	cpu := cpuSeconds(r.process.PID())
	for i := range many {
		if err := c.changeTimeout(ctx, i); err != nil {
			return err
		}
		if err := sleep(ctx, pace); err != nil {
			return err
		}
	}
	results.add(fmt.Sprintf("CPU of %d changes, one each %s, s", many, pace), cpuSeconds(r.process.PID())-cpu)
	return nil
}

// measurePodChanges is what changes of Pods cost, as kubelets make them: by their status, which
// no webhook of the profile is called for.
func (c *filled) measurePodChanges(ctx context.Context, r *running, results *column) error {
	rate := c.size.PodChanges
	if rate == 0 {
		return nil
	}
	const seconds = 60
	cpu := cpuSeconds(r.process.PID())
	for i := range rate * seconds {
		namespace, name := c.size.pod(i % c.size.Pods)
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":"%d"}},"status":{"conditions":[{"type":"Ready","status":"%s"}]}}`, i, readiness[i%2])
		if _, err := c.kube.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
		if err := sleep(ctx, time.Second/time.Duration(rate)); err != nil {
			return err
		}
	}
	results.add(fmt.Sprintf("CPU of %d changes of Pods, %d a second, s", rate*seconds, rate), cpuSeconds(r.process.PID())-cpu)
	results.add("RSS after them, MiB", memory(r.process.PID(), "VmRSS"))
	return nil
}

var readiness = []string{"False", "True"}

func delays(ctx context.Context, n int, url string, change func(context.Context, int) error) ([]time.Duration, error) {
	var out []time.Duration
	for i := range n {
		if err := sleep(ctx, isolation); err != nil {
			return nil, err
		}
		before, err := fetch(ctx, url)
		if err != nil {
			return nil, err
		}
		if err := change(ctx, i); err != nil {
			return nil, err
		}
		acknowledged := time.Now()
		err = await(func() (bool, error) {
			now, err := fetch(ctx, url)
			return !bytes.Equal(before, now), err
		})
		if err != nil {
			return nil, fmt.Errorf("change %d: %w", i, err)
		}
		out = append(out, time.Since(acknowledged))
	}
	return out, nil
}
