// Package access says who may scrape: a client certificate of the cluster, or a
// bearer token that the API server vouches for, with the right to get the path.
//
// Scraping must outlive the outage it reports, and a webhook may block the very
// reviews that are asked here (on servers older than 1.37). Hence certificates
// come first and need no TokenReview, some names need no review at all, and
// what a review once granted is believed for long while reviews fail.
package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// How long answers are believed. Stale is for grants while reviews fail.
const (
	granted = 2 * time.Minute
	refused = 10 * time.Second
	stale   = 2 * time.Hour
)

// maxAnswers bounds the memory that strangers with made-up tokens can take.
const maxAnswers = 1000

// reviewTimeout bounds a review. It outlasts the default timeout of a webhook
// that blocks it, or the API server's answer would not name the webhook.
const reviewTimeout = 12 * time.Second

// How long a scrape waits for a review: those known for so short that the two
// reviews fit well into the timeout of a scrape.
const (
	waitKnown    = time.Second
	waitStranger = 5 * time.Second
)

// Kind is a kind of review.
type Kind string

// The kinds of reviews.
const (
	Token  Kind = "token"
	Access Kind = "access"
)

// Reviewer asks the API server and remembers its answers. It is safe for
// concurrent use.
type Reviewer struct {
	Tokens   authenticationclient.TokenReviewInterface
	Subjects authorizationclient.SubjectAccessReviewInterface
	// Trusted are the users that may scrape without a SubjectAccessReview.
	Trusted []string
	// Told is told of each review, by its kind, why it could not be asked, nil if
	// it could.
	Told func(kind Kind, err error)
	Now  func() time.Time

	mu       sync.Mutex
	answers  map[question]answer
	underWay map[question]*review
	limits   limits
}

// user is an authenticated user, as a TokenReview or a certificate names it.
type user struct {
	name, uid string
	groups    []string
	extra     map[string]authorizationv1.ExtraValue
}

// answer is what a review said, and when.
type answer struct {
	user  user
	ok    bool
	asked time.Time
}

// The ways to be refused.
var (
	errUnauthenticated = errors.New("want a client certificate or a bearer token")
	errForbidden       = errors.New("forbidden")
	errLimited         = errors.New("too many requests of unknown users; try again later")
)

// Guard lets only those through who may get the path.
func (v *Reviewer) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := v.admit(r)
		switch {
		case err == nil:
			v.letIn(address(r))
			next.ServeHTTP(w, r)
		case errors.Is(err, errUnauthenticated):
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case errors.Is(err, errForbidden):
			http.Error(w, err.Error(), http.StatusForbidden)
		case errors.Is(err, errLimited):
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		default:
			http.Error(w, "the API server could not be asked who may read this; a client certificate of a trusted name needs no asking", http.StatusServiceUnavailable)
		}
	})
}

func (v *Reviewer) admit(r *http.Request) error {
	c := &caller{from: address(r)}
	u, err := v.authenticate(r, c)
	if err != nil {
		return err
	}
	if slices.Contains(v.Trusted, u.name) {
		return nil
	}
	allowed, err := v.authorize(u, r.URL.Path, c)
	if err != nil {
		return err
	}
	if !allowed {
		return fmt.Errorf("%w: user %q may not get %s; grant the verb get on that nonResourceURL", errForbidden, u.name, r.URL.Path)
	}
	return nil
}

// authenticate names the user: by a certificate that the TLS handshake has
// verified, else by a token.
func (v *Reviewer) authenticate(r *http.Request, c *caller) (user, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.VerifiedChains[0][0].Subject
		return user{name: subject.CommonName, groups: subject.Organization}, nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return user{}, errUnauthenticated
	}
	found, err := v.remembered(question{Token, digest(token)}, c, func(ctx context.Context) (answer, error) { return v.reviewToken(ctx, token) })
	if err == nil && !found.ok {
		err = errUnauthenticated
	}
	return found.user, err
}

func (v *Reviewer) authorize(u user, path string, c *caller) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.name, UID: u.uid, Groups: u.groups, Extra: u.extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("reviewing access: of %s: %w", u.name, err)
	}
	key := question{Access, digest(string(text))}
	found, err := v.remembered(key, c, func(ctx context.Context) (answer, error) { return v.reviewAccess(ctx, spec) })
	return found.ok, err
}

// digest keeps tokens out of memory dumps.
func digest(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

// question is what a review asks.
type question struct {
	kind   Kind
	digest string
}

// errSlow says that a review takes longer than a scrape may wait.
var errSlow = errors.New("the review takes too long")

// remembered asks unless a recent answer is known; where asking fails or takes
// long, an old grant still counts. What was granted before is asked again
// whatever the limits say.
func (v *Reviewer) remembered(key question, c *caller, ask func(context.Context) (answer, error)) (answer, error) {
	known, found := v.recall(key)
	age := v.Now().Sub(known.asked)
	if found && (known.ok && age < granted || !known.ok && age < refused) {
		return known, nil
	}
	old := found && known.ok && age < stale
	if !old && !v.mayAsk(c) {
		return answer{}, errLimited
	}
	fresh, err := v.await(v.review(key, ask), old)
	switch {
	case err == nil:
		return fresh, nil
	case old:
		return known, nil
	}
	return answer{}, err
}

// await waits for a review as long as a scrape can.
func (v *Reviewer) await(r *review, known bool) (answer, error) {
	patience := waitStranger
	if known {
		patience = waitKnown
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.answer, r.err
	case <-timer.C:
		return answer{}, errSlow
	}
}

// review is one that is under way, for all who wait for it.
type review struct {
	done   chan struct{}
	answer answer
	err    error
}

// review begins a review, or joins the one of the same key.
func (v *Reviewer) review(key question, ask func(context.Context) (answer, error)) *review {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.underWay[key]; r != nil {
		return r
	}
	if v.underWay == nil {
		v.underWay = map[question]*review{}
	}
	r := &review{done: make(chan struct{})}
	v.underWay[key] = r
	go v.finish(key, r, ask)
	return r
}

// finish does not end with the scrape that asked: the answer is of use for the
// next one.
func (v *Reviewer) finish(key question, r *review, ask func(context.Context) (answer, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), reviewTimeout)
	defer cancel()
	r.answer, r.err = ask(ctx)
	v.Told(key.kind, r.err)
	if r.err == nil {
		r.answer.asked = v.Now()
		v.remember(key, r.answer)
	}
	v.mu.Lock()
	delete(v.underWay, key)
	v.mu.Unlock()
	close(r.done)
}

func (v *Reviewer) recall(key question) (answer, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, found := v.answers[key]
	return known, found
}

func (v *Reviewer) remember(key question, a answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.answers == nil || len(v.answers) >= maxAnswers {
		v.forget()
	}
	v.answers[key] = a
}

// forget drops refusals, or everything where nothing but grants is known.
func (v *Reviewer) forget() {
	kept := map[question]answer{}
	for key, a := range v.answers {
		if a.ok && v.Now().Sub(a.asked) < stale {
			kept[key] = a
		}
	}
	if len(kept) >= maxAnswers {
		kept = map[question]answer{}
	}
	v.answers = kept
}

func (v *Reviewer) reviewToken(ctx context.Context, token string) (answer, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	got, err := v.Tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return answer{}, fmt.Errorf("reviewing a token: %w", err)
	}
	u := got.Status.User
	return answer{user: user{u.Username, u.UID, u.Groups, extra(u.Extra)}, ok: got.Status.Authenticated}, nil
}

// extra is what else a TokenReview says of a user, as a SubjectAccessReview takes
// it.
func extra(of map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	if of == nil {
		return nil
	}
	out := make(map[string]authorizationv1.ExtraValue, len(of))
	for key, values := range of {
		out[key] = authorizationv1.ExtraValue(values)
	}
	return out
}

func (v *Reviewer) reviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (answer, error) {
	got, err := v.Subjects.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return answer{}, fmt.Errorf("reviewing access: of %s: %w", spec.User, err)
	}
	return answer{ok: got.Status.Allowed}, nil
}
