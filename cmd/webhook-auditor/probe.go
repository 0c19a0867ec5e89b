package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/probe"
)

// probeFlags say whether backends are dialed.
type probeFlags struct {
	mode string
	urls bool
}

func (p *probeFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&p.mode, "probe", "off", "whether to dial the Services of webhooks from here, as the API server does, and look at their certificates: off or tls")
	flags.BoolVar(&p.urls, "probe.urls", false, "with --probe=tls, dial the webhooks that are URLs as well")
}

func (p *probeFlags) check() error {
	switch {
	case p.mode != "off" && p.mode != "tls":
		return usageError{fmt.Errorf("--probe %q: want off or tls", p.mode)}
	case p.mode == "off" && p.urls:
		return usageError{errors.New("--probe.urls: want --probe=tls with it")}
	}
	return nil
}

// needsCluster refuses to dial for files: they were written elsewhere, and
// maybe for another cluster than the one that would answer.
func (p *probeFlags) needsCluster(paths []string) error {
	if p.mode == "off" || len(paths) == 0 {
		return nil
	}
	return usageError{errors.New("--probe=tls: files have nothing to dial: audit a cluster, without a PATH")}
}

// join puts a Prober in front of publish, where one is wanted.
func (p *probeFlags) join(ctx context.Context, group *errgroup.Group, publish func(*inventory.Snapshot)) func(*inventory.Snapshot) {
	if p.mode == "off" {
		return publish
	}
	prober := probe.New(probe.Options{URLs: p.urls}, publish)
	group.Go(func() error { return prober.Run(ctx) })
	return prober.Publish
}

// look dials each backend once, and says which of them told nothing: no
// finding of theirs means no more than that.
func (p *probeFlags) look(ctx context.Context, s *inventory.Snapshot, streams streams) (*inventory.Snapshot, error) {
	if p.mode == "off" {
		return s, nil
	}
	line := newProgress(streams.err)
	line.show("dialing the backends of %d webhooks", len(s.Webhooks))
	s = probe.Look(ctx, s, probe.Options{URLs: p.urls})
	line.clear()
	silent := 0
	for _, found := range s.Probes {
		if !found.Known() {
			silent++
		}
	}
	if silent > 0 {
		fmt.Fprintf(streams.err, "probe: the backends of %d of %d webhooks tell nothing from here: they may be fine\n", silent, len(s.Probes))
	}
	return s, ctx.Err()
}
