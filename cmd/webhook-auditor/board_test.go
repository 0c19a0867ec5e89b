package main

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/access"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// dead is a cluster with a webhook whose Service is missing.
func dead(taken time.Time) *inventory.Snapshot {
	return inventory.Objects{
		Validating: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "policy"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name:                    "jobs.policy.example.com",
				AdmissionReviewVersions: []string{"v1"},
				ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "gone"}},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{"CREATE"},
					Rule:       admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
				}},
			}},
		}},
		ServicesKnown: inventory.Coverage{All: true},
	}.Snapshot(taken)
}

func newTestBoard(log *bytes.Buffer) *board {
	return newBoard(classify.DefaultPolicy(), operator.NewTracker(operator.TrackerOptions{RollUp: operator.RollUpOn, Inertia: time.Hour}), slog.New(slog.NewTextHandler(log, nil)))
}

// TestConditionsFollowTheClock: the inertia passes between two Snapshots.
func TestConditionsFollowTheClock(t *testing.T) {
	for age, want := range map[time.Duration]metav1.ConditionStatus{time.Minute: metav1.ConditionFalse, 2 * time.Hour: metav1.ConditionTrue} {
		b := newTestBoard(&bytes.Buffer{})
		b.publish(t.Context(), dead(time.Now().Add(-age)))
		conditions := b.current().Conditions
		i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == operator.Degraded })
		if conditions[i].Status != want {
			t.Errorf("after %s: Degraded=%s, want %s", age, conditions[i].Status, want)
		}
	}
	if newTestBoard(&bytes.Buffer{}).current() != nil {
		t.Error("a report before the first snapshot")
	}
}

// TestTroublesAreLoggedOnce, with the webhook that is to blame, and once when
// they are over.
func TestTroublesAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	b := newTestBoard(&log)
	for range 3 {
		b.wrote(1, errors.New(`renewing lease x: failed calling webhook "all.example.com": no`))
	}
	b.wrote(0, nil)
	b.wrote(0, nil)
	if n := strings.Count(log.String(), "webhook=all.example.com"); n != 1 {
		t.Errorf("said %d times which webhook it is:\n%s", n, log.String())
	}
	if n := strings.Count(log.String(), "it works again"); n != 1 {
		t.Errorf("said %d times that it works again:\n%s", n, log.String())
	}
}

// TestBothReviewsAreOneTrouble: a webhook that blocks the reviews of tokens and
// of access is named once, and what works again is what failed.
func TestBothReviewsAreOneTrouble(t *testing.T) {
	var log bytes.Buffer
	b := newTestBoard(&log)
	dead := errors.New(`reviewing: failed calling webhook "all.example.com": no`)
	for range 2 {
		b.reviewed(access.Token, dead)
		b.reviewed(access.Access, dead)
	}
	b.reviewed(access.Token, nil)
	if strings.Contains(log.String(), "it works again") {
		t.Errorf("one of them still fails:\n%s", log.String())
	}
	b.reviewed(access.Access, nil)
	for _, words := range []string{"webhook=all.example.com", "it works again"} {
		if n := strings.Count(log.String(), words); n != 1 {
			t.Errorf("said %q %d times:\n%s", words, n, log.String())
		}
	}
}
