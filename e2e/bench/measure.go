package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

const (
	startTime = "exec → first complete /metrics, s"
	serverCPU = "API server CPU of the start, s"
	startCPU  = "CPU of the start, s"
	scrapeCPU = "CPU of that scrape, ms"

	settledMemory = "settled RSS, MiB"
	peakMemory    = "peak RSS, MiB"
	watchesRow    = "watches"
	seriesRow     = "series"

	// timeout bounds every wait.
	timeout = 3 * time.Minute
	// glance is the pause between two requests while something is awaited.
	glance = 2 * time.Millisecond
)

// measure starts a program, changes what it follows, and stops it.
func (c *filled) measure(ctx context.Context, o options, p program, results *column) (err error) {
	server := c.plane.APIServer.PID()
	streams, err := c.watches(ctx)
	if err != nil {
		return err
	}
	cpu, began := cpuSeconds(server), time.Now()
	r, err := c.start(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.awaitComplete(ctx); err != nil {
		return err
	}
	results.add(startTime, time.Since(began).Seconds())
	results.add(serverCPU, cpuSeconds(server)-cpu)
	pid := r.process.PID()
	results.add(startCPU, cpuSeconds(pid))
	if err := sleep(ctx, o.settle); err != nil {
		return err
	}
	results.add(settledMemory, memory(pid, "VmRSS"))
	now, err := c.watches(ctx)
	if err != nil {
		return err
	}
	results.add(watchesRow, now-streams)
	if err := r.measureScrapes(ctx, results); err != nil {
		return err
	}
	if err := c.measureChanges(ctx, o, r, results); err != nil {
		return err
	}
	results.add(peakMemory, memory(pid, "VmHWM"))
	return nil
}

// measureScrapes fetches all of /metrics, as Prometheus does: compressed.
func (r *running) measureScrapes(ctx context.Context, results *column) error {
	const scrapes = 10
	body, err := fetch(ctx, r.url)
	if err != nil {
		return err
	}
	series := bytes.Count(body, []byte("\n")) - bytes.Count(body, []byte("\n#"))
	results.add(seriesRow, float64(series))
	cpu, began := cpuSeconds(r.process.PID()), time.Now()
	for range scrapes {
		if err := scrape(ctx, r.url); err != nil {
			return err
		}
	}
	each := 1000 * 1000 / float64(series*scrapes) // in milliseconds for 1,000 series
	results.add("scrape of 1,000 series, ms", time.Since(began).Seconds()*each)
	results.add(scrapeCPU, (cpuSeconds(r.process.PID())-cpu)*each)
	return nil
}

// scrape asks for the metrics as Prometheus does, compressed, and reads the answer
// to its end: what a client makes of it is not measured.
func scrape(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept-Encoding", "gzip") // set by hand, the transport leaves the answer as it is
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func await(holds func() (bool, error)) error {
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(glance) {
		if ok, err := holds(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("not visible after %s", timeout)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	return web.Get(ctx, http.DefaultClient, url)
}

// watches is the number of watches that the API server has open. A server that is
// overloaded may take several attempts.
func (c *filled) watches(ctx context.Context) (float64, error) {
	var body []byte
	err := await(func() (bool, error) {
		var err error
		body, err = c.kube.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Do(ctx).Raw()
		return err == nil, ctx.Err()
	})
	if err != nil {
		return 0, err
	}
	const requests = "apiserver_longrunning_requests"
	open, err := metrics.ParseOf(regexp.MustCompile(requests), body)
	return open.Select(requests, metrics.Labels{"verb": "WATCH"}).Sum(), err
}
