package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// verdict is a Probe without what differs each time.
type verdict struct {
	answer   inventory.Answer
	succeeds bool
	// error is part of what was wrong with the dial or the certificate.
	error string
}

// succeeds reports whether a call at the time gets through the handshake.
func succeeds(p inventory.Probe, now time.Time) bool {
	c := p.Certificate
	return p.Answer == inventory.AnswerTLS && c != nil && c.Untrusted == "" && c.Misnamed == "" && !now.Before(c.NotBefore) && !now.After(c.NotAfter)
}

func (v verdict) check(t *testing.T, p inventory.Probe) {
	t.Helper()
	text := p.Error
	if c := p.Certificate; c != nil {
		text += c.Untrusted + c.Misnamed
	}
	if p.Answer != v.answer || succeeds(p, time.Now()) != v.succeeds || !strings.Contains(text, v.error) || v.error == "" && text != "" {
		t.Errorf("probe is %+v with the certificate %+v, want %+v", p, p.Certificate, v)
	}
}

func TestCertificates(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	young := authority{certtest.NewAuthority(t, time.Now().AddDate(2, 0, 0).Add(-30*time.Minute))}
	for name, tc := range map[string]struct {
		config *tls.Config
		bundle []byte
		want   verdict
	}{
		"healthy":                 {ours.healthy(t), ours.Bundle, verdict{inventory.AnswerTLS, true, ""}},
		"old and new CA":          {ours.healthy(t), append(append([]byte{}, theirs.Bundle...), ours.Bundle...), verdict{inventory.AnswerTLS, true, ""}},
		"another CA":              {theirs.healthy(t), ours.Bundle, verdict{inventory.AnswerTLS, false, "signed by unknown authority"}},
		"no CA bundle":            {ours.healthy(t), nil, verdict{inventory.AnswerTLS, false, "signed by unknown authority"}},
		"another name":            {ours.config(t, "hook.other.svc", -time.Hour, time.Hour), ours.Bundle, verdict{inventory.AnswerTLS, false, "hook.other.svc, not hook.policy.svc"}},
		"expired":                 {ours.config(t, hook, -2*time.Hour, -time.Hour), ours.Bundle, verdict{inventory.AnswerTLS, false, ""}},
		"expired, new CA":         {young.config(t, hook, -2*time.Hour, -time.Hour), young.Bundle, verdict{inventory.AnswerTLS, false, ""}},
		"not valid yet":           {ours.config(t, hook, time.Hour, 2*time.Hour), ours.Bundle, verdict{inventory.AnswerTLS, false, ""}},
		"expired and another CA":  {theirs.config(t, hook, -2*time.Hour, -time.Hour), ours.Bundle, verdict{inventory.AnswerTLS, false, "signed by unknown authority"}},
		"wants a client, TLS 1.3": {wanting(ours.healthy(t), tls.VersionTLS13), ours.Bundle, verdict{inventory.AnswerTLS, true, ""}},
		"wants a client, TLS 1.2": {wanting(ours.healthy(t), tls.VersionTLS12), ours.Bundle, verdict{inventory.AnswerTLS, true, ""}},
		"TLS 1.0 alone":           {&tls.Config{Certificates: ours.healthy(t).Certificates, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, ours.Bundle, verdict{inventory.AnswerNoTLS, false, "protocol version"}},
	} {
		t.Run(name, func(t *testing.T) {
			backend := serve(t, tc.config)
			s := objects(t, [][]byte{tc.bundle}, backend.address).Snapshot(time.Now())
			probe := Look(t.Context(), s, Options{}).Probes[ref(0)]
			tc.want.check(t, probe)
			if c := probe.Certificate; probe.Answer == inventory.AnswerTLS && c.NotAfter.Sub(c.NotBefore) <= 0 {
				t.Errorf("certificate is valid from %s to %s", c.NotBefore, c.NotAfter)
			}
		})
	}
}

// TestPublicNames: whether the API server's machine trusts who signed for a
// public name, without a CA bundle, is unknown here.
func TestPublicNames(t *testing.T) {
	other := newAuthority(t)
	for name, want := range map[string]bool{"hook.example.com": true, "hook.policy.svc": false} {
		config := other.config(t, name, -time.Hour, time.Hour)
		leaf := must.Get(x509.ParseCertificate(config.Certificates[0].Certificate[0]))(t)
		chain := []*x509.Certificate{leaf}
		if err := checkable(untrusted(chain, roots(""), time.Now()), "", name); (err == nil) != want {
			t.Errorf("%s without a CA bundle: %v", name, err)
		}
		if err := checkable(untrusted(chain, roots(string(newAuthority(t).Bundle)), time.Now()), "some", name); err == nil {
			t.Errorf("%s is trusted though no CA of the bundle vouches for it", name)
		}
	}
}

// wanting demands a certificate of the caller, which the API server may have.
func wanting(config *tls.Config, version uint16) *tls.Config {
	config.ClientAuth = tls.RequireAnyClientCert
	config.MinVersion, config.MaxVersion = version, version
	return config
}

// TestAnswers: what may be due to the auditor's own place is unknown.
func TestAnswers(t *testing.T) {
	failing := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: err}
		}
	}
	silent := answering(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for name, tc := range map[string]struct {
		address string
		options Options
		want    verdict
	}{
		"refused":         {refusing(t), Options{}, verdict{inventory.AnswerUnreachable, false, "connection refused"}},
		"no route":        {"", Options{Dial: failing(os.NewSyscallError("connect", syscall.EHOSTUNREACH))}, verdict{inventory.AnswerUnreachable, false, "no route to host"}},
		"no network":      {"", Options{Dial: failing(os.NewSyscallError("connect", syscall.ENETUNREACH))}, verdict{inventory.AnswerUnreachable, false, "network is unreachable"}},
		"no such name":    {"", Options{Dial: failing(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true})}, verdict{inventory.AnswerUnreachable, false, "no such host"}},
		"DNS times out":   {"", Options{Dial: failing(&net.DNSError{Err: "timeout", Name: "x", IsTimeout: true})}, verdict{inventory.AnswerNone, false, "timeout"}},
		"reset":           {"", Options{Dial: failing(os.NewSyscallError("connect", syscall.ECONNRESET))}, verdict{inventory.AnswerNone, false, "reset"}},
		"not permitted":   {"", Options{Dial: failing(os.NewSyscallError("connect", syscall.EPERM))}, verdict{inventory.AnswerNone, false, "not permitted"}},
		"no connection":   {"", Options{Timeout: 50 * time.Millisecond, Dial: dropping}, verdict{inventory.AnswerNone, false, "i/o timeout"}},
		"silent":          {silent, Options{Timeout: 50 * time.Millisecond}, verdict{inventory.AnswerNone, false, "deadline exceeded"}},
		"hangs up":        {answering(t, speak("")), Options{}, verdict{inventory.AnswerNone, false, "EOF"}},
		"speaks HTTP":     {answering(t, speak("HTTP/1.1 400 Bad Request\r\n\r\n")), Options{}, verdict{inventory.AnswerNoTLS, false, "does not look like a TLS handshake"}},
		"speaks nonsense": {answering(t, speak("220 mail.example.com ready\r\n")), Options{}, verdict{inventory.AnswerNoTLS, false, "does not look like a TLS handshake"}},
	} {
		t.Run(name, func(t *testing.T) {
			address := tc.address
			if address == "" {
				address = "127.0.0.1:1"
			}
			s := objects(t, [][]byte{nil}, address).Snapshot(time.Now())
			tc.want.check(t, Look(t.Context(), s, tc.options).Probes[ref(0)])
		})
	}
}

// dropping is a network that drops packets, as network policies make it.
func dropping(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
}

// speak waits for the client to begin, as servers do that hang up on nonsense.
func speak(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1<<12))
		_, _ = io.WriteString(conn, text)
	}
}

// TestLeavesNoTrace: a backend sees a connection come and go. It gets no
// request and has nothing to log, whatever its certificate is worth.
func TestLeavesNoTrace(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, bundle := range [][]byte{ours.Bundle, theirs.Bundle} {
			config := ours.healthy(t)
			config.MinVersion, config.MaxVersion = version, version
			backend := serve(t, config)
			s := objects(t, [][]byte{bundle}, backend.address).Snapshot(time.Now())
			Look(t.Context(), s, Options{})
			<-backend.closed
			backend.mu.Lock()
			if backend.calls > 0 || backend.log.Len() > 0 {
				t.Errorf("%s: the backend got %d requests and logged %q", tls.VersionName(version), backend.calls, backend.log.String())
			}
			backend.mu.Unlock()
		}
	}
}

// TestServerName: the backend is asked for by the name that the API server
// asks for, wherever it is dialed.
func TestServerName(t *testing.T) {
	ours := newAuthority(t)
	config := ours.healthy(t)
	asked := make(chan string, 1)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		asked <- hello.ServerName
		return nil, nil
	}
	backend := serve(t, config)
	Look(t.Context(), objects(t, [][]byte{ours.Bundle}, backend.address).Snapshot(time.Now()), Options{})
	expect.Equal(t, hook, <-asked)
}

// TestErrorsAreBounded: what a server writes into its certificate is shortened
// and on one line.
func TestErrorsAreBounded(t *testing.T) {
	got := errorLine(errors.New("x509: \n\x1b[31m" + strings.Repeat("é", 1000)))
	if len(got) > maxError || len(got) < maxError-utf8.UTFMax || strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("error has %d bytes: %q", len(got), got)
	}
}

// TestURLs: URLs are dialed where that is asked for, and each webhook has the answer of its own.
func TestURLs(t *testing.T) {
	ours := newAuthority(t)
	backend := serve(t, ours.config(t, "hooks.example.com", -time.Hour, time.Hour))
	o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{{}}}
	o.Validating[0].Name = "policy"
	for i, url := range []string{"https://hooks.example.com/validate", "https://127.0.0.1:1/x", "https://localhost/x", "https://:x/", "https://other.example.com/"} {
		o.Validating[0].Webhooks = append(o.Validating[0].Webhooks, admissionv1.ValidatingWebhook{
			Name:         webhookName(i),
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: ours.Bundle},
		})
	}
	var mu sync.Mutex
	var dialed []string
	options := Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialed = append(dialed, address)
		mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, network, backend.address)
	}}
	s := o.Snapshot(time.Now())
	if probes := Look(t.Context(), s, options).Probes; len(probes)+len(dialed) > 0 {
		t.Errorf("dialed %q without being asked", dialed)
	}
	options.URLs = true
	probes := Look(t.Context(), s, options).Probes
	verdict{inventory.AnswerTLS, true, ""}.check(t, probes[ref(0)])
	verdict{inventory.AnswerTLS, false, "hooks.example.com, not other.example.com"}.check(t, probes[ref(4)])
	slices.Sort(dialed)
	if len(probes) != 2 || !slices.Equal(dialed, []string{"hooks.example.com:443", "other.example.com:443"}) {
		t.Errorf("dialed %q", dialed)
	}
}
