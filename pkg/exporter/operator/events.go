package operator

import (
	"context"
	"errors"
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
	gone    bool
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
			out = append(out, transition{finding: f})
		}
	}
	for id, f := range had {
		if _, ok := have[id]; !ok {
			out = append(out, transition{finding: f, gone: true})
		}
	}
	slices.SortFunc(out, func(a, b transition) int {
		return strings.Compare(a.key(), b.key())
	})
	return out[:min(len(out), maxEvents)]
}

func (t transition) key() string {
	return fmt.Sprint(t.gone, t.finding.Check.Name, t.finding.Webhook, t.finding.Resource)
}

// announce writes an Event on the configuration for each transition.
func announce(ctx context.Context, events coreclient.EventInterface, now *classify.Report, list []transition) error {
	objects := map[inventory.Ref]inventory.Object{}
	for _, p := range now.Profiles {
		objects[p.Ref] = p.Object
	}
	var errs []error
	for _, t := range list {
		_, err := events.Create(ctx, t.event(objects[t.finding.Webhook], now.Snapshot.Taken), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("recording an Event on %s: %w", t.finding.Webhook.Configuration, err))
		}
	}
	return errors.Join(errs...)
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

// name is the same for the same transition, so that two replicas that both
// believe they lead record it once.
func (t transition) name(now time.Time) string {
	h := fnv.New64a()
	fmt.Fprint(h, t.key(), now.Unix())
	return fmt.Sprintf("webhook-auditor.%016x", h.Sum64())
}

func (t transition) event(object inventory.Object, now time.Time) *corev1.Event {
	f, at := t.finding, metav1.NewTime(now)
	kind, reason, message := corev1.EventTypeWarning, "CriticalFinding", fmt.Sprintf("%s: webhook %s %s", f.Check.Name, f.Webhook.Name, f.Message)
	if t.gone {
		kind, reason, message = corev1.EventTypeNormal, "CriticalFindingGone", fmt.Sprintf("%s: no longer true of webhook %s", f.Check.Name, f.Webhook.Name)
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: t.name(now), Namespace: eventNamespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersions[kindOf(f.Webhook.Type)],
			Kind:       kindOf(f.Webhook.Type),
			Name:       f.Webhook.Configuration,
			UID:        types.UID(object.UID),
		},
		Type:           kind,
		Reason:         reason,
		Message:        message[:min(len(message), 1024)],
		Source:         corev1.EventSource{Component: "webhook-auditor"},
		FirstTimestamp: at,
		LastTimestamp:  at,
		Count:          1,
	}
}
