package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// dialer refuses all dials, or fails or answers them, and remembers them.
type dialer struct {
	mu     sync.Mutex
	dialed []string
	err    error
	answer *tls.Config
}

// be answers the next dials so; nil refuses them.
func (d *dialer) be(answer *tls.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
}

func (d *dialer) dial(_ context.Context, _, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dialed = append(d.dialed, address)
	if d.err != nil {
		return nil, d.err
	}
	if d.answer != nil {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			server := tls.Server(far, d.answer)
			if server.Handshake() == nil {
				_, _ = io.Copy(io.Discard, server)
			}
		}()
		return near, nil
	}
	return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
}

// lasting is a good certificate of the Service for all of a test.
func (a authority) lasting(t *testing.T) *tls.Config {
	return a.config(t, hook, -time.Hour, 24*time.Hour)
}

// take returns what was dialed since the last time.
func (d *dialer) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.dialed
	d.dialed = nil
	return out
}

// board holds what was published last.
type board struct {
	mu   sync.Mutex
	last *inventory.Snapshot
	n    int
}

func (b *board) publish(m *admission.Matcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.n = m.Snapshot, b.n+1
}

func (b *board) probes() map[inventory.Ref]inventory.Probe {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last.Probes
}

// running runs a Prober until the end of the bubble's test, and returns how objects are published.
func running(t *testing.T, d *dialer, b *board) func(inventory.Objects) {
	p := New(Options{Dial: d.dial}, b.publish)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
	return func(o inventory.Objects) { p.Publish(admission.New(o.Snapshot(time.Now()))) }
}

func (d *dialer) want(t *testing.T, addresses ...string) {
	t.Helper()
	synctest.Wait()
	expect.Equal(t, addresses, d.take())
}

// TestOneDial: a backend is dialed once an interval, whatever the number of its
// webhooks and of the Snapshots.
func TestOneDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		d, b := &dialer{answer: ours.lasting(t)}, &board{}
		publish := running(t, d, b)
		many := slices.Repeat([][]byte{ours.Bundle}, 100)
		for range 3 {
			publish(objects(t, many, "10.0.0.1:8443"))
			synctest.Wait()
		}
		d.want(t, "10.0.0.1:8443")
		if len(b.probes()) != 100 {
			t.Errorf("%d webhooks have a probe, want all 100", len(b.probes()))
		}
		time.Sleep(5*time.Minute - time.Second)
		d.want(t)
		time.Sleep(5*time.Minute/5 + 2*time.Second)
		d.want(t, "10.0.0.1:8443")
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if n := len(d.take()); n < 8 || n > 10 {
			t.Errorf("dialed %d times in 50 minutes, want once in 5 to 6", n)
		}
	})
}

// TestInconclusive: a backend that gave no answer is dialed again soon, then
// less and less often, and once it answers at each interval.
func TestInconclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		d, b := &dialer{err: context.DeadlineExceeded, answer: ours.lasting(t)}, &board{}
		publish := running(t, d, b)
		publish(objects(t, [][]byte{ours.Bundle}, "10.0.0.1:8443"))
		d.want(t, "10.0.0.1:8443")
		if b.probes()[ref(0)].Answer != inventory.AnswerNone {
			t.Errorf("the probe is %+v, want one without a result", b.probes()[ref(0)])
		}
		for _, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			time.Sleep(pause*6/5 + time.Millisecond)
			d.want(t, "10.0.0.1:8443")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(d.take()); n < 11 || n > 18 {
			t.Errorf("dialed %d times in an hour, want 5 more to reach the interval, then once in 5 to 6 minutes", n)
		}
		d.mu.Lock()
		d.err = nil
		d.mu.Unlock()
		for range 6*60 + 1 {
			if synctest.Wait(); len(d.take()) > 0 {
				break
			}
			time.Sleep(time.Second)
		}
		if b.probes()[ref(0)].Answer == inventory.AnswerNone {
			t.Errorf("the probe is %+v, want an answer", b.probes()[ref(0)])
		}
		time.Sleep(5*time.Minute - 2*time.Second)
		d.want(t)
	})
}

// TestChanges: another CA bundle is checked at once, and a backend that failed before it
// went once it is back.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := &dialer{answer: newAuthority(t).lasting(t)}, &board{}
		publish := running(t, d, b)
		with := func(bundles ...string) inventory.Objects {
			var all [][]byte
			for _, bundle := range bundles {
				all = append(all, []byte(bundle))
			}
			return objects(t, all, "10.0.0.1:8443")
		}
		publish(with("a"))
		d.want(t, "10.0.0.1:8443")
		publish(with("b"))
		d.want(t, "10.0.0.1:8443")
		publish(with("a", "b", "b"))
		d.want(t, "10.0.0.1:8443")
		publish(with("b", "a"))
		d.want(t)
		publish(objects(t, [][]byte{[]byte("a")})) // no endpoints
		synctest.Wait()
		if len(b.probes()) != 0 {
			t.Errorf("probes %v of a backend that is gone", b.probes())
		}
		publish(with("b", "a"))
		d.want(t, "10.0.0.1:8443")
		if len(b.probes()) != 2 {
			t.Errorf("probes are %v, want those of the backend that is back", b.probes())
		}
	})
}

// TestTurns: of several endpoints, each dial goes to the next.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		d, b := &dialer{answer: ours.lasting(t)}, &board{}
		publish := running(t, d, b)
		publish(objects(t, [][]byte{ours.Bundle}, "10.0.0.2:8443", "10.0.0.1:8443"))
		d.want(t, "10.0.0.1:8443")
		time.Sleep(6*time.Minute + time.Second)
		d.want(t, "10.0.0.2:8443")
		time.Sleep(6*time.Minute + time.Second)
		d.want(t, "10.0.0.1:8443")
	})
}

// TestMoved: what a dial showed counts for the endpoint that was dialed, so a
// backend that is elsewhere is dialed at once, and one that is well and has more or fewer
// other endpoints is not.
func TestMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		d, b := &dialer{answer: ours.healthy(t)}, &board{}
		publish := running(t, d, b)
		at := func(addresses ...string) {
			publish(objects(t, [][]byte{ours.Bundle}, addresses...))
		}
		at("10.0.0.1:8443")
		d.want(t, "10.0.0.1:8443")
		at("10.0.0.2:8443")
		d.want(t, "10.0.0.2:8443")
		at("10.0.0.2:9443")
		d.want(t, "10.0.0.2:9443")
		at("10.0.0.1:9443", "10.0.0.2:9443", "10.0.0.3:9443")
		d.want(t)
		at("10.0.0.2:9443", "10.0.0.3:9443")
		d.want(t)
		at() // none is ready
		d.want(t)
		at("10.0.0.2:9443")
		d.want(t)
		at("10.0.0.3:9443")
		d.want(t, "10.0.0.3:9443")
	})
}

// TestRecovered: a failed dial of a cluster IP, which never moves, is forgotten once other
// endpoints are ready, and else dialed again within a minute.
func TestRecovered(t *testing.T) {
	for _, name := range []string{"refused", "expired", "not valid yet", "misnamed", "of another one"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours := newAuthority(t)
				config := ours.lasting(t)
				failing := map[string]*tls.Config{
					"expired":        ours.config(t, hook, -2*time.Hour, -time.Hour),
					"not valid yet":  ours.config(t, hook, 1000*time.Hour, 2000*time.Hour),
					"misnamed":       ours.config(t, "hook.other.svc", -time.Hour, 1000*time.Hour),
					"of another one": newAuthority(t).lasting(t),
				}[name]
				d, b := &dialer{answer: failing}, &board{}
				publish := running(t, d, b)
				at := func(addresses ...string) {
					o := objects(t, [][]byte{ours.Bundle}, addresses...)
					o.Routing, o.Services[0].Spec.ClusterIP = inventory.RoutingClusterIP, "10.96.0.7"
					publish(o)
				}
				well := func() bool { return succeeds(b.probes()[ref(0)], time.Now()) }
				at("10.0.0.1:8443")
				d.want(t, "10.96.0.7:443")
				d.be(config)
				at("10.0.0.2:8443")
				d.want(t, "10.96.0.7:443")
				if !well() {
					t.Errorf("with another endpoint the probe is %+v", b.probes()[ref(0)])
				}
				at("10.0.0.2:8443", "10.0.0.3:8443")
				d.want(t)
				at("10.0.0.2:9443") // the Service has another targetPort, of which the network learns a little later
				d.want(t, "10.96.0.7:443")
				time.Sleep(firstRetry)
				d.want(t, "10.96.0.7:443")
				d.be(failing)
				time.Sleep(7 * time.Minute)
				synctest.Wait()
				if well() || len(d.take()) < 2 {
					t.Errorf("broken again, the probe is %+v", b.probes()[ref(0)])
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				d.be(config)
				time.Sleep(longestRetry*6/5 + time.Second)
				synctest.Wait()
				if !well() {
					t.Errorf("healed after an hour, the probe is %+v", b.probes()[ref(0)])
				}
			})
		})
	}
}

// TestAddresses: the probe goes where the API server goes.
func TestAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*inventory.Objects)
		want   []string
	}{
		"endpoints":  {func(*inventory.Objects) {}, []string{"10.0.0.1:8443"}},
		"cluster IP": {func(o *inventory.Objects) { o.Routing, o.Services[0].Spec.ClusterIP = "", "10.96.0.7" }, []string{"10.96.0.7:443"}},
		"IPv6":       {func(o *inventory.Objects) { o.Routing, o.Services[0].Spec.ClusterIP = "", "fd00::7" }, []string{"[fd00::7]:443"}},
		"headless":   {func(o *inventory.Objects) { o.Services[0].Spec.ClusterIP = "None" }, []string{"10.0.0.1:8443"}},
		"external name": {func(o *inventory.Objects) {
			o.Routing, o.Services[0].Spec.Type, o.Services[0].Spec.ExternalName = inventory.RoutingClusterIP, "ExternalName", "hooks.example.com"
		}, []string{"hooks.example.com:443"}},
		"unknown Service":   {func(o *inventory.Objects) { o.Services = nil }, []string{"hook.policy.svc:443"}},
		"missing Service":   {func(o *inventory.Objects) { o.Services, o.ServicesKnown.All = nil, true }, nil},
		"missing port":      {func(o *inventory.Objects) { o.Services[0].Spec.Ports[0].Port = 444 }, nil},
		"no ready endpoint": {func(o *inventory.Objects) { o.EndpointSlices[0].Endpoints[0].Conditions.Ready = new(false) }, nil},
		"the API server": {func(o *inventory.Objects) {
			o.Validating[0].Webhooks[0].ClientConfig.Service = &admissionv1.ServiceReference{Namespace: "default", Name: "kubernetes"}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := objects(t, [][]byte{nil}, "10.0.0.1:8443")
			tc.change(&o)
			d := &dialer{}
			Look(t.Context(), o.Snapshot(time.Now()), Options{Dial: d.dial})
			expect.Equal(t, tc.want, d.take())
		})
	}
}

// TestCutOffWithoutWhatIsGone: what was dialed before says nothing of whether the auditor
// is cut off: a backend whose CA bundle changed is one, not two that cannot be found.
func TestCutOffWithoutWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := &dialer{err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, &board{}
		publish := running(t, d, b)
		for _, bundle := range []string{"a", "b"} {
			publish(objects(t, [][]byte{[]byte(bundle)}, "10.0.0.1:8443"))
			synctest.Wait()
			if got := b.probes()[ref(0)].Answer; got != inventory.AnswerUnreachable {
				t.Errorf("with CA bundle %s: the probe has answer %q, want that the backend is unreachable", bundle, got)
			}
		}
	})
}

// TestInnerNames: the API server never asks the cluster's DNS, so that its
// failures say nothing of a webhook.
func TestInnerNames(t *testing.T) {
	o := objects(t, [][]byte{nil}, "10.0.0.1:8443")
	o.Services = nil
	d := &dialer{err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	probe := Look(t.Context(), o.Snapshot(time.Now()), Options{Dial: d.dial}).Probes[ref(0)]
	verdict{inventory.AnswerNone, false, "no such host"}.check(t, probe)
}

// byURL are so many webhooks, each at a URL of its own.
func byURL(n int) inventory.Objects {
	c := &admissionv1.ValidatingWebhookConfiguration{}
	c.Name = "policy"
	for i := range n {
		client := admissionv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://hook-%d.example.com", i))}
		c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{Name: webhookName(i), ClientConfig: client})
	}
	return inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{c}}
}

// TestCutOff: where nothing at all can be found, the auditor is cut off.
func TestCutOff(t *testing.T) {
	noRoute := os.NewSyscallError("connect", syscall.EHOSTUNREACH)
	for name, tc := range map[string]struct {
		backends int
		answers  bool
		want     inventory.Answer
	}{
		"one alone":                 {1, false, inventory.AnswerUnreachable},
		"all of them":               {3, false, inventory.AnswerNone},
		"all but one that is there": {3, true, inventory.AnswerUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			o := byURL(tc.backends)
			dial := func(_ context.Context, _, address string) (net.Conn, error) {
				if tc.answers && address == "hook-2.example.com:443" {
					return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
				}
				return nil, noRoute
			}
			probe := Look(t.Context(), o.Snapshot(time.Now()), Options{URLs: true, Dial: dial}).Probes[ref(0)]
			expect.Equal(t, tc.want, probe.Answer)
		})
	}
}

// TestManyAtATime: the number of dials under way is bounded.
func TestManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := byURL(100)
		var mu sync.Mutex
		now, most := 0, 0
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			now--
			mu.Unlock()
			return nil, ctx.Err()
		}
		began := time.Now()
		Look(t.Context(), o.Snapshot(began), Options{URLs: true, Dial: dial})
		if took := time.Since(began); most != parallel || took != 7*5*time.Second {
			t.Errorf("%d at a time took %s, want %d and 35s", most, took, parallel)
		}
	})
}
