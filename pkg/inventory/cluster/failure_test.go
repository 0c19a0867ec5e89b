package cluster

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var explanations = []struct {
	name     string
	failures []failure
	want     []string
}{
	{"nothing", nil, nil},
	{
		"forbidden in the cluster",
		[]failure{{verb: "watch", resource: "namespaces", err: errForbidden, asOf: minuteTime(3)}},
		[]string{"namespaces: watch namespaces is forbidden: grant the verb watch on namespaces to system:serviceaccount:audit:audit; its last known state, of 2026-01-01T00:03:00Z, is kept"},
	},
	{
		"forbidden, of a cluster that is read once",
		[]failure{{verb: "list", resource: "namespaces", listOnly: true, err: errForbidden}},
		[]string{"namespaces: list namespaces is forbidden: grant the verb list on namespaces to system:serviceaccount:audit:audit; nothing is known of it"},
	},
	{
		"forbidden in two namespaces",
		inNamespaces("b", "a", "b"),
		[]string{"services: list services is forbidden in namespaces a, b: grant the verbs list and watch on services to system:serviceaccount:audit:audit; nothing is known of it"},
	},
	{
		"forbidden in many namespaces",
		inNamespaces("a", "b", "c", "d", "e", "f", "g"),
		[]string{"services: list services is forbidden in namespaces a, b, c, d, e and 2 more: grant the verbs list and watch on services to system:serviceaccount:audit:audit; nothing is known of it"},
	},
	{
		"a forbidden path",
		[]failure{{verb: "get", resource: "/version", err: errForbidden}},
		[]string{"/version: get /version is forbidden: grant the verb get on the non-resource URL /version to system:serviceaccount:audit:audit; nothing is known of it"},
	},
	{
		"an API server that is away, for all clients and each time alike",
		[]failure{
			{verb: "list", resource: "services", namespace: "a", err: unreachable(1001), asOf: minuteTime(5)},
			{verb: "watch", resource: "namespaces", err: unreachable(1002), asOf: minuteTime(4)},
			{verb: "list", resource: "apiservices", err: unreachable(1003)},
		},
		[]string{
			"API server: dial tcp 10.0.0.1:443: connection refused; its last known state, of 2026-01-01T00:04:00Z, is kept",
			"API server: dial tcp 10.0.0.1:443: connection refused; nothing is known of it",
		},
	},
	{
		"a proxy that is silent",
		[]failure{{verb: "list", resource: "services", err: &url.Error{Op: "Get", URL: "https://x", Err: context.DeadlineExceeded}}},
		[]string{"API server: context deadline exceeded; nothing is known of it"},
	},
	{
		"bad credentials",
		[]failure{{verb: "list", resource: "services", err: apierrors.NewUnauthorized("x")}, {verb: "get", resource: "/version", err: apierrors.NewUnauthorized("y")}},
		[]string{"API server: it does not accept the credentials (401 Unauthorized): renew the token or the certificate; nothing is known of it"},
	},
	{
		"a failure of the API server itself",
		[]failure{{verb: "list", resource: "services", err: apierrors.NewInternalError(errors.New("etcd is full")), asOf: minuteTime(1)}},
		[]string{"services: list services: Internal error occurred: etcd is full; its last known state, of 2026-01-01T00:01:00Z, is kept"},
	},
	{
		"a kind that went away",
		[]failure{{verb: "watch", resource: "apiservices", err: errAbsent, asOf: minuteTime(1)}},
		[]string{"apiservices: it is not served; its last known state, of 2026-01-01T00:01:00Z, is kept"},
	},
}

// unreachable is a refused connection from a port of this side.
func unreachable(local int) error {
	return &url.Error{Op: "Get", URL: "https://10.0.0.1:443/api?timeoutSeconds=411", Err: &net.OpError{
		Op: "dial", Net: "tcp",
		Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: local},
		Addr:   &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443},
		Err:    syscall.ECONNREFUSED,
	}}
}

func inNamespaces(namespaces ...string) []failure {
	var out []failure
	for _, ns := range namespaces {
		out = append(out, failure{verb: "list", resource: "services", namespace: ns, err: errForbidden})
	}
	return out
}

func TestExplain(t *testing.T) {
	for _, tt := range explanations {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, e := range errorsByCause(tt.failures) {
				got = append(got, e.Error())
			}
			expect.Equal(t, tt.want, got)
		})
	}
}

// TestFailuresLeaveUnread: whatever keeps a list from being read, what is on it is unknown,
// but for one that was read before.
func TestFailuresLeaveUnread(t *testing.T) {
	configurations := admissionv1.Resource("validatingwebhookconfigurations")
	for name, err := range map[string]error{
		"forbidden":    apierrors.NewForbidden(configurations, "", errors.New("no")),
		"unauthorized": apierrors.NewUnauthorized("no"),
		"error":        apierrors.NewInternalError(errors.New("etcd")),
		"timeout":      context.DeadlineExceeded,
	} {
		for _, asOf := range []time.Time{{}, time.Now()} {
			s := inventory.Objects{Errors: errorsByCause([]failure{{verb: "list", resource: configurations.String(), err: err, asOf: asOf}})}.Snapshot(time.Now())
			if s.Unread(inventory.Ref{Type: inventory.Validating, Configuration: "a"}) != asOf.IsZero() || s.Unread(inventory.Ref{Type: inventory.Mutating, Configuration: "a"}) {
				t.Errorf("%s, read at %v: %+v", name, asOf, s.Errors)
			}
		}
	}
}
