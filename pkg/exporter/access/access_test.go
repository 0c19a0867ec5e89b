package access

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// server is an API server that knows one token and lets one user scrape, and
// can be made to fail.
type server struct {
	*Reviewer
	now     time.Time
	broken  error
	reviews int
	failed  int
}

func newServer() *server {
	s := &server{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	kube := fake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.reviews++
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == "good" || review.Spec.Token == "stranger"
		review.Status.User.Username = "user-of-" + review.Spec.Token
		return true, review, s.broken
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.reviews++
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.User == "user-of-good" && review.Spec.NonResourceAttributes.Path == "/metrics"
		return true, review, s.broken
	})
	s.Reviewer = &Reviewer{
		Tokens:   kube.AuthenticationV1().TokenReviews(),
		Subjects: kube.AuthorizationV1().SubjectAccessReviews(),
		Trusted:  []string{"prometheus"},
		Told: func(_ Kind, err error) {
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
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if certificate != "" {
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: certificate}}
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
		{"/other", "good", "", http.StatusForbidden},
		{"/metrics", "stranger", "", http.StatusForbidden},
		{"/metrics", "", "prometheus", http.StatusOK},
		{"/metrics", "", "user-of-good", http.StatusOK},
		{"/metrics", "", "kubelet", http.StatusForbidden},
	} {
		if got := newServer().get(c.path, c.token, c.certificate); got != c.want {
			t.Errorf("%+v: %d", c, got)
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
	if got := s.get("/metrics", "stranger", ""); got != http.StatusServiceUnavailable {
		t.Errorf("a stranger: %d", got)
	}
	s.now = s.now.Add(2 * stale)
	if got := s.get("/metrics", "good", ""); got != http.StatusServiceUnavailable {
		t.Errorf("after half a day: %d", got)
	}
	if s.failed == 0 {
		t.Error("nobody was told")
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
	for i := range 3 * maxAnswers {
		s.get("/metrics", fmt.Sprint(i), "")
	}
	if n := len(s.answers); n > maxAnswers {
		t.Errorf("%d answers remembered", n)
	}
	before := s.reviews
	if got := s.get("/metrics", "good", ""); got != http.StatusOK || s.reviews != before {
		t.Errorf("%d, %d more reviews", got, s.reviews-before)
	}
}
