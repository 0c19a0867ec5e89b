package operator

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// eventNamespace is where Events on cluster-scoped objects live.
const eventNamespace = metav1.NamespaceDefault

// maxEvents bounds what one Report can cause: Events are for people.
const maxEvents = 50

// transition is a critical finding that appeared or went.
type transition struct {
	finding classify.Finding
	object  inventory.Object
	gone    bool
	at      time.Time
	// standing is set for what the first Report of this process finds: it may
	// have come long before.
	standing bool
}

// identity is what makes two findings the same over time.
type identity struct {
	check    string
	webhook  inventory.Ref
	resource inventory.Resource
}

func critical(r *classify.Report) map[identity]classify.Finding {
	out := map[identity]classify.Finding{}
	if r == nil {
		return out
	}
	for _, f := range r.Findings {
		if f.Severity == classify.Critical && !f.Acknowledged {
			out[identity{f.Check.Name, f.Webhook, f.Resource}] = f
		}
	}
	return out
}

// transitions returns the critical findings that came or went, sorted.
func transitions(before, now *classify.Report) []transition {
	had, have := critical(before), critical(now)
	var out []transition
	for id, f := range have {
		if _, ok := had[id]; !ok {
			out = append(out, transition{finding: f, at: now.Snapshot.Taken, standing: before == nil})
		}
	}
	for id, f := range had {
		if _, ok := have[id]; !ok {
			out = append(out, transition{finding: f, gone: true, at: now.Snapshot.Taken})
		}
	}
	slices.SortFunc(out, func(a, b transition) int {
		return strings.Compare(a.key(), b.key())
	})
	out = out[:min(len(out), maxEvents)]
	for i, t := range out {
		out[i].object = objectOf(t.finding.Webhook, now)
		if t.gone {
			out[i].object = objectOf(t.finding.Webhook, before)
		}
	}
	return out
}

func objectOf(webhook inventory.Ref, r *classify.Report) inventory.Object {
	i := slices.IndexFunc(r.Snapshot.Webhooks, func(w inventory.Webhook) bool { return w.Ref == webhook })
	if i < 0 {
		return inventory.Object{}
	}
	return r.Snapshot.Webhooks[i].Object
}

func (t transition) key() string {
	return fmt.Sprint(t.gone, t.finding.Check.Name, t.finding.Webhook, t.finding.Resource)
}

// announcer records Events for critical findings that come and go, and loses
// none while the API server or a webhook refuses them.
type announcer struct {
	// seen is the last Report that was compared.
	seen *classify.Report
	// pending are the transitions that are not recorded yet, oldest first.
	pending []transition
}

// note compares a Report with the one before.
func (a *announcer) note(r *classify.Report) {
	if r == a.seen {
		return
	}
	a.pending = append(a.pending, transitions(a.seen, r)...)
	a.pending = a.pending[max(0, len(a.pending)-maxEvents):]
	a.seen = r
}

// announce records what is pending. It stops at the first failure: what blocks
// one Event blocks them all, perhaps for ten seconds each.
func (a *announcer) announce(ctx context.Context, events coreclient.EventInterface) error {
	for len(a.pending) > 0 {
		event := a.pending[0].event()
		_, err := events.Create(ctx, event, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("recording an Event on %s: %w", event.InvolvedObject.Name, err)
		}
		a.pending = a.pending[1:]
	}
	return nil
}

// leave drops what the replica that leads has had the time to record. What is
// younger is kept, for that replica may have died.
func (a *announcer) leave(now time.Time) {
	a.pending = slices.DeleteFunc(a.pending, func(t transition) bool { return now.Sub(t.at) > 2*leaseDuration })
}

// apiVersions of the objects that register webhooks.
var apiVersions = map[string]string{
	inventory.KindValidating: "admissionregistration.k8s.io/v1",
	inventory.KindMutating:   "admissionregistration.k8s.io/v1",
	inventory.KindCRD:        "apiextensions.k8s.io/v1",
}

func kindOf(t inventory.Type) string {
	switch t {
	case inventory.Mutating:
		return inventory.KindMutating
	case inventory.Validating:
		return inventory.KindValidating
	}
	return inventory.KindCRD
}

// name is the same for the same transition within a minute, so that two
// replicas that both believe they lead record it once. What stands has the same
// name always, so that a process that starts again and again records it once.
func (t transition) name() string {
	h := fnv.New64a()
	fmt.Fprint(h, t.key())
	if t.standing {
		fmt.Fprint(h, t.object.UID)
	} else {
		fmt.Fprint(h, t.at.Truncate(time.Minute).Unix())
	}
	return fmt.Sprintf("webhook-auditor.%016x", h.Sum64())
}

func (t transition) event() *corev1.Event {
	f, at := t.finding, metav1.NewTime(t.at)
	kind, reason, message := corev1.EventTypeWarning, "CriticalFinding", fmt.Sprintf("%s: webhook %s %s", f.Check.Name, f.Webhook.Name, f.Message)
	if t.gone {
		kind, reason, message = corev1.EventTypeNormal, "CriticalFindingGone", fmt.Sprintf("%s: no longer true of webhook %s", f.Check.Name, f.Webhook.Name)
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: t.name(), Namespace: eventNamespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersions[kindOf(f.Webhook.Type)],
			Kind:       kindOf(f.Webhook.Type),
			Name:       f.Webhook.Configuration,
			UID:        types.UID(t.object.UID),
		},
		Type:           kind,
		Reason:         reason,
		Message:        strings.ToValidUTF8(message[:min(len(message), 1024)], ""),
		Source:         corev1.EventSource{Component: manager},
		FirstTimestamp: at,
		LastTimestamp:  at,
		Count:          1,
	}
}
