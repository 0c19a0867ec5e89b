package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxError bounds what is kept of an error: the server chooses the names in it.
const maxError = 200

// dial dials the target once. Of several addresses, it takes one after the
// other, a dial each.
func (o Options) dial(ctx context.Context, t target) outcome {
	ctx, cancel := context.WithTimeout(ctx, o.timeout())
	defer cancel()
	address, began := t.addresses[t.turn%len(t.addresses)], time.Now()
	chain, answer, err := o.handshake(ctx, address, t.serverName)
	result := outcome{
		address: address,
		ready:   t.ready,
		Probe: inventory.Probe{
			Answer: answer, Outside: o.Outside && t.ofService, At: began, Took: time.Since(began),
			Error: errorLine(err),
		},
		unrouted: answer == inventory.AnswerUnreachable && isUnroutable(err),
		turn:     t.turn + 1,
	}
	var name *net.DNSError
	if t.inner && errors.As(err, &name) {
		result.Answer, result.unrouted = inventory.AnswerNone, false
	}
	if len(chain) > 0 {
		result.certificates = verify(chain, t, began)
	}
	if result.Answer == inventory.AnswerNone || result.failed() {
		result.failures = t.failures + 1
	}
	result.nextDial = time.Now().Add(o.pause(result))
	if t.settling {
		result.nextDial = time.Now().Add(firstRetry)
	}
	return result
}

// handshake dials, makes the TLS handshake and closes as a good client does. It refuses
// no certificate: that would make the backend log an error, and show less.
func (o Options) handshake(ctx context.Context, address,
	serverName string,
) ([]*x509.Certificate, inventory.Answer, error) {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, answerWithoutConnection(err), err
	}
	defer conn.Close()
	var certificates []*x509.Certificate
	client := tls.Client(conn, &tls.Config{
		ServerName:         serverName,
		NextProtos:         []string{"http/1.1"}, // as the API server calls webhooks
		InsecureSkipVerify: true,                 // verify does it, and says what is wrong
		VerifyConnection: func(state tls.ConnectionState) error {
			certificates = state.PeerCertificates
			return nil
		},
	})
	err = client.HandshakeContext(ctx)
	switch {
	case err == nil:
		hangUp(ctx, client)
		return certificates, inventory.AnswerTLS, nil
	case len(certificates) > 0:
		// The backend wants a certificate of its caller, which the API server
		// may have: what it showed of itself is enough.
		return certificates, inventory.AnswerTLS, nil
	}
	return nil, answerWithoutHandshake(err), err
}

// closeWait bounds the wait for the backend to hang up as well.
const closeWait = time.Second

// hangUp says that nothing will come, and reads what the backend still has to
// say: data that is not read makes the system reset the connection, which
// backends log as an error.
func hangUp(ctx context.Context, client *tls.Conn) {
	deadline := time.Now().Add(closeWait)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if client.SetDeadline(deadline) != nil || client.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, client, 1<<16)
}

// answerWithoutConnection is the answer that a failed dial stands for. What times out or is
// cut off shows nothing: a network policy may stand in the way of the auditor
// alone.
func answerWithoutConnection(err error) inventory.Answer {
	if errors.Is(err, syscall.ECONNREFUSED) || isUnroutable(err) {
		return inventory.AnswerUnreachable
	}
	return inventory.AnswerNone
}

// isUnroutable reports whether there is no way, or no name, to dial.
func isUnroutable(err error) bool {
	var name *net.DNSError
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH) ||
		errors.As(err, &name) && name.IsNotFound
}

// answerWithoutHandshake is the answer that a failed handshake stands for: either a server
// answered that cannot speak TLS with us, or none did.
func answerWithoutHandshake(err error) inventory.Answer {
	var alert *net.OpError
	var network net.Error
	switch {
	case errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error"):
		return inventory.AnswerNoTLS
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return inventory.AnswerNone
	}
	return inventory.AnswerNoTLS
}

// verify returns what each CA bundle of the callers makes of the certificate.
func verify(chain []*x509.Certificate, t target, now time.Time) map[string]*inventory.ServingCertificate {
	out := map[string]*inventory.ServingCertificate{}
	for _, c := range t.callers {
		if out[c.bundle] == nil {
			out[c.bundle] = &inventory.ServingCertificate{
				NotBefore: chain[0].NotBefore,
				NotAfter:  chain[0].NotAfter,
				Untrusted: errorLine(checkable(untrusted(chain, roots(c.bundle), now), c.bundle, t.serverName)),
				Misnamed:  errorLine(chain[0].VerifyHostname(t.serverName)),
			}
		}
	}
	return out
}

// roots are the CAs of a bundle; nil stands for those of the system, which the
// API server trusts where there is no bundle.
func roots(bundle string) *x509.CertPool {
	if bundle == "" {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(bundle))
	return pool
}

// untrusted says why no CA vouches for the certificate, within its own time: that it
// expired is another fact, and that a CA is newer than it no reason.
func untrusted(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) error {
	leaf, others := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		others.AddCert(c)
	}
	valid := now
	if now.After(leaf.NotAfter) {
		valid = leaf.NotAfter
	}
	if now.Before(leaf.NotBefore) {
		valid = leaf.NotBefore
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, CurrentTime: valid})
	var invalid x509.CertificateInvalidError
	if valid != now && errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return nil
	}
	return err
}

// checkable leaves out what only the API server's own machine can check: without a
// CA bundle it is the CAs installed there that count, and those of this one
// may be others, or none. But none of them signs names inside a cluster.
func checkable(err error, bundle string, serverName string) error {
	var unknown x509.UnknownAuthorityError
	var none x509.SystemRootsError
	if bundle == "" && !strings.HasSuffix(serverName, ".svc") && (errors.As(err, &unknown) || errors.As(err, &none)) {
		return nil
	}
	return err
}

// errorLine is an error in one short line, "" without one.
func errorLine(err error) string {
	if err == nil {
		return ""
	}
	return text.Shorten(text.Clean(err.Error()), maxError)
}
