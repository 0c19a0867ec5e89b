// Package access authenticates and authorizes scrapes: by a client certificate of
// the cluster's CA or a TokenReview, and a SubjectAccessReview of the path.
//
// Scraping must work during the outage it reports, and a webhook may block the
// reviews (on servers older than 1.37). Hence certificates come first and need
// no TokenReview, trusted users need no review at all, and a grant stays cached
// for long while reviews fail.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
)

// The lifetimes of cached answers; stale is for grants while reviews fail.
const (
	granted = 2 * time.Minute
	refused = 10 * time.Second
	stale   = 2 * time.Hour
)

// maxAnswers bounds the grants and the refusals that are cached: unknown users choose the
// keys of refusals.
const maxAnswers = 1000

// reviewTimeout bounds a review. It outlasts the default timeout of a webhook
// that blocks it, or the API server's answer would not name the webhook.
const reviewTimeout = 12 * time.Second

// How long a scrape waits for a review. Users with an old grant wait 1 s so that both
// reviews fit in a 10 s scrape timeout.
const (
	waitGranted = time.Second
	waitUnknown = 5 * time.Second
)

// The limit of reviews for all users without a cached grant: so many at once, and then so
// many a second. A flood of made-up tokens cannot flood the API server. Users with a
// grant and trusted certificates have no part in it.
const (
	unknownBurst = 40
	unknownRate  = 10
)

type Kind string

const (
	Token  Kind = "token"
	Access Kind = "access"
)

// Reviewer reviews by the API server and caches the answers. NewReviewer completes it. It is
// safe for concurrent use.
type Reviewer struct {
	// Tokens and Subjects have the API server review.
	Tokens func(context.Context, *authenticationv1.TokenReview,
		metav1.CreateOptions) (*authenticationv1.TokenReview, error)
	Subjects func(context.Context, *authorizationv1.SubjectAccessReview,
		metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
	// Path is what users must be allowed to get, whatever path they ask for: all
	// paths show the same facts.
	Path string
	// Trusted are the users that may scrape without a SubjectAccessReview.
	Trusted []string
	// OnReview, if set, is called after each review with its error, nil if it succeeded.
	OnReview func(kind Kind, err error)
	Clock    cache.Clock

	// Refusals are kept apart: no flood of them drives out grants.
	grants, refusals *cache.LRUExpireCache
	running          singleflight.Group
	// unknown limits the reviews of users without a cached grant.
	unknown *rate.Limiter
}

func NewReviewer(v *Reviewer) *Reviewer {
	v.grants, v.refusals = cache.NewLRUExpireCacheWithClock(maxAnswers,
		v.Clock), cache.NewLRUExpireCacheWithClock(maxAnswers, v.Clock)
	v.unknown = rate.NewLimiter(unknownRate, unknownBurst)
	return v
}

// user is an authenticated user, as a TokenReview or a certificate names it.
type user struct {
	name, uid string
	groups    []string
	extra     map[string]authorizationv1.ExtraValue
}

type answer struct {
	user user
	ok   bool
	// doubtful says that the API server could not look, or that the token is bad: its answer is
	// the same.
	doubtful bool
	time     time.Time
}

var (
	errUnauthenticated = errors.New("must have a client certificate or a bearer token")
	errForbidden       = errors.New("forbidden")
	errLimited         = errors.New("too many requests of unknown users; try again later")
)

func (v *Reviewer) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := v.admit(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, errUnauthenticated):
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case errors.Is(err, errForbidden):
			http.Error(w, err.Error(), http.StatusForbidden)
		case errors.Is(err, errLimited):
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		default:
			http.Error(w, "the API server cannot review this request; a client certificate of a --web.trusted-user needs no review", http.StatusServiceUnavailable)
		}
	})
}

func (v *Reviewer) admit(r *http.Request) error {
	u, err := v.authenticate(r)
	if err != nil {
		return err
	}
	if slices.Contains(v.Trusted, u.name) {
		return nil
	}
	allowed, err := v.authorize(u, v.Path)
	if err != nil {
		return err
	}
	if !allowed {
		return fmt.Errorf("%w: user %q may not get %s; grant the verb get on that nonResourceURL", errForbidden, u.name, v.Path)
	}
	return nil
}

// authenticate names the user: by a certificate that the TLS handshake has
// verified, else by a token.
func (v *Reviewer) authenticate(r *http.Request) (user, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		if u := certified(r.TLS.VerifiedChains[0][0].Subject); u.name != "" {
			return u, nil
		}
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return user{}, errUnauthenticated
	}
	found, err := v.remembered(Token, token,
		func(ctx context.Context) (answer, error) { return v.reviewToken(ctx, token) })
	if err == nil && !found.ok {
		err = errUnauthenticated
	}
	return found.user, err
}

const authenticated = "system:authenticated"

// certified is the user of a verified certificate, with the group that the API server
// adds. One without a name is no user, whatever its groups.
func certified(subject pkix.Name) user {
	u := user{name: subject.CommonName, groups: subject.Organization}
	if !slices.Contains(u.groups, authenticated) {
		u.groups = append(slices.Clip(u.groups), authenticated)
	}
	return u
}

func (v *Reviewer) authorize(u user, path string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.name, UID: u.uid, Groups: u.groups, Extra: u.extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("reviewing access: of %s: %w", u.name, err)
	}
	found, err := v.remembered(Access, string(text),
		func(ctx context.Context) (answer, error) { return v.reviewAccess(ctx, spec) })
	return found.ok, err
}

// errSlow means that a review takes longer than a scrape may wait.
var errSlow = errors.New("the review takes too long")

// remembered reviews unless a recent answer is cached; where the review fails or
// takes long, an old grant still counts. A grant is renewed outside the limit. The
// digest keeps tokens out of memory dumps.
func (v *Reviewer) remembered(kind Kind, subject string, ask func(context.Context) (answer, error)) (answer, error) {
	key := fmt.Sprintf("%s %x", kind, sha256.Sum256([]byte(subject)))
	now := v.Clock.Now()
	cached, old := v.grants.Get(key)
	grant, _ := cached.(answer)
	if old && now.Sub(grant.time) < granted {
		return grant, nil
	}
	if _, recent := v.refusals.Get(key); recent {
		return answer{}, nil
	}
	wait := waitGranted
	if !old {
		wait = waitUnknown
		if !v.unknown.AllowN(now, 1) {
			return answer{}, errLimited
		}
	}
	// It does not end with the scrape that began it: the next one uses the answer.
	review := v.running.DoChan(key, func() (any, error) { return v.review(kind, key, ask) })
	fresh, err := answer{}, errSlow
	select {
	case r := <-review:
		fresh, err = r.Val.(answer), r.Err
	case <-time.After(wait):
	}
	if err != nil && old {
		return grant, nil
	}
	return fresh, err
}

// review reviews for all scrapes that wait for it, and caches the answer.
func (v *Reviewer) review(kind Kind, key string, ask func(context.Context) (answer, error)) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), reviewTimeout)
	defer cancel()
	a, err := ask(ctx)
	if v.OnReview != nil {
		v.OnReview(kind, err)
	}
	grant, old := v.grants.Get(key)
	switch a.time = v.Clock.Now(); {
	case err != nil:
	case a.doubtful && old:
		return grant.(answer), nil
	case a.ok:
		v.grants.Add(key, a, stale)
	default:
		v.grants.Remove(key)
		v.refusals.Add(key, a, refused)
	}
	return a, err
}

func (v *Reviewer) reviewToken(ctx context.Context, token string) (answer, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	got, err := v.Tokens(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return answer{}, fmt.Errorf("reviewing a token: %w", err)
	}
	u := got.Status.User
	ok := got.Status.Authenticated
	return answer{
		user: user{u.Username, u.UID, u.Groups, extra(u.Extra)}, ok: ok, doubtful: !ok && got.Status.Error != "",
	}, nil
}

func extra(extras map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	if extras == nil {
		return nil
	}
	out := make(map[string]authorizationv1.ExtraValue, len(extras))
	for key, values := range extras {
		out[key] = authorizationv1.ExtraValue(values)
	}
	return out
}

func (v *Reviewer) reviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (answer, error) {
	got, err := v.Subjects(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return answer{}, fmt.Errorf("reviewing access: of %s: %w", spec.User, err)
	}
	return answer{ok: got.Status.Allowed}, nil
}
