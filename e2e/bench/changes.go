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
func (c *filled) measureChanges(ctx context.Context, o options, r *running, to *column) error {
	namespace, name := c.size.service(1)
	for _, kind := range []struct {
		row    string
		query  *string
		change func(context.Context, int) error
	}{
		{"change of a configuration → visible", r.configuration, c.changeTimeout},
		{"last endpoint → visible", r.endpoint, func(ctx context.Context, i int) error {
			_, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Update(ctx, endpointSlice(name, i%2 == 1), metav1.UpdateOptions{})
			return err
		}},
	} {
		if kind.query == nil || o.changes == 0 {
			continue
		}
		delays, err := delays(ctx, o.changes, r.url+*kind.query, kind.change)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.row, err)
		}
		to.addDelays(kind.row, delays)
	}
	if o.changes == 0 {
		return nil
	}
	return errors.Join(c.measureFirstScrapes(ctx, o, r, to), c.measureReferences(ctx, o, r, to), c.measureMany(ctx, r, to))
}

// measureFirstScrapes is what the first scrape after a change takes, which has what later
// ones find ready.
func (c *filled) measureFirstScrapes(ctx context.Context, o options, r *running, to *column) error {
	if r.configuration == nil {
		return nil
	}
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
	to.addDelays("first compressed scrape after a change", took)
	to.add("CPU of that first scrape, ms", 1000*cpu/float64(o.changes))
	return nil
}

func (c *filled) changeTimeout(ctx context.Context, i int) error {
	return c.patch(ctx, fmt.Sprintf(`[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":%d}]`, 5+i%2))
}

// patch changes a configuration that is validating in every profile.
func (c *filled) patch(ctx context.Context, patch string) error {
	_, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Patch(ctx, configurationName(1), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// measureReferences makes a webhook refer to a Service that none referred to, and
// back.
func (c *filled) measureReferences(ctx context.Context, o options, r *running, to *column) error {
	if r.reference == nil {
		return nil
	}
	const spare = "spare"
	namespace, name := c.size.service(1)
	if err := c.createService(ctx, namespace, spare, ""); err != nil {
		return err
	}
	delays, err := delays(ctx, o.changes, r.url+*r.reference, func(ctx context.Context, i int) error {
		to := []string{spare, name}[i%2]
		return c.patch(ctx, fmt.Sprintf(`[{"op":"replace","path":"/webhooks/0/clientConfig/service","value":{"namespace":%q,"name":%q,"path":"/validate"}}]`, namespace, to))
	})
	if err != nil {
		return fmt.Errorf("a new reference: %w", err)
	}
	to.addDelays("new reference → visible", delays)
	return errors.Join(
		c.kube.CoreV1().Services(namespace).Delete(ctx, spare, metav1.DeleteOptions{}),
		c.kube.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, spare, metav1.DeleteOptions{}),
	)
}

// measureMany is the CPU of many changes one after another.
func (c *filled) measureMany(ctx context.Context, r *running, to *column) error {
	cpu := cpuSeconds(r.process.PID())
	for i := range many {
		if err := c.changeTimeout(ctx, i); err != nil {
			return err
		}
		if err := sleep(ctx, pace); err != nil {
			return err
		}
	}
	to.add(fmt.Sprintf("CPU of %d changes, one each %s, s", many, pace), cpuSeconds(r.process.PID())-cpu)
	return nil
}

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
