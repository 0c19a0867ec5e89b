package operator

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

const namespace = "webhook-auditor"

// clock is a clock that only a test moves.
type clock struct{ now time.Time }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

// storedLease is an API server with one Lease, whose resourceVersion is a counter.
type storedLease struct {
	lease   *coordinationv1.Lease
	version int
	// refusal is the answer to each write.
	refusal error
}

func (s *storedLease) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	if s.lease == nil {
		return nil, apierrors.NewNotFound(leasesResource, manager)
	}
	return s.lease.DeepCopy(), nil
}

func (s *storedLease) Create(_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if s.refusal == nil && s.lease != nil {
		return nil, apierrors.NewAlreadyExists(leasesResource, manager)
	}
	return s.write(l)
}

func (s *storedLease) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if s.refusal == nil && l.ResourceVersion != s.lease.ResourceVersion {
		return nil, apierrors.NewConflict(leasesResource, manager, errors.New("modified"))
	}
	return s.write(l)
}

func (s *storedLease) write(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if s.refusal != nil {
		return nil, s.refusal
	}
	s.version++
	s.lease = l.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	return s.lease.DeepCopy(), nil
}

var leasesResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

type replicas struct {
	server *storedLease
	clock
	a, b *lease
}

func newReplicas() *replicas {
	r := &replicas{server: &storedLease{}, clock: clock{time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}}
	one := func(identity string) *lease {
		return &lease{client: r.server, name: manager, identity: identity, now: func() time.Time { return r.now }}
	}
	r.a, r.b = one("a"), one("b")
	return r
}

// block makes every write of a lease fail with the error.
func (r *replicas) block(err error) { r.server.refusal = err }

func (r *replicas) heal() { r.server.refusal = nil }

var (
	errDead        = apierrors.NewInternalError(errors.New(`failed calling webhook "all.example.com": failed to call webhook: service "gone" not found`))
	errUnreachable = errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")
)

// leads tries and returns who leads.
func leads(t *testing.T, l *lease) bool {
	t.Helper()
	leading, err := l.try(context.Background())
	if err != nil {
		t.Logf("%s: %v", l.identity, err)
	}
	return leading
}

func want(t *testing.T, when string, l *lease, leading bool) {
	t.Helper()
	if got := leads(t, l); got != leading {
		t.Errorf("%s: %s leads: %v, want %v", when, l.identity, got, leading)
	}
}

func TestTheOtherTakesOver(t *testing.T) {
	r := newReplicas()
	want(t, "at first", r.a, true)
	want(t, "at first", r.b, false)
	r.pass(leaseDuration + time.Second)
	want(t, "after a died", r.b, true)
	want(t, "when a comes back", r.a, false)
}

func TestACleanStopHandsOver(t *testing.T) {
	r := newReplicas()
	want(t, "at first", r.a, true)
	want(t, "at first", r.b, false)
	must.Succeed(t, r.a.release(context.Background()))
	want(t, "at once", r.b, true)
}

// TestTheHolderGoesOnUnderADeadWebhook: a renewal that a webhook refuses is not
// a lease lost to another holder.
func TestTheHolderGoesOnUnderADeadWebhook(t *testing.T) {
	for name, err := range map[string]error{"dead catch-all": errDead, "server away": errUnreachable} {
		t.Run(name, func(t *testing.T) {
			r := newReplicas()
			want(t, "at first", r.a, true)
			want(t, "at first", r.b, false)
			r.block(err)
			for range 20 {
				want(t, "blocked", r.a, true)
				r.pass(leaseInterval)
			}
			r.heal()
			want(t, "healed", r.a, true)
		})
	}
}

// refusals are the answers by which an API server keeps a lease from being written.
var refusals = map[string]error{
	"dead webhook":         errDead,
	"webhook that has 409": &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 409, Reason: metav1.StatusReasonConflict, Message: `admission webhook "all.example.com" denied the request: no`}},
	"policy":               apierrors.NewInvalid(schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, manager, field.ErrorList{field.Invalid(nil, nil, "ValidatingAdmissionPolicy 'no-leases' with binding 'no-leases' denied request: no")}),
	"policy of 401":        apierrors.NewUnauthorized("ValidatingAdmissionPolicy 'no-leases' with binding 'no-leases' denied request: no"),
	"policy of 413":        apierrors.NewRequestEntityTooLargeError("ValidatingAdmissionPolicy 'no-leases' with binding 'no-leases' denied request: no"),
	"quota or RBAC":        apierrors.NewForbidden(leasesResource, manager, errors.New("exceeded quota: none")),
	"no such namespace":    apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace),
	"too many requests":    apierrors.NewTooManyRequests("later", 1),
	"deadline":             apierrors.NewTimeoutError("timed out", 1),
	"etcd away":            apierrors.NewInternalError(errors.New("etcdserver: no leader")),
	"unknown bad answer":   apierrors.NewGenericServerResponse(502, "PUT", schema.GroupResource{Resource: "leases"}, manager, "", 0, true),
}

// TestSomebodyWritesAfterARestartUnderARefusal: the old holder is gone and the lease
// cannot be taken; no writer would be worse than two.
func TestSomebodyWritesAfterARestartUnderARefusal(t *testing.T) {
	for name, err := range refusals {
		t.Run(name, func(t *testing.T) {
			r := newReplicas()
			want(t, "at first", r.a, true)
			r.block(err)
			want(t, "while the old holder may live", r.b, false)
			r.pass(leaseDuration + time.Second)
			want(t, "when it has expired", r.b, true)
			r.heal()
			want(t, "healed", r.b, true)
			want(t, "the old one, back", r.a, false)
		})
	}
}

// TestSomebodyWritesWhereNoLeaseCanBeCreated: each replica leads from the start.
func TestSomebodyWritesWhereNoLeaseCanBeCreated(t *testing.T) {
	for name, err := range refusals {
		r := newReplicas()
		r.block(err)
		want(t, name, r.a, true)
		want(t, name, r.b, true)
	}
}

// TestAnUnreachableServerMakesNoLeader: who never led does not begin to.
func TestAnUnreachableServerMakesNoLeader(t *testing.T) {
	r := newReplicas()
	r.block(errUnreachable)
	want(t, "from the start", r.a, false)
}

// TestASkewedHolder stamps its renewals ten minutes ahead, or behind: only its
// changes count, by our own clock.
func TestASkewedHolder(t *testing.T) {
	for _, skew := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		r := newReplicas()
		r.a.now = func() time.Time { return r.now.Add(skew) }
		want(t, "at first", r.a, true)
		for range 20 {
			want(t, "while it renews", r.b, false)
			want(t, "while it renews", r.a, true)
			r.pass(leaseInterval)
		}
		want(t, "at its last renewal", r.b, false)
		r.pass(leaseDuration + time.Second)
		want(t, "after it died", r.b, true)
	}
}

// TestOneWinsTheRace: both see an expired lease; the resourceVersion decides.
func TestOneWinsTheRace(t *testing.T) {
	r := newReplicas()
	holder, seconds := "gone", int32(15)
	stale := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: manager, Namespace: namespace}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds}}
	must.Get(r.server.write(stale))(t)
	want(t, "before it expired", r.a, false)
	want(t, "before it expired", r.b, false)
	r.pass(leaseDuration + time.Second)
	want(t, "after", r.a, true)
	want(t, "after", r.b, false)
}
