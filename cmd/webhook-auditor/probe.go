package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/probe"
)

type probeFlags struct {
	mode string
	urls bool
}

func (p *probeFlags) options(config *rest.Config) probe.Options {
	own := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")) // in a Pod
	return probe.Options{URLs: p.urls, Outside: config.Host != own}
}

func (p *probeFlags) register(flags *pflag.FlagSet) {
	enumFlag(flags, &p.mode, "probe", "", "dial the Services of webhooks from this host, as the API server does, and verify their certificates", []string{"off", "tls"})
	flags.BoolVar(&p.urls, "probe.urls", false, "with --probe=tls, dial webhooks that are URLs as well")
}

// check refuses to dial for files: they may be of another cluster than the one that would
// answer.
func (p *probeFlags) check(paths []string) error {
	switch {
	case p.mode != "tls" && p.urls:
		return usageError{errors.New("--probe.urls: must be given with --probe=tls")}
	case p.mode == "tls" && len(paths) > 0:
		return usageError{errors.New("--probe=tls: must be given without a PATH: backends of files cannot be dialed")}
	}
	return nil
}

// join puts a Prober in front of publish, where one is wanted.
func (p *probeFlags) join(ctx context.Context, group *errgroup.Group, o probe.Options,
	publish func(*admission.Matcher),
) func(*admission.Matcher) {
	if p.mode != "tls" {
		return publish
	}
	prober := probe.New(o, publish)
	group.Go(func() error { return prober.Run(ctx) })
	return prober.Publish
}

// dial dials each backend once, and prints how many could not be checked: their
// webhooks have no findings of the probe.
func (p *probeFlags) dial(ctx context.Context, access *clusterFlags, s *inventory.Snapshot,
	streams streams,
) (*inventory.Snapshot, error) {
	if p.mode != "tls" {
		return s, nil
	}
	config, err := access.config()
	if err != nil {
		return nil, err
	}
	line := newProgress(streams.err)
	line.show("dialing the backends of %d webhooks", len(s.Webhooks))
	s = probe.Look(ctx, s, p.options(config))
	line.clear()
	silent := 0
	for _, found := range s.Probes {
		if found.Answer == inventory.AnswerNone {
			silent++
		}
	}
	if silent > 0 {
		fmt.Fprintf(streams.err, "probe: %d of %d backends could not be checked from this host\n", silent, len(s.Probes))
	}
	return s, ctx.Err()
}
