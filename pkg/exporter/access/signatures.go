package access

import (
	"context"
	"encoding/json"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// keysInterval is how often the keys are read at most: unknown users choose the key
// that their tokens name.
const keysInterval = time.Minute

// signatureAlgorithms are those with which an API server, or who signs for it, may sign
// tokens of ServiceAccounts.
var signatureAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// signer holds the keys that the API server signs tokens with.
type signer struct {
	keys jose.JSONWebKeySet
	// read is when they were read last, or began to be.
	read time.Time
}

// subject is the user of a token that the API server has signed and that has not
// expired, else "". It is no proof: the token may have been revoked, or be for another
// audience. Where its key is not known, the keys are read for the next request.
func (v *Reviewer) subject(token string) string {
	signed, err := jwt.ParseSigned(token, signatureAlgorithms)
	if err != nil || v.Keys == nil {
		return ""
	}
	keys, ok := v.keysFor(signed.Headers[0].KeyID)
	var claims jwt.Claims
	if !ok || signed.Claims(keys, &claims) != nil || claims.Validate(jwt.Expected{Time: v.Now()}) != nil {
		return ""
	}
	return claims.Subject
}

// keysFor returns the keys if one of them has the ID, and else begins to read them.
func (v *Reviewer) keysFor(id string) (jose.JSONWebKeySet, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := len(v.signer.keys.Key(id)) > 0
	if now := v.Now(); !known && now.Sub(v.signer.read) >= keysInterval {
		v.signer.read = now
		go v.readKeys()
	}
	return v.signer.keys, known
}

// readKeys replaces the keys. Where the API server does not publish them, or not to us,
// the limits of unknown users hold for all.
func (v *Reviewer) readKeys() {
	ctx, cancel := context.WithTimeout(context.Background(), reviewTimeout)
	defer cancel()
	text, err := v.Keys(ctx)
	var keys jose.JSONWebKeySet
	if err != nil || json.Unmarshal(text, &keys) != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.signer.keys = keys
}
