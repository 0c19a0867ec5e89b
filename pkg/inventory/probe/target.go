package probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// backend identifies what is dialed once, whatever the number of webhooks that
// call it.
type backend struct {
	// address is "host:port", with the server name for a host.
	address string
	// bundles stands for the set of their CA bundles.
	bundles digest
}

// digest stands for a CA bundle, or a set of them.
type digest [sha256.Size]byte

// target is a backend with what is needed to dial it.
type target struct {
	backend
	serverName string
	// addresses are where it is found; only for those of a Service they are
	// more than one.
	addresses []string
	// ready stands for the ready endpoints behind the port.
	ready string
	// ofService says that it is a Service, not a URL.
	ofService bool
	// inner says that the address is a name of the cluster's own DNS, which the
	// API server never asks.
	inner bool
	// turn counts the dials before: each goes to the next of several addresses.
	// unwell counts those since the last that found the backend well.
	turn, unwell int
	// settling says that all its endpoints are others than at the last dial: the network may
	// still lead to the old ones, so that it is dialed soon again.
	settling bool
	callers  []caller
}

// caller is a webhook that calls a backend.
type caller struct {
	inventory.Ref
	bundle []byte
	digest digest
}

// targets returns the backends that are worth a dial: what the objects show to
// be broken needs none.
func (o Options) targets(s *inventory.Snapshot) []target {
	var out []target
	index := map[string]int{}
	for i := range s.Webhooks {
		w := s.Webhooks[i]
		t, ok := o.target(s, w.Backend)
		if !ok {
			continue
		}
		at, seen := index[t.address]
		if !seen {
			at = len(out)
			index[t.address] = at
			if t.ofService {
				t.ready = strings.Join(endpointAddresses(s.Services[w.Backend.Service.Key], w.Backend.Service.Port), ",")
			}
			out = append(out, t)
		}
		bundle := w.Backend.CABundle
		out[at].callers = append(out[at].callers, caller{w.Ref, bundle, sha256.Sum256(bundle)})
	}
	for i := range out {
		out[i].bundles = bundlesOf(out[i].callers)
	}
	return out
}

func (o Options) target(s *inventory.Snapshot, b inventory.Backend) (target, bool) {
	switch {
	case b.Kind == inventory.BackendURL:
		return urlTarget(b, o.URLs)
	case b.Kind == inventory.BackendAPIServer, s.State(b).Fault != inventory.Sound:
		return target{}, false // the API server trusts itself
	}
	t := named(b.ServerName(), b.Service.Port)
	t.ofService = true
	if addresses := addressesOf(s, b.Service); addresses != nil {
		t.addresses = addresses
	} else {
		t.addresses, t.inner = []string{t.address}, true
	}
	return t, true
}

// urlTarget is that of a URL, if it was asked for. On a loopback address the
// auditor would meet another host than the API server does.
func urlTarget(b inventory.Backend, asked bool) (target, bool) {
	u, err := url.Parse(b.URL)
	if !asked || err != nil || u.Hostname() == "" || b.Loopback() {
		return target{}, false
	}
	port := 443
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return target{}, false
		}
	}
	t := named(u.Hostname(), int32(port))
	t.addresses = []string{t.address}
	return t, true
}

func named(serverName string, port int32) target {
	return target{
		backend:    backend{address: net.JoinHostPort(serverName, strconv.Itoa(int(port)))},
		serverName: serverName,
	}
}

// bundlesOf stands for the set of the callers' CA bundles.
func bundlesOf(callers []caller) digest {
	set := map[digest]bool{}
	for _, c := range callers {
		set[c.digest] = true
	}
	h := sha256.New()
	for _, d := range slices.SortedFunc(maps.Keys(set), func(a, b digest) int { return bytes.Compare(a[:], b[:]) }) {
		h.Write(d[:])
	}
	return digest(h.Sum(nil))
}

// outcome is what one dial showed to all that call the backend.
type outcome struct {
	inventory.Probe
	// address is what was dialed: it says nothing of an endpoint that came later. ready
	// stands for those endpoints that were ready then.
	address, ready string
	// again is when to dial again.
	again time.Time
	// unrouted says that the auditor's own place may be to blame.
	unrouted bool
	// certificates are what each CA bundle makes of the one that was shown.
	certificates map[digest]*inventory.ServingCertificate
	// turn counts the dials, unwell those since the last that found the backend well.
	turn, unwell int
}

// failed reports whether the dial showed that the backend cannot be called, now or by
// some of its callers.
func (o outcome) failed() bool {
	if o.Answer == inventory.AnswerNone {
		return false
	}
	for _, c := range o.certificates {
		if c.Untrusted != "" || c.Misnamed != "" || o.At.After(c.NotAfter) || o.At.Before(c.NotBefore) {
			return true
		}
	}
	return o.Answer != inventory.AnswerTLS
}

// dialAll dials the targets, some at a time, and returns what each showed.
func (o Options) dialAll(ctx context.Context, targets []target) []outcome {
	out := make([]outcome, len(targets))
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	for i, t := range targets {
		slots <- struct{}{}
		group.Go(func() {
			out[i] = o.dial(ctx, t)
			<-slots
		})
	}
	group.Wait()
	return out
}

// probes are the facts of each webhook whose backend was dialed.
func probes(targets []target, outcomes map[backend]outcome) map[inventory.Ref]inventory.Probe {
	lost := cutOff(targets, outcomes)
	out := map[inventory.Ref]inventory.Probe{}
	for _, t := range targets {
		seen, ok := outcomes[t.backend]
		if !ok {
			continue
		}
		for _, c := range t.callers {
			probe := seen.Probe
			probe.Certificate = seen.certificates[c.digest]
			if lost && seen.unrouted {
				probe.Answer = inventory.AnswerNone
			}
			out[c.Ref] = probe
		}
	}
	return out
}

// cutOff reports whether the auditor itself is cut off, as a laptop outside the
// cluster is: of several backends that are called none can be found. Older outcomes
// say nothing: one of them may be of the same backend with other CA bundles.
func cutOff(targets []target, outcomes map[backend]outcome) bool {
	lost := 0
	for _, t := range targets {
		switch seen, ok := outcomes[t.backend]; {
		case !ok:
		case seen.unrouted:
			lost++
		case seen.Answer != inventory.AnswerNone:
			return false
		}
	}
	return lost > 1
}
