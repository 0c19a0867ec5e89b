package cluster

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// crowd is 500 configurations of ten webhooks each.
func crowd() inventory.Objects {
	var o inventory.Objects
	for i := range 500 {
		var clients []admissionv1.WebhookClientConfig
		for range 10 {
			clients = append(clients, kubetest.Client("policy", fmt.Sprintf("s%d", i%20)))
		}
		o.Validating = append(o.Validating, validating(fmt.Sprintf("c%d", i), clients...))
	}
	return o
}

func BenchmarkFollow(b *testing.B) {
	m := admission.New(crowd().Snapshot(at(0)))
	n := &reads{}
	for b.Loop() {
		n.follow(m.Snapshot, nil)
		wantedScopes(m)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	o := crowd()
	for b.Loop() {
		o.Snapshot(at(0))
	}
}
