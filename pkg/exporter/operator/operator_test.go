package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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

// down is a Report on a webhook whose Service is missing.
func down() *classify.Report {
	return classify.DefaultPolicy().Evaluate(inventory.Objects{
		Validating: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "policy", UID: "1234"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name:                    "pods.policy.example.com",
				AdmissionReviewVersions: []string{"v1"},
				ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "gone"}},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{"CREATE"},
					Rule:       admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
				}},
			}},
		}},
		ServicesKnown: inventory.Coverage{All: true},
	}.Snapshot(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)))
}

func up() *classify.Report {
	return classify.DefaultPolicy().Evaluate(inventory.Objects{}.Snapshot(time.Date(2026, 1, 1, 12, 1, 0, 0, time.UTC)))
}

func TestEventsOfCriticalFindings(t *testing.T) {
	kube := fake.NewClientset()
	events := kube.CoreV1().Events(eventNamespace)
	ctx := context.Background()
	var a announcer
	for _, r := range []*classify.Report{down(), down(), up()} {
		a.note(r)
		if err := a.announce(ctx, events); err != nil {
			t.Fatal(err)
		}
	}
	list, err := events.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Items {
		got = append(got, strings.Join([]string{e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message[:strings.IndexByte(e.Message, ':')]}, " "))
	}
	slices.Sort(got)
	want := []string{
		corev1.EventTypeNormal + " CriticalFindingGone ValidatingWebhookConfiguration policy service-missing",
		corev1.EventTypeWarning + " CriticalFinding ValidatingWebhookConfiguration policy service-missing",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestRestartsRepeatNoEvents: what stood before a restart was told before it.
func TestRestartsRepeatNoEvents(t *testing.T) {
	events, ctx := fake.NewClientset().CoreV1().Events(eventNamespace), context.Background()
	for restart := range 3 {
		r := down()
		r.Snapshot.Taken = r.Snapshot.Taken.Add(time.Duration(restart) * time.Hour)
		var a announcer
		a.note(r)
		if err := a.announce(ctx, events); err != nil {
			t.Fatal(err)
		}
	}
	list, err := events.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d events, %v; want one", len(list.Items), err)
	}
}

// TestEventsOutliveAnOutage: what a webhook kept from being recorded is
// recorded when it heals, in order.
func TestEventsOutliveAnOutage(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errDead })
	events, ctx := kube.CoreV1().Events(eventNamespace), context.Background()
	var a announcer
	for _, r := range []*classify.Report{down(), up()} {
		a.note(r)
		if err := a.announce(ctx, events); Blocker(err) != "all.example.com" {
			t.Errorf("want the webhook's name, have %v", err)
		}
	}
	kube.ReactionChain = kube.ReactionChain[1:]
	if err := a.announce(ctx, events); err != nil {
		t.Fatal(err)
	}
	list, err := events.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d events, %v; want one of the coming and one of the going", len(list.Items), err)
	}
}

// TestTheOtherReplicaKeepsWhatIsFresh: the one that leads may have died before
// it recorded what both saw.
func TestTheOtherReplicaKeepsWhatIsFresh(t *testing.T) {
	var a announcer
	a.note(down())
	a.leave(down().Snapshot.Taken.Add(leaseDuration))
	if len(a.pending) == 0 {
		t.Error("dropped what the leader may not have recorded")
	}
	a.leave(down().Snapshot.Taken.Add(time.Minute))
	if len(a.pending) != 0 {
		t.Errorf("kept %v", a.pending)
	}
}

// TestEventsAreBounded: a thousand webhooks that die at once are one incident.
func TestEventsAreBounded(t *testing.T) {
	r := down()
	one := r.Findings[slices.IndexFunc(r.Findings, func(f classify.Finding) bool { return f.Severity == classify.Critical })]
	for i := range 1000 {
		f := one
		f.Webhook.Name = strings.Repeat("x", i+1)
		r.Findings = append(r.Findings, f)
	}
	if n := len(transitions(nil, r)); n != maxEvents {
		t.Errorf("%d events, want %d", n, maxEvents)
	}
}
