package access

import (
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

// The limits of reviews that are asked for users who were not let in before:
// those from one address, and those from all addresses from which no user was
// ever let in. So a flood keeps out neither a scraper whose token was renewed
// nor one at another address.
const (
	addressBurst  = 10
	addressRate   = 1 // a second
	strangerBurst = 40
	strangerRate  = 5
)

// limits bound the reviews that unknown users cause.
type limits struct {
	strangers *rate.Limiter
	addresses map[string]*origin
}

// origin is an address that requests come from.
type origin struct {
	limiter *rate.Limiter
	// known says that a user was let in from there.
	known bool
}

// address is where a request comes from.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// caller is who sent a request.
type caller struct {
	from string
	// counted says that the request counts already: the reviews of a token and of
	// what its user may do are one of an unknown user.
	counted bool
}

// mayAsk reports whether a review may be asked for an unknown user.
func (v *Reviewer) mayAsk(c *caller) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.counted = c.counted || v.limits.allow(c.from, v.Now())
	return c.counted
}

// letIn notes that a user was let in from the address.
func (v *Reviewer) letIn(from string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.limits.origin(from).known = true
}

func (l *limits) allow(from string, now time.Time) bool {
	o := l.origin(from)
	return o.limiter.AllowN(now, 1) && (o.known || l.strangers.AllowN(now, 1))
}

func (l *limits) origin(from string) *origin {
	if o := l.addresses[from]; o != nil {
		return o
	}
	if l.strangers == nil {
		l.strangers = rate.NewLimiter(strangerRate, strangerBurst)
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
