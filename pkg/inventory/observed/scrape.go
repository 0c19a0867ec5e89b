package observed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// scrapeLimit is how long one scrape may take, from the dial to the last byte.
// Prometheus gives up after as long by default.
const scrapeLimit = 10 * time.Second

// Scrape is what an API server served at one time, or why nothing could be read.
type Scrape struct {
	address    string
	scrapeTime time.Time
	exposition
	err error
}

// ScrapeAll scrapes the API servers one after the other: what one serves may be much.
func ScrapeAll(ctx context.Context, targets []inventory.MetricsServer) []Scrape {
	return lists.Map(targets, func(target inventory.MetricsServer) Scrape { return scrape(ctx, target) })
}

// scrape asks once. The API server collects before it answers, so that what it
// sends is of the time of its first byte.
func scrape(ctx context.Context, t inventory.MetricsServer) Scrape {
	ctx, cancel := context.WithTimeoutCause(ctx, scrapeLimit, fmt.Errorf("no answer within %s", scrapeLimit))
	defer cancel()
	s := Scrape{address: t.Address}
	body, err := t.Fetch(ctx)
	if err != nil {
		s.err = timedOut(ctx, err)
		return s
	}
	defer body.Close()
	s.scrapeTime = time.Now()
	s.exposition, err = parse(body)
	s.err = timedOut(ctx, err)
	return s
}

// timedOut returns the limit as the error where that is what ended a call.
func timedOut(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// errOther says that a load balancer chose another API server.
var errOther = errors.New("the two scrapes were answered by different API servers behind this address: repeat the command, or name one API server in the kubeconfig")

// Difference is what happened between two scrapes of the same targets. The
// errors name the targets of which one could not be read; the Observation is nil
// where none could.
func Difference(before, after []Scrape) (*inventory.Observation, []inventory.Error) {
	var errs []inventory.Error
	o := &inventory.Observation{Source: "apiserver"}
	all := statsByWebhook{}
	for i := range after {
		server, err := all.between(before[i], after[i])
		if err != nil {
			errs = append(errs, inventory.Error{Object: "metrics of API server " + after[i].address, Message: err.Error()})
			continue
		}
		o.Servers = append(o.Servers, server)
	}
	if len(o.Servers) == 0 {
		return nil, errs
	}
	all.fill(o)
	return o, errs
}

func (t statsByWebhook) between(before, after Scrape) (inventory.ObservedServer, error) {
	err := after.err
	if err == nil {
		err = before.err
	}
	if err != nil {
		return inventory.ObservedServer{}, shortened(err)
	}
	server := inventory.ObservedServer{
		Address: after.address, From: before.scrapeTime.UTC(), To: after.scrapeTime.UTC(),
	}
	past := before.samples
	switch {
	case after.started.Equal(before.started):
	case after.started.After(before.scrapeTime):
		server.From, server.Restarted, past = after.started.UTC(), true, nil
	default:
		return inventory.ObservedServer{}, errOther
	}
	span := server.To.Sub(server.From).Seconds()
	if span <= 0 {
		return inventory.ObservedServer{}, errors.New("no time passed between its scrapes")
	}
	for id, s := range after.samples {
		value := s.Value
		if before, counted := past[id]; counted && before.Value <= value { // else the counter started anew
			value -= before.Value
		}
		t.count(s.Metric, float64(value), span)
	}
	return server, nil
}

// APIServers scrapes the targets twice, a span apart. The scrapes are the second ones
// that could be read.
func APIServers(ctx context.Context, targets []inventory.MetricsServer,
	span time.Duration,
) (*inventory.Observation, []Scrape, []inventory.Error) {
	before := ScrapeAll(ctx, targets)
	if err := pause(ctx, before, span); err != nil {
		return nil, nil, []inventory.Error{{Object: "metrics of the API server", Message: err.Error()}}
	}
	after := ScrapeAll(ctx, targets)
	o, errs := Difference(before, after)
	return o, slices.DeleteFunc(after, func(s Scrape) bool { return s.err != nil }), errs
}

// pause waits for the span, unless there is nothing to wait for.
func pause(ctx context.Context, before []Scrape, span time.Duration) error {
	if !slices.ContainsFunc(before, func(s Scrape) bool { return s.err == nil }) {
		return nil
	}
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
