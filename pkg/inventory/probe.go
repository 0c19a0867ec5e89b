package inventory

import (
	"fmt"
	"time"
)

// Probe is what dialing a webhook's backend showed, seen from where the auditor
// runs: the API server may see another picture from its own place.
type Probe struct {
	Answer Answer
	// Outside says that the backend is a Service and the auditor outside the cluster:
	// another host may have answered.
	Outside bool
	// Certificate is what the backend showed, nil where it showed none.
	Certificate *ServingCertificate
	// Error is what the dial ended in, bounded; "" where nothing was wrong.
	Error string
	// At is when the dial began, Took how long it and the handshake lasted.
	At   time.Time
	Took time.Duration
}

type Answer string

// The answers. AnswerNone decides nothing: a dial that times out may
// meet a network policy, one that is cut off a load balancer.
const (
	AnswerNone        Answer = ""
	AnswerTLS         Answer = "tls"
	AnswerNoTLS       Answer = "no-tls"
	AnswerUnreachable Answer = "unreachable"
)

// ServingCertificate is the certificate that a backend showed, and what the
// CA bundle of one webhook makes of it.
type ServingCertificate struct {
	NotBefore, NotAfter time.Time
	// Untrusted says why no CA of the bundle vouches for it, whatever the time;
	// "" where one does.
	Untrusted string
	// Misnamed says why it is not one for the name that the API server wants;
	// "" where it is.
	Misnamed string
}

// ServerName is the name that the API server wants to see in the certificate
// of the backend.
func (b Backend) ServerName() string {
	if b.Kind == BackendURL {
		return b.Host()
	}
	return fmt.Sprintf("%s.%s.svc", b.Service.Name, b.Service.Namespace)
}
