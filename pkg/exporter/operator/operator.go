// Package operator writes what a Report says to the cluster: the conditions of
// clusteroperator/webhook-auditor and webhookaudit/cluster, and Events. It never
// writes to a webhook.
package operator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
)

// patience outlasts the longest timeout that a webhook may have: a shorter one
// would end the request before the API server names the webhook in its answer.
const patience = 35 * time.Second

// grace is how long a write under way may go on after our own end was asked
// for: long enough for an API server that is well.
const grace = 5 * time.Second

// refresh is after what time an unchanged status is written again, so that what
// somebody else changed or deleted comes back.
const refresh = 5 * time.Minute

// Options are what a Writer needs to know.
type Options struct {
	// Identity tells this replica from the others; Namespace is where the lease
	// is. Without a Namespace there is no election, and this replica writes.
	Identity, Namespace string
	// Version is the version of this program.
	Version string
	RollUp  exporter.RollUp
	Inertia time.Duration
	// Failed is told of each write that failed, and Mended of the first that
	// worked again. Neither may block.
	Failed func(error)
	Mended func()
}

// Writer writes Reports to a cluster. NewWriter makes it. Publish may be called
// by any goroutine; Run is called once.
type Writer struct {
	options Options
	dynamic dynamic.Interface
	core    coreclient.CoreV1Interface
	lease   *lease
	owners  []metav1.OwnerReference

	latest atomic.Pointer[classify.Report]
	poke   chan struct{}

	announcer announcer
	written   map[string]entry
	failing   bool
}

// entry is what was last written to a target, and when.
type entry struct {
	previous
	totals classify.Totals
	at     time.Time
}

// NewWriter returns a Writer to the cluster of the config.
func NewWriter(config *rest.Config, o Options) (*Writer, error) {
	config = rest.CopyConfig(config)
	config.Timeout = patience
	config.WarningHandler = rest.NoWarnings{}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to write to %s: %w", config.Host, err)
	}
	core, err := coreclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to write to %s: %w", config.Host, err)
	}
	coordination, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to write to %s: %w", config.Host, err)
	}
	return newWriter(clients{d, core, coordination}, o), nil
}

// clients are those that are needed: a clientset would bring the code of all.
type clients struct {
	dynamic      dynamic.Interface
	core         coreclient.CoreV1Interface
	coordination coordinationclient.CoordinationV1Interface
}

func newWriter(c clients, o Options) *Writer {
	w := &Writer{options: o, dynamic: c.dynamic, core: c.core, poke: make(chan struct{}, 1), written: map[string]entry{}}
	if o.Namespace != "" {
		w.lease = &lease{client: c.coordination.Leases(o.Namespace), name: manager, identity: o.Identity, now: time.Now}
	}
	return w
}

// Publish hands over the newest Report. It never blocks.
func (w *Writer) Publish(r *classify.Report) {
	w.latest.Store(r)
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// Run writes until the context ends, and then gives the lease up. The write
// under way is finished first, unless it takes longer than anybody waits.
func (w *Writer) Run(ctx context.Context) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	ticker := time.NewTicker(leaseInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-w.poke:
			w.step(writing)
		case <-ticker.C:
			w.step(writing)
		}
	}
	w.leave(writing)
}

// leave gives the lease up, so that the other replica need not wait.
func (w *Writer) leave(ctx context.Context) {
	if w.lease == nil || !w.lease.leading {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaseInterval)
	defer cancel()
	if err := w.lease.release(ctx); err != nil {
		w.options.Failed(err)
	}
}

// step writes what is due, if it is on this replica to write.
func (w *Writer) step(ctx context.Context) {
	report := w.latest.Load()
	if report == nil {
		return
	}
	w.announcer.note(report)
	leading, err := true, error(nil)
	if w.lease != nil {
		leading, err = w.lease.try(ctx)
	}
	errs := []error{err}
	if leading {
		errs = append(errs, w.writeAll(ctx, report), w.announcer.announce(ctx, w.core.Events(eventNamespace)))
	} else {
		w.announcer.leave(report.Snapshot.Taken)
		clear(w.written)
	}
	w.conclude(ctx, errors.Join(errs...))
}

// conclude tells of failures, and once when writing works again. What was cut
// short by our own end is no failure.
func (w *Writer) conclude(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.failing = true
		w.options.Failed(err)
	case w.failing:
		w.failing = false
		w.options.Mended()
	}
}

func (w *Writer) writeAll(ctx context.Context, r *classify.Report) error {
	var errs []error
	for _, t := range targets {
		if !t.servedBy(r.Snapshot) {
			delete(w.written, t.kind)
			continue
		}
		if err := w.writeOne(ctx, t, r); err != nil && !absent(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// writeOne writes a target if its conditions changed or nobody wrote it for a
// while.
func (w *Writer) writeOne(ctx context.Context, t target, r *classify.Report) error {
	before, known := w.written[t.kind]
	if !known {
		found, err := t.read(ctx, w.dynamic)
		if err != nil && !absent(err) {
			return err
		}
		before.previous = found
	}
	conditions := exporter.Conditions(r, before.conditions, exporter.ConditionOptions{
		RollUp:     w.options.RollUp,
		Inertia:    w.options.Inertia,
		Now:        time.Now(),
		RollingOut: before.version != "" && before.version != w.options.Version,
	})
	due := !known || changed(before.conditions, conditions) || before.totals != r.Totals() || time.Since(before.at) > refresh
	if !due {
		return nil
	}
	status, err := t.statusOf(w.options, r, conditions)
	if err != nil {
		return err
	}
	owners := w.ownersOf(ctx)
	if err := t.write(ctx, w.dynamic, owners, status); err != nil {
		return err
	}
	now := previous{conditions, w.options.Version, before.owners}
	if len(owners) > 0 && !owns(owners[0], before.owners) {
		// A status may be written where the object itself may not.
		if err = t.create(ctx, w.dynamic, owners); err == nil {
			now.owners = owners
		}
	}
	w.written[t.kind] = entry{now, r.Totals(), time.Now()}
	return err
}

// ownersOf makes our own namespace the owner of what is written: whoever
// uninstalls the program by deleting its namespace leaves no ClusterOperator
// behind, which would page for ever.
func (w *Writer) ownersOf(ctx context.Context) []metav1.OwnerReference {
	if w.owners != nil || w.options.Namespace == "" {
		return w.owners
	}
	found, err := w.core.Namespaces().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.options.Namespace).String(),
	})
	if err != nil || len(found.Items) != 1 {
		return nil
	}
	w.owners = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: found.Items[0].Name, UID: found.Items[0].UID}}
	return w.owners
}
