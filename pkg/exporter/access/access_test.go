package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// server is an API server that knows one token and lets one user scrape, and
// can be made to fail.
type server struct {
	*Reviewer
	now     time.Time
	broken  error
	reviews int
	failed  int
	// spec is the last question about access.
	spec authorizationv1.SubjectAccessReviewSpec
	// doubt is the error in the status of token reviews.
	doubt string
	// scheme is that of tokens.
	scheme string
}

// unnamed is a certificate without a common name.
const unnamed = "no name"

func newServer() *server {
	s := &server{scheme: "Bearer", now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	s.Reviewer = NewReviewer(&Reviewer{
		Tokens:   s.reviewToken,
		Subjects: s.reviewAccess,
		Path:     "/metrics",
		Trusted:  []string{"prometheus"},
		OnReview: func(_ Kind, err error) {
			if err != nil {
				s.failed++
			}
		},
		Clock: s,
	})
	return s
}

func (s *server) Now() time.Time { return s.now }

type (
	tokenReview  = authenticationv1.TokenReview
	accessReview = authorizationv1.SubjectAccessReview
)

func (s *server) reviewToken(_ context.Context, sent *tokenReview, _ metav1.CreateOptions) (*tokenReview, error) {
	s.reviews++
	review := sent.DeepCopy()
	name := review.Spec.Token
	review.Status.Error = s.doubt
	review.Status.Authenticated = s.doubt == "" && (strings.HasPrefix(name, "good") || name == "other")
	review.Status.User = authenticationv1.UserInfo{
		Username: "user-of-" + name, UID: "1234", Groups: []string{"system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"prometheus-0"}},
	}
	return review, s.broken
}

func (s *server) reviewAccess(_ context.Context, sent *accessReview, _ metav1.CreateOptions) (*accessReview, error) {
	s.reviews++
	review := sent.DeepCopy()
	s.spec = review.Spec
	review.Status.Allowed = strings.HasPrefix(review.Spec.User, "user-of-good") && review.Spec.NonResourceAttributes.Path == "/metrics"
	return review, s.broken
}

// get asks for a path with a token, or with a verified certificate.
func (s *server) get(path, token, certificate string) int {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if token != "" {
		r.Header.Set("Authorization", s.scheme+" "+token)
	}
	if certificate != "" {
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: strings.TrimSuffix(certificate, unnamed), Organization: []string{"system:masters"}}}
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}
	}
	w := httptest.NewRecorder()
	s.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w.Code
}

func TestWhoMayScrape(t *testing.T) {
	for _, c := range []struct {
		path, token, certificate string
		want                     int
	}{
		{"/metrics", "", "", http.StatusUnauthorized},
		{"/metrics", "made-up", "", http.StatusUnauthorized},
		{"/metrics", "good", "", http.StatusOK},
		{"/webhooks", "good", "", http.StatusOK},
		{"/webhooks", "other", "", http.StatusForbidden},
		{"/webhooks", "", "", http.StatusUnauthorized},
		{"/metrics", "other", "", http.StatusForbidden},
		{"/metrics", "", "prometheus", http.StatusOK},
		{"/metrics", "", "user-of-good", http.StatusOK},
		{"/metrics", "", "kubelet", http.StatusForbidden},
		{"/metrics", "", unnamed, http.StatusUnauthorized},
		{"/metrics", "good", unnamed, http.StatusOK},
	} {
		if got := newServer().get(c.path, c.token, c.certificate); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestCertificatesAreAuthenticated: RBAC may grant access to system:authenticated,
// which no certificate names itself.
func TestCertificatesAreAuthenticated(t *testing.T) {
	s := newServer()
	s.get("/metrics", "", "monitor")
	expect.Equal(t, []string{"system:masters", "system:authenticated"}, s.spec.Groups)
}

// TestSchemeInAnyCase, as RFC 9110 has it. No OnReview need be set.
func TestSchemeInAnyCase(t *testing.T) {
	for scheme, want := range map[string]int{"bearer": http.StatusOK, "BEARER": http.StatusOK, "Bearer ": http.StatusOK, "Basic": http.StatusUnauthorized} {
		s := newServer()
		s.scheme, s.OnReview = scheme, nil
		if got := s.get("/metrics", "good", ""); got != want {
			t.Errorf("%s: %d, want %d", scheme, got, want)
		}
	}
}

// TestScrapingOutlivesBlockedReviews: a webhook blocks the reviews themselves.
func TestScrapingOutlivesBlockedReviews(t *testing.T) {
	s := newServer()
	s.get("/metrics", "good", "")
	s.broken = errors.New(`failed calling webhook "all.example.com"`)
	s.now = s.now.Add(time.Hour)
	expect.Equal(t, http.StatusOK, s.get("/metrics", "good", ""))                  // who could scrape an hour ago
	expect.Equal(t, http.StatusOK, s.get("/metrics", "", "prometheus"))            // a trusted certificate
	expect.Equal(t, http.StatusServiceUnavailable, s.get("/metrics", "other", "")) // a user without the right
	s.now = s.now.Add(2 * stale)
	expect.Equal(t, http.StatusServiceUnavailable, s.get("/metrics", "good", "")) // after half a day
	if s.failed == 0 {
		t.Error("nothing was reported")
	}
}

func TestAnswersAreRemembered(t *testing.T) {
	s := newServer()
	for range 10 {
		s.get("/metrics", "good", "")
	}
	expect.Equal(t, 2, s.reviews) // one of the token and one of the access
	s.now = s.now.Add(granted)
	s.get("/metrics", "good", "")
	expect.Equal(t, 4, s.reviews) // both again
}

// TestDoubtfulReviews: an authenticator that fails takes no grant away, and gives none.
func TestDoubtfulReviews(t *testing.T) {
	s := newServer()
	s.get("/metrics", "good", "")
	s.doubt = "webhook authenticator: connection refused"
	s.now = s.now.Add(granted)
	expect.Equal(t, []int{200, 401, 401}, []int{s.get("/metrics", "good", ""), s.get("/metrics", "good-2", ""), s.get("/metrics", "bad", "")})
	s.doubt, s.now = "", s.now.Add(2*refused)
	expect.Equal(t, []int{200, 200, 401}, []int{s.get("/metrics", "good", ""), s.get("/metrics", "good-2", ""), s.get("/metrics", "bad", "")})
}

// TestMadeUpTokensDoNotFillTheMemory, nor do they drive out who may scrape.
func TestMadeUpTokensDoNotFillTheMemory(t *testing.T) {
	s := newServer()
	s.get("/metrics", "good", "")
	for i := range 3 * maxAnswers {
		s.now = s.now.Add(time.Second)
		s.get("/metrics", fmt.Sprint(i), "")
	}
	if n := len(s.refusals.Keys()); n > maxAnswers {
		t.Errorf("%d refusals remembered, want %d", n, maxAnswers)
	}
	s.broken = errors.New("no more reviews")
	expect.Equal(t, http.StatusOK, s.get("/metrics", "good", "")) // who could scrape before
}

// TestUnknownTokensAreLimited: 600 made-up tokens at once cause few reviews. Users with a
// grant are reviewed all the same, trusted certificates need no review, and a newcomer
// waits no longer than the flood lasts.
func TestUnknownTokensAreLimited(t *testing.T) {
	s := newServer()
	s.get("/metrics", "good", "")
	s.now = s.now.Add(granted)
	before, refused := s.reviews, 0
	for i := range 600 {
		if s.get("/metrics", fmt.Sprint("made-up-", i), "") == http.StatusTooManyRequests {
			refused++
		}
	}
	if n := s.reviews - before; n != unknownBurst || refused != 600-unknownBurst {
		t.Errorf("%d reviews, %d requests refused, want %d reviews", n, refused, unknownBurst)
	}
	before = s.reviews
	expect.Equal(t, http.StatusOK, s.get("/metrics", "good", ""))
	expect.Equal(t, 2, s.reviews-before)
	expect.Equal(t, http.StatusOK, s.get("/metrics", "", "prometheus"))
	expect.Equal(t, http.StatusTooManyRequests, s.get("/metrics", "good-new", ""))
	s.now = s.now.Add(time.Second)
	expect.Equal(t, http.StatusOK, s.get("/metrics", "good-new", ""))
}

// TestReviewedUserIsWhole: what a TokenReview says of a user is what access is
// reviewed for.
func TestReviewedUserIsWhole(t *testing.T) {
	s := newServer()
	s.get("/metrics", "good", "")
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "user-of-good", UID: "1234", Groups: []string{"system:authenticated"},
		Extra:                 map[string]authorizationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"prometheus-0"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}
	expect.Equal(t, want, s.spec)
}
