package access

import (
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

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
	// from is the address that requests come from, asked the last question
	// about access.
	from  string
	asked authorizationv1.SubjectAccessReviewSpec
	// scheme is that of tokens, and valid one beside those that begin with good.
	scheme, valid string
}

// unnamed is a certificate without a common name.
const unnamed = "no name"

func newServer() *server {
	s := &server{scheme: "Bearer", now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	kube := fake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.reviews++
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		name := review.Spec.Token
		if name == s.valid {
			name = "good"
		}
		review.Status.Authenticated = strings.HasPrefix(name, "good") || name == "other"
		review.Status.User = authenticationv1.UserInfo{
			Username: "user-of-" + name, UID: "1234", Groups: []string{"system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"prometheus-0"}},
		}
		return true, review, s.broken
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.reviews++
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		s.asked = review.Spec
		review.Status.Allowed = strings.HasPrefix(review.Spec.User, "user-of-good") && review.Spec.NonResourceAttributes.Path == "/metrics"
		return true, review, s.broken
	})
	s.Reviewer = &Reviewer{
		Tokens:   kube.AuthenticationV1().TokenReviews().Create,
		Subjects: kube.AuthorizationV1().SubjectAccessReviews().Create,
		Path:     "/metrics",
		Trusted:  []string{"prometheus"},
		OnReview: func(_ Kind, err error) {
			if err != nil {
				s.failed++
			}
		},
		Now: func() time.Time { return s.now },
	}
	return s
}

// get asks for a path with a token, or with a verified certificate.
func (s *server) get(path, token, certificate string) int {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if s.from != "" {
		r.RemoteAddr = s.from
	}
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
	expect.Equal(t, []string{"system:masters", "system:authenticated"}, s.asked.Groups)
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
	if got := s.get("/metrics", "good", ""); got != http.StatusOK {
		t.Errorf("who could scrape an hour ago: %d", got)
	}
	if got := s.get("/metrics", "", "prometheus"); got != http.StatusOK {
		t.Errorf("a trusted certificate: %d", got)
	}
	if got := s.get("/metrics", "other", ""); got != http.StatusServiceUnavailable {
		t.Errorf("a user without the right: %d", got)
	}
	s.now = s.now.Add(2 * stale)
	if got := s.get("/metrics", "good", ""); got != http.StatusServiceUnavailable {
		t.Errorf("after half a day: %d", got)
	}
	if s.failed == 0 {
		t.Error("nothing was reported")
	}
}

func TestAnswersAreRemembered(t *testing.T) {
	s := newServer()
	for range 10 {
		s.get("/metrics", "good", "")
	}
	if s.reviews != 2 {
		t.Errorf("%d reviews, want one of the token and one of the access", s.reviews)
	}
	s.now = s.now.Add(granted)
	s.get("/metrics", "good", "")
	if s.reviews != 4 {
		t.Errorf("%d reviews, want both again", s.reviews)
	}
}

// TestMadeUpTokensDoNotFillTheMemory, nor do they drive out who may scrape.
func TestMadeUpTokensDoNotFillTheMemory(t *testing.T) {
	s := newServer()
	s.get("/metrics", "good", "")
	var answers, addresses int
	for i := range 3 * maxAnswers {
		s.now = s.now.Add(time.Second)
		s.from = fmt.Sprintf("10.0.%d.%d:1", i/250, i%250)
		s.get("/metrics", fmt.Sprint(i), "")
		answers, addresses = max(answers, len(s.answers)), max(addresses, len(s.limits.origins))
	}
	if answers != maxAnswers || addresses != maxAnswers {
		t.Errorf("%d answers and %d addresses remembered, want at most %d", answers, addresses, maxAnswers)
	}
	s.broken = errors.New("no more reviews")
	if got := s.get("/metrics", "good", ""); got != http.StatusOK {
		t.Errorf("who could scrape before: %d", got)
	}
}

// TestUnknownTokensAreLimited: 600 made-up tokens at once, from one address and from
// many, cause few reviews. Who was let in before is reviewed all the same, also
// with a renewed token, and so is a newcomer at another address.
func TestUnknownTokensAreLimited(t *testing.T) {
	for name, flood := range map[string]struct {
		from     func(i int) string
		most     int
		newcomer int
	}{
		"one address":    {func(int) string { return "10.0.0.1:1" }, addressBurst, http.StatusOK},
		"many addresses": {func(i int) string { return fmt.Sprintf("10.0.%d.%d:1", 1+i/250, i%250) }, unknownBurst, http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			scraper := "10.1.0.1:1"
			s.from = scraper
			s.get("/metrics", "good", "")
			s.now = s.now.Add(granted)
			before := s.reviews
			refused := 0
			for i := range 600 {
				s.from = flood.from(i)
				if s.get("/metrics", fmt.Sprint("made-up-", i), "") == http.StatusTooManyRequests {
					refused++
				}
			}
			if n := s.reviews - before; n > flood.most || refused < 600-flood.most {
				t.Errorf("%d reviews, %d requests refused, want at most %d reviews", n, refused, flood.most)
			}
			before = s.reviews
			for token, from := range map[string]string{"good": flood.from(0), "good-renewed": scraper} {
				s.from = from
				if got := s.get("/metrics", token, ""); got != http.StatusOK {
					t.Errorf("%s, from %s: %d", token, from, got)
				}
			}
			if n := s.reviews - before; n != 4 {
				t.Errorf("%d reviews of users who were let in, want 4", n)
			}
			s.from = "10.2.0.1:1"
			if got := s.get("/metrics", "good-new", ""); got != flood.newcomer {
				t.Errorf("a newcomer at another address: %d, want %d", got, flood.newcomer)
			}
			s.now = s.now.Add(time.Second)
			if got := s.get("/metrics", "good-new", ""); got != http.StatusOK {
				t.Errorf("a newcomer, a second later: %d", got)
			}
		})
	}
}

// TestRequestCountsOnce: the two reviews of a newcomer are one of the limit.
func TestRequestCountsOnce(t *testing.T) {
	s := newServer()
	for i := range addressBurst - 1 {
		s.get("/metrics", fmt.Sprint("made-up-", i), "")
	}
	if got := s.get("/metrics", "good", ""); got != http.StatusOK {
		t.Errorf("the last one that the limit allows: %d", got)
	}
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
	expect.Equal(t, want, s.asked)
}
