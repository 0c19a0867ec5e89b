package access

import (
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

// The limits of reviews of users without a cached grant: of one address, and of all
// addresses without an admitted user. So a flood from one address keeps out neither a
// scraper whose token was renewed nor one at another address. Beyond them, a token that
// the API server has signed is reviewed within the same limits of its user and of all
// such users: a flood of made-up tokens, from however many addresses, has no part in these.
const (
	addressBurst = 10
	addressRate  = 1 // a second
	unknownBurst = 40
	unknownRate  = 5
)

// limits bound the reviews that unknown users cause.
type limits struct {
	unknown *rate.Limiter
	origins map[string]*origin
}

// origin is an address that requests come from, or a user.
type origin struct {
	limiter *rate.Limiter
	// known is set once a user was admitted from that address.
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
	from, token string
	// counted is set once the request counts: its TokenReview and its
	// SubjectAccessReview count as one.
	counted bool
}

// mayReview reports whether the limits allow a review for an unknown user.
func (v *Reviewer) mayReview(c *caller) bool {
	c.counted = c.counted || v.within(&v.limits, c.from)
	if c.counted {
		return true
	}
	subject := v.subject(c.token)
	c.counted = subject != "" && v.within(&v.signed, subject)
	return c.counted
}

func (v *Reviewer) within(l *limits, from string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return l.allow(from, v.Now())
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
	if o := l.origins[from]; o != nil {
		return o
	}
	if l.unknown == nil {
		l.unknown = rate.NewLimiter(unknownRate, unknownBurst)
	}
	if l.origins == nil || len(l.origins) >= maxAnswers {
		l.forget()
	}
	o := &origin{limiter: rate.NewLimiter(addressRate, addressBurst)}
	l.origins[from] = o
	return o
}

// forget drops the addresses from which no user was let in, or all where there
// are no others.
func (l *limits) forget() {
	kept := map[string]*origin{}
	for from, o := range l.origins {
		if o.known {
			kept[from] = o
		}
	}
	if len(kept) >= maxAnswers {
		kept = map[string]*origin{}
	}
	l.origins = kept
}
