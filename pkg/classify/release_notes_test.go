package classify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

const released = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: pods.example.com
  clientConfig: {service: {namespace: hooks, name: hook}}
  rules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  sideEffects: None
  admissionReviewVersions: [v1]
- name: reviews.example.com
  clientConfig: {url: "https://hook.example.com"}
  rules: [{operations: [CREATE], apiGroups: [authentication.k8s.io], apiVersions: [v1], resources: [tokenreviews]}]
  sideEffects: None
  admissionReviewVersions: [v1]
- name: addresses.example.com
  clientConfig: {url: "https://hook.example.com"}
  rules: [{operations: [CREATE], apiGroups: [networking.k8s.io], apiVersions: [v1], resources: [ipaddresses]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// TestReleaseNotes: the server's release and the next one, for webhooks that they change
// something for.
func TestReleaseNotes(t *testing.T) {
	o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(released)})
	for _, test := range []struct {
		server string
		want   []string
	}{
		{"", nil},
		{"v1.31.4", nil},
		{"v1.32.4", []string{"v1.33 1 API servers write servicecidrs"}},
		{"v1.33.1", []string{"v1.33 1 API servers write servicecidrs", "v1.34 1 the API server finds the Pods"}},
		{"v1.36.0", []string{"v1.37 1 the six reviews", "v1.37 1 the API server resolves"}},
		{"v1.37.1", []string{"v1.37 1 the six reviews", "v1.37 1 the API server resolves"}},
	} {
		o.Routing = inventory.RoutingEndpoints
		if test.server != "" {
			o.Server = must.Get(inventory.ParseVersion(test.server))(t)
		}
		var got []string
		for i, n := range evaluate(t, DefaultPolicy(), o.Snapshot(time.Time{})).ReleaseNotes() {
			text := fmt.Sprintf("%s %d %s", n.Release, n.Webhooks, n.Text)
			if n.Source == "" {
				t.Errorf("%s has no source", text)
			}
			if i < len(test.want) && strings.HasPrefix(text, test.want[i]) {
				text = test.want[i]
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("server %q: -want +got\n%s", test.server, diff)
		}
	}
}
