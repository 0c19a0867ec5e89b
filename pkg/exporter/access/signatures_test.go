package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// issuer signs tokens, and publishes its key.
type issuer struct {
	key  *ecdsa.PrivateKey
	id   string
	read int
}

func newIssuer(t *testing.T, id string) *issuer {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return &issuer{key: key, id: id}
}

// token is one of a ServiceAccount, with so long to live.
func (a *issuer) token(t *testing.T, account string, expiry time.Time) string {
	t.Helper()
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: a.key, KeyID: a.id}}, nil))(t)
	return must.Get(jwt.Signed(signer).Claims(jwt.Claims{Subject: "system:serviceaccount:" + account, Expiry: jwt.NewNumericDate(expiry)}).Serialize())(t)
}

func (a *issuer) keys(context.Context) ([]byte, error) {
	a.read++
	return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: a.key.Public(), KeyID: a.id}}})
}

// remote is the i-th of many addresses.
func remote(i int) string { return fmt.Sprintf("10.%d.%d.%d:1", i/62500, i/250%250, i%250) }

// TestSignedTokensInAFlood: while 1,000 addresses send made-up tokens, one that the API
// server has signed is reviewed, from an address that was never seen; others are not.
func TestSignedTokensInAFlood(t *testing.T) {
	genuine, forger := newIssuer(t, "key"), newIssuer(t, "key")
	renewed := newIssuer(t, "renewed key")
	hour := time.Hour
	for name, c := range map[string]struct {
		by    *issuer
		valid time.Duration
		keys  func(context.Context) ([]byte, error)
		want  int
	}{
		"signed":            {genuine, hour, genuine.keys, http.StatusOK},
		"expired":           {genuine, -hour, genuine.keys, http.StatusTooManyRequests},
		"forged":            {forger, hour, genuine.keys, http.StatusTooManyRequests},
		"by another key":    {renewed, hour, genuine.keys, http.StatusTooManyRequests},
		"keys not readable": {genuine, hour, func(context.Context) ([]byte, error) { return nil, errors.New("forbidden") }, http.StatusTooManyRequests},
		"keys not valid":    {genuine, hour, func(context.Context) ([]byte, error) { return []byte("<html>"), nil }, http.StatusTooManyRequests},
		"keys not read":     {genuine, hour, nil, http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.Keys = c.keys
				token := c.by.token(t, "monitoring:prometheus", s.now.Add(c.valid))
				s.valid = token
				for i := range 1000 {
					s.from = remote(i)
					s.get("/metrics", fmt.Sprint("made-up-", i), "")
					s.get("/metrics", forger.token(t, "monitoring:prometheus", s.now.Add(time.Duration(i)*hour)), "")
				}
				before := s.reviews
				synctest.Wait() // for the keys
				s.from = "10.200.0.1:1"
				if got := s.get("/metrics", token, ""); got != c.want {
					t.Errorf("%d, want %d", got, c.want)
				}
				if n := s.reviews - before; (n == 2) != (c.want == http.StatusOK) {
					t.Errorf("%d reviews", n)
				}
			})
		})
	}
}

// TestSignedTokensAreLimited: those of one user, and those of all.
func TestSignedTokensAreLimited(t *testing.T) {
	a := newIssuer(t, "key")
	for name, c := range map[string]struct {
		account string
		most    int
	}{
		"one user":   {"team:robot", addressBurst},
		"many users": {"team:robot-%d", unknownBurst},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.Keys = a.keys
				send := func(i int) {
					account := c.account
					if name == "many users" {
						account = fmt.Sprintf(c.account, i)
					}
					s.from = remote(i)
					s.get("/metrics", a.token(t, account, s.now.Add(time.Duration(1+i)*time.Hour)), "")
				}
				for i := range unknownBurst + 1 {
					send(i)
				}
				synctest.Wait() // for the keys
				before := s.reviews
				for i := range 200 {
					send(unknownBurst + 1 + i)
				}
				if n := s.reviews - before; n != c.most {
					t.Errorf("%d reviews, want %d", n, c.most)
				}
			})
		})
	}
}

// TestKeysAreReadAgain where a token names another, and not for each such token.
func TestKeysAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := newIssuer(t, "key")
		s.Keys = func(ctx context.Context) ([]byte, error) { return a.keys(ctx) }
		first := a.token(t, "monitoring:prometheus", s.now.Add(time.Hour))
		for range 10 {
			s.subject(first)
			synctest.Wait()
		}
		if a.read != 1 || s.subject(first) == "" {
			t.Errorf("the keys were read %d times, want once", a.read)
		}
		a = newIssuer(t, "renewed key")
		second := a.token(t, "monitoring:prometheus", s.now.Add(time.Hour))
		for range 10 {
			s.subject(second)
			synctest.Wait()
		}
		if a.read != 0 {
			t.Errorf("the keys were read again at once")
		}
		s.now = s.now.Add(keysInterval)
		s.subject(second)
		synctest.Wait()
		if got := s.subject(second); got != "system:serviceaccount:monitoring:prometheus" {
			t.Errorf("after %s a renewed key is not known: %q", keysInterval, got)
		}
	})
}

// TestGrowthOverTokens: 3,000 users with a token each, of whom none comes twice, fill
// each cache up to its bound and not beyond.
func TestGrowthOverTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := newIssuer(t, "key")
		s.Keys = a.keys
		most := map[string]int{}
		for i := range 3 * maxAnswers {
			s.from = remote(i)
			s.now = s.now.Add(100 * time.Millisecond) // more than the limits allow
			s.get("/metrics", fmt.Sprint("good-", i), "")
			s.from = remote(4*maxAnswers + i)
			s.get("/metrics", a.token(t, fmt.Sprint("team:robot-", i), s.now.Add(time.Hour)), "")
			synctest.Wait()
			for cache, n := range map[string]int{
				"answers": len(s.answers), "addresses": len(s.limits.origins), "users": len(s.signed.origins),
			} {
				most[cache] = max(most[cache], n)
			}
			if len(s.running) > 0 {
				t.Fatalf("%d reviews still run", len(s.running))
			}
		}
		for cache, n := range most {
			if n != maxAnswers {
				t.Errorf("%d users fill %d %s, want %d", 3*maxAnswers, n, cache, maxAnswers)
			}
		}
	})
}
