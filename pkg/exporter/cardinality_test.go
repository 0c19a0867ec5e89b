package exporter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// catchAll is a configuration whose webhook, by one rule or by one for each of the
// resources, is called for all of them.
func catchAll(name string, resources ...string) *admissionv1.ValidatingWebhookConfiguration {
	w := admissionv1.ValidatingWebhook{Name: "all." + name + ".example.com", ClientConfig: kubetest.Client("gone", name)}
	for _, resource := range resources {
		w.Rules = append(w.Rules, kubetest.Rule("*", resource))
	}
	return kubetest.Validating(name, w)
}

// seriesOf counts the series of one configuration in a cluster with n resources.
func seriesOf(t *testing.T, c *admissionv1.ValidatingWebhookConfiguration, n int) int {
	t.Helper()
	o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{c}}
	for i := range n {
		o.Discovered = append(o.Discovered, inventory.Served{
			Resource: inventory.Resource{Group: fmt.Sprintf("g%d.example.com", i%50), Name: fmt.Sprintf("r%d", i)},
			Version:  "v1", Kind: "Kind", Namespaced: true, Verbs: []string{"create", "update", "delete"},
		})
	}
	for _, name := range []string{"pods", "secrets", "services", "leases"} {
		o.Discovered = append(o.Discovered, inventory.Served{Resource: inventory.Resource{Name: name}, Version: "v1", Namespaced: true, Verbs: []string{"create"}})
	}
	r := reporttest.Evaluated(t, o.Snapshot(time.Unix(0, 0)))
	var names []string
	for _, f := range Families {
		names = append(names, f.Name)
	}
	return bytes.Count([]byte(exposed(t, r, names...)), fmt.Appendf(nil, "configuration=%q", c.Name))
}

// TestSeriesOfOneWebhookAreBounded: neither the resources that a cluster serves nor
// the rules of a webhook make it have more series.
func TestSeriesOfOneWebhookAreBounded(t *testing.T) {
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf("r%d", i))
	}
	const most = 200
	for name, resources := range map[string][]string{"everything": {"*/*"}, "one by one": many} {
		t.Run(name, func(t *testing.T) {
			c := catchAll(strings.ReplaceAll(name, " ", "-"), resources...)
			few, all := seriesOf(t, c, 50), seriesOf(t, c, 500)
			if few == 0 || all > few || all > most {
				t.Errorf("%d series with 500 resources, %d with 50, at most %d", all, few, most)
			}
			t.Logf("%d series with 500 resources, %d with 50", all, few)
		})
	}
}
