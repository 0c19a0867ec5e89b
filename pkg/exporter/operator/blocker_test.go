package operator

import (
	"errors"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

func TestBlocker(t *testing.T) {
	expect.Results(t, func(message string) string { return Blocker(errors.New(message)) }, map[string]string{
		`Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post "https://x.y.svc:443/": dial tcp: no route`: "a.example.com",
		`admission webhook "b.example.com" denied the request: no`:                                                                                 "b.example.com",
		`leases.coordination.k8s.io "x" is forbidden: User "u" cannot update resource`:                                                             "",
	})
	if Blocker(nil) != "" {
		t.Error("no error, no webhook")
	}
}
