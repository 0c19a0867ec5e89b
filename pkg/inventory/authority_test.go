package inventory

import (
	"slices"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
)

func TestAuthority(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	first, last := now.Add(time.Hour), now.Add(2*time.Hour)
	both := certtest.Bundle(t, last, first)
	junk := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	key := []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	for name, tc := range map[string]struct {
		bundle                         []byte
		notAfter                       time.Time
		certificates                   int
		placeholder, blanked, tooLarge bool
	}{
		"not PEM":         {bundle: []byte("hello")},
		"not parsable":    {bundle: junk},
		"line break":      {bundle: []byte("\n"), placeholder: true},
		"written out":     {bundle: []byte(`\n`), placeholder: true},
		"blanked":         {bundle: []byte("xxxx"), blanked: true},
		"too large":       {bundle: make([]byte, maxBundle+1), tooLarge: true},
		"expired":         {bundle: certtest.Bundle(t, now.AddDate(-3, 0, 0)), notAfter: now.AddDate(-3, 0, 0), certificates: 1},
		"rotation":        {bundle: both, notAfter: last, certificates: 2},
		"among other PEM": {bundle: slices.Concat(key, junk, both, []byte("trailing")), notAfter: last, certificates: 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := readAuthority(tc.bundle)
			if !a.NotAfter.Equal(tc.notAfter) || len(a.Certificates) != tc.certificates {
				t.Errorf("%d certificates until %v, want %d until %v", len(a.Certificates), a.NotAfter, tc.certificates, tc.notAfter)
			}
			if a.Placeholder != tc.placeholder || a.Blanked != tc.blanked || a.TooLarge != tc.tooLarge {
				t.Errorf("placeholder %v, blanked %v, too large %v", a.Placeholder, a.Blanked, a.TooLarge)
			}
		})
	}
	if readAuthority(nil) != nil {
		t.Error("an empty bundle is none")
	}
}
