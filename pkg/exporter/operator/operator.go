// Package operator keeps the conditions of the operator over time, and writes
// them to the cluster: to clusteroperator/webhook-auditor and
// webhookaudit/cluster, with Events. It never writes to a webhook.
package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

// writeTimeout outlasts the longest timeout that a webhook may have: a shorter
// one would end the request before the API server names the webhook in its
// answer.
const writeTimeout = 35 * time.Second

// shutdownGrace is how long a write under way may go on after SIGTERM: long
// enough for a healthy API server.
const shutdownGrace = 5 * time.Second

// resyncPeriod is after what time an unchanged status is written again, so that
// what another client changed or deleted comes back.
const resyncPeriod = 5 * time.Minute

// followPeriod is how often a replica that does not write reads the conditions
// of the one that does.
const followPeriod = 30 * time.Second

type Options struct {
	// Identity is unique to this replica; Namespace is that of the lease. Without a
	// Namespace there is no election, and this replica writes.
	Identity, Namespace string
	Version             string
	Tracker             *Tracker
	History             *impact.History
	// Outcome is called after each attempt to write what is due: with how many writes
	// failed now, and with all that are still failing, each as of its last attempt. It
	// may not block.
	Outcome func(failed int, failing []error)
}

// Writer writes the conditions to a cluster. NewWriter makes it. Notify may be
// called by any goroutine; Run is called once.
type Writer struct {
	options Options
	clients
	lease  *lease
	now    func() time.Time
	wakeup chan struct{}

	events     findingEvents
	eventLimit *rate.Limiter
	changes    changeEvents
	statuses   map[string]*status
	// leading is set while this replica writes, elected once that was decided since
	// the last tick.
	leading, elected bool
	// followed is when this replica last read the conditions of another one.
	followed time.Time
	// failing are the operations that failed when they were last tried: one that is not
	// due is not one that works again. failed counts the failures since the last outcome.
	failing map[string]error
	failed  int
}

func NewWriter(config *rest.Config, o Options) (*Writer, error) {
	config = rest.CopyConfig(config)
	config.Timeout = writeTimeout
	config.WarningHandler = rest.NoWarnings{}
	d, err1 := dynamic.NewForConfig(config)
	core, err2 := client.Group(config, nil, corev1.SchemeGroupVersion)
	coordination, err3 := client.Group(config, nil, coordinationv1.SchemeGroupVersion)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("preparing to write to %s: %w", config.Host, err)
	}
	return newWriter(clients{d, core, coordination}, o, time.Now), nil
}

type clients struct {
	dynamic            dynamic.Interface
	core, coordination rest.Interface
}

func newWriter(c clients, o Options, now func() time.Time) *Writer {
	w := &Writer{
		options: o,
		clients: c,
		now:     now,
		wakeup:  make(chan struct{}, 1),
		events:  newFindingEvents(),

		eventLimit: newEventLimiter(),
		changes:    changeEvents{history: o.History},
		statuses:   map[string]*status{},

		failing: map[string]error{},
	}
	if o.Namespace != "" {
		w.lease = &lease{
			client: client.Of[coordinationv1.Lease](c.coordination, "leases", o.Namespace), name: manager,
			identity: o.Identity, now: now,
		}
	}
	return w
}

// Seed continues the conditions that the cluster has, so that the first scrape
// shows what was true before this process started. Without an answer within the
// grace the history begins anew; the Writer reads again before it writes.
func (w *Writer) Seed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	w.follow(ctx, slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return w.lacks(ctx, t) }))
}

// lacks reports whether the API server does not serve the API of the target: to ask it
// for an object of OpenShift would be refused elsewhere, and stand in its audit log.
func (w *Writer) lacks(ctx context.Context, t target) bool {
	return absent(w.core.Get().AbsPath("/apis", t.Group, t.Version).Do(ctx).Error())
}

// Notify makes the Writer write another Report of the Tracker. It never blocks.
func (w *Writer) Notify() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// Run writes until the context ends, and then gives the lease up. The write
// under way is finished first, unless it takes longer than the grace.
func (w *Writer) Run(ctx context.Context) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(shutdownGrace, cancel) })()
	ticker := time.NewTicker(leaseInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-w.wakeup:
			w.write(writing)
		case <-ticker.C:
			w.elected = false
			w.write(writing)
		}
	}
	w.leave(writing)
}

func (w *Writer) leave(ctx context.Context) {
	if w.lease == nil || !w.leading {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaseInterval)
	defer cancel()
	w.note("lease", w.lease.release(ctx))
	w.reportOutcome(ctx)
}

func (w *Writer) elect(ctx context.Context) {
	w.elected = true
	if w.lease == nil {
		w.leading = true
		return
	}
	leading, err := w.lease.try(ctx)
	w.leading = leading
	w.note("lease", err)
}

// write writes what is due, if this replica is the one that writes. The lease is kept
// at each tick, however often Reports come.
func (w *Writer) write(ctx context.Context) {
	report := w.options.Tracker.Current(w.now())
	if report == nil {
		return
	}
	if !w.elected {
		w.elect(ctx)
	}
	if w.leading {
		w.writeStatuses(ctx, report)
		w.writeEvents(ctx, report)
	} else {
		w.standBy(ctx, report)
	}
	w.reportOutcome(ctx)
}

func (w *Writer) writeEvents(ctx context.Context, report *classify.Report) {
	events := client.Of[corev1.Event](w.core, "events", eventNamespace)
	record := &recorder{create: events.Create, limiter: w.eventLimit}
	err := w.events.flush(ctx, record, report, w.now())
	if err == nil { // what blocks one blocks them all
		err = w.changes.flush(ctx, record, w.now())
	}
	if errors.Is(err, errLimited) {
		err = nil
	}
	if record.tried {
		w.note("events", err)
	}
}

func (w *Writer) standBy(ctx context.Context, report *classify.Report) {
	w.events = newFindingEvents()
	w.changes.last = w.changes.history.Last() // what changed until now is for the replica that writes
	clear(w.statuses)
	maps.DeleteFunc(w.failing, func(operation string, _ error) bool { return operation != "lease" })
	if w.now().Sub(w.followed) < followPeriod {
		return
	}
	isUnserved := func(t target) bool { return !t.servedBy(report.Snapshot) }
	served := slices.DeleteFunc(slices.Clone(targets), isUnserved)
	w.follow(ctx, served)
}

// follow adopts the conditions of the first target that has any. One that
// cannot be read is left out: the replica that writes reports that.
func (w *Writer) follow(ctx context.Context, targets []target) {
	w.followed = w.now()
	for _, t := range targets {
		if found, err := t.read(ctx, w.dynamic); err == nil && len(found.conditions) > 0 {
			w.options.Tracker.adopt(found)
			return
		}
	}
}

func (w *Writer) note(operation string, err error) {
	delete(w.failing, operation)
	if err != nil {
		w.failing[operation] = err
		w.failed++
	}
}

// reportOutcome reports what fails. What was cut short by SIGTERM is no failure.
func (w *Writer) reportOutcome(ctx context.Context) {
	if ctx.Err() == nil {
		w.options.Outcome(w.failed, slices.Collect(maps.Values(w.failing)))
	}
	w.failed = 0
}

// owners makes our own namespace the owner of what is created: a user who
// uninstalls the program by deleting its namespace leaves no ClusterOperator
// behind, which would page for ever. Without the permission to list namespaces
// there is no owner; the watch of namespaces reports that.
func (w *Writer) owners(ctx context.Context) []metav1.OwnerReference {
	if w.options.Namespace == "" {
		return nil
	}
	found, err := client.Lister[corev1.Namespace, corev1.NamespaceList](w.core, "namespaces", "").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.options.Namespace).String(),
	})
	if err != nil || len(found.Items) != 1 {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: found.Items[0].Name, UID: found.Items[0].UID}}
}

func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// blocked matches the API server's error when a webhook caused a refusal.
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/errors and
// mutating/validating dispatchers.
var blocked = regexp.MustCompile(`failed calling webhook "([^"]+)"|admission webhook "([^"]+)" denied the request`)

// Blocker returns the name of the webhook that refused a request, "" if it was
// something else.
func Blocker(err error) string {
	if err == nil {
		return ""
	}
	m := blocked.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}
