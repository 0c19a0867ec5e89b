package admission

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestRefusedConversion: each fault of a CRD's conversion is one error, and none follows from another.
func TestRefusedConversion(t *testing.T) {
	const webhook = "webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://hooks.example.com/'}}"
	for conversion, want := range map[string][]string{
		"{strategy: Webhook, " + webhook + "}": nil,
		"{strategy: webhook}":                  {"spec.conversion.strategy"},
		"{strategy: webhook, " + webhook + "}": {"spec.conversion.strategy", "spec.conversion.webhook"},
		"{strategy: None, " + webhook + "}":    {"spec.conversion.webhook"},
	} {
		c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "carts.shop.example.com"}}
		must.Succeed(t, yaml.Unmarshal([]byte(conversion), &c.Spec.Conversion))
		for path, unknown := range map[string][]string{"": want, "spec.conversion.webhok": append([]string{"spec.conversion.webhok"}, want...), "spec.scop": append([]string{"spec.scop"}, want...), "spec.version": want} {
			o := inventory.Objects{
				CRDs:    []*apiextensionsv1.CustomResourceDefinition{c},
				Sources: map[inventory.SourceKey]inventory.Origin{{Kind: inventory.KindCRD, Name: c.Name}: {ToApply: true, Unknown: []string{path}}},
			}
			m := New(o.Snapshot(time.Time{}))
			var got []string
			for _, e := range m.RefusedWebhook(m.Snapshot.Webhooks[0]) {
				got = append(got, e.Field)
			}
			t.Run(conversion+path, func(t *testing.T) { expect.Equal(t, unknown, got) })
		}
	}
}
