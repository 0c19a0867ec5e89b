package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The times of the lease: how long it is valid without a renewal, and how often
// each replica reads it.
const (
	leaseDuration = 15 * time.Second
	leaseInterval = 2 * time.Second
)

type leases interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// lease decides which replica writes. It is not client-go's leader election,
// which steps down when a renewal fails: under a dead catch-all webhook no
// renewal succeeds, while the conditions, whose writes still work, are needed
// most. Writing is idempotent (server-side apply, one field manager), so two
// writers are harmless, and none is not. Hence a holder keeps
// writing until it sees another one.
type lease struct {
	client   leases
	name     string
	identity string
	now      func() time.Time
	// lastSpec is the last state of the lease, and changed the time since which it has
	// been the same.
	lastSpec coordinationv1.LeaseSpec
	changed  time.Time
	leading  bool
}

// try reads the lease once and reports whether this replica writes. An error is
// why the lease cannot be renewed, which is not losing it.
func (l *lease) try(ctx context.Context) (bool, error) {
	found, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return l.result(l.create(ctx))
	case err != nil:
		return l.result(fmt.Errorf("reading lease %s: %w", l.name, err))
	}
	l.observe(found.Spec)
	if !l.mine(found.Spec) && !l.expired() {
		l.leading = false
		return false, nil
	}
	return l.result(l.take(ctx, found))
}

// observe notes when the lease last changed, by our own clock: that of the
// holder may be wrong.
func (l *lease) observe(spec coordinationv1.LeaseSpec) {
	if !same(spec, l.lastSpec) || l.changed.IsZero() {
		l.lastSpec, l.changed = spec, l.now()
	}
}

func same(a, b coordinationv1.LeaseSpec) bool {
	return ptr.Deref(a.HolderIdentity, "") == ptr.Deref(b.HolderIdentity, "") && a.RenewTime.Equal(b.RenewTime)
}

func (l *lease) mine(spec coordinationv1.LeaseSpec) bool {
	return ptr.Deref(spec.HolderIdentity, "") == l.identity
}

func (l *lease) expired() bool {
	return ptr.Deref(l.lastSpec.HolderIdentity, "") == "" || l.now().Sub(l.changed) > leaseDuration
}

// result is that of an attempt to hold the lease. A replica that lost a race saw
// another holder; one that the API server refused for any other reason (a webhook, a
// policy, a quota, a missing permission) did not, and leads. One that had no answer stays
// as it was.
func (l *lease) result(err error) (bool, error) {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		l.leading = true
	case Blocker(err) == "" && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)):
		return false, nil // the next read shows the holder
	case errors.As(err, &answer):
		l.leading = true // two writers are harmless, none is not
	}
	return l.leading, err
}

func (l *lease) create(ctx context.Context) error {
	spec := l.spec(coordinationv1.LeaseSpec{})
	_, err := l.client.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.name}, Spec: spec},
		metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating lease %s: %w", l.name, err)
	}
	l.observe(spec)
	return nil
}

// take renews our own lease, or takes over an expired one; the resourceVersion
// lets one of several win.
func (l *lease) take(ctx context.Context, found *coordinationv1.Lease) error {
	held := found.DeepCopy()
	held.Spec = l.spec(found.Spec)
	updated, err := l.client.Update(ctx, held, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("renewing lease %s: %w", l.name, err)
	}
	l.observe(updated.Spec)
	return nil
}

func (l *lease) spec(before coordinationv1.LeaseSpec) coordinationv1.LeaseSpec {
	now := metav1.NewMicroTime(l.now())
	seconds := int32(leaseDuration / time.Second)
	after := *before.DeepCopy()
	if !l.mine(before) {
		transitions := ptr.Deref(before.LeaseTransitions, 0) + 1
		after.AcquireTime, after.LeaseTransitions = &now, &transitions
	}
	after.HolderIdentity, after.LeaseDurationSeconds, after.RenewTime = &l.identity, &seconds, &now
	return after
}

// release gives the lease up on a clean stop, so that the other replica need
// not wait for it to expire.
func (l *lease) release(ctx context.Context) error {
	found, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if err != nil || !l.mine(found.Spec) {
		return err
	}
	seconds := int32(1)
	found.Spec.HolderIdentity, found.Spec.LeaseDurationSeconds = new(string), &seconds
	_, err = l.client.Update(ctx, found, metav1.UpdateOptions{})
	return err
}
