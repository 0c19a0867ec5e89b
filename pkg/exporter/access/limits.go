package access

import (
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

// The limits of reviews of users without a cached grant: of one address, and of
// all addresses without an admitted user. So a flood keeps out neither a scraper
// whose token was renewed nor one at another address.
const (
	addressBurst = 10
	addressRate  = 1 // a second
	unknownBurst = 40
	unknownRate  = 5
)

// limits bound the reviews that unknown users cause.
type limits struct {
	unknown   *rate.Limiter
	addresses map[string]*origin
}

// origin is an address that requests come from.
type origin struct {
	limiter *rate.Limiter
	// known is set once a user was admitted from there.
	known bool
}

// address is where a request comes from.
func address(r *http.Request) string { return host(r.RemoteAddr) }

// host is the address without its port.
func host(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// caller is the sender of a request.
type caller struct {
	from string
	// counted is set once the request counts: its TokenReview and its
	// SubjectAccessReview count as one.
	counted bool
}

// mayReview reports whether the limits allow a review for an unknown user.
func (v *Reviewer) mayReview(c *caller) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.counted = c.counted || v.limits.allow(c.from, v.Now())
	return c.counted
}

// admitted notes that a user was admitted from the address.
func (v *Reviewer) admitted(from string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.limits.origin(from).known = true
}

func (l *limits) allow(from string, now time.Time) bool {
	o := l.origin(from)
	return o.limiter.AllowN(now, 1) && (o.known || l.unknown.AllowN(now, 1))
}

func (l *limits) origin(from string) *origin {
	if o := l.addresses[from]; o != nil {
		return o
	}
	if l.unknown == nil {
		l.unknown = rate.NewLimiter(unknownRate, unknownBurst)
	}
	if l.addresses == nil || len(l.addresses) >= maxAnswers {
		l.forget()
	}
	o := &origin{limiter: rate.NewLimiter(addressRate, addressBurst)}
	l.addresses[from] = o
	return o
}

// forget drops the addresses from which no user was let in, or all where there
// are no others.
func (l *limits) forget() {
	kept := map[string]*origin{}
	for from, o := range l.addresses {
		if o.known {
			kept[from] = o
		}
	}
	if len(kept) >= maxAnswers {
		kept = map[string]*origin{}
	}
	l.addresses = kept
}
