package operator

import (
	"errors"
	"testing"
)

func TestBlocker(t *testing.T) {
	for message, name := range map[string]string{
		`Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post "https://x.y.svc:443/": dial tcp: no route`: "a.example.com",
		`admission webhook "b.example.com" denied the request: no`:                                                                                 "b.example.com",
		`leases.coordination.k8s.io "x" is forbidden: User "u" cannot update resource`:                                                             "",
	} {
		if got := Blocker(errors.New(message)); got != name {
			t.Errorf("%s: %q, want %q", message, got, name)
		}
	}
	if Blocker(nil) != "" {
		t.Error("no error, no webhook")
	}
}
