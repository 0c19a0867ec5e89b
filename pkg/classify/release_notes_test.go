package classify

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

//go:embed testdata/inputs/release-notes.yaml
var released string

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
		for i, n := range evaluate(t, DefaultPolicy(), o.Snapshot(time.Time{})).ReleaseNotes {
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

// TestServerWritesOfAnUpgrade: webhooks that ask for what API servers write since v1.33, some
// of which an API server never calls for it.
func TestServerWritesOfAnUpgrade(t *testing.T) {
	const webhook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\nwebhooks: [{name: w.example.com, clientConfig: {url: 'https://hook.example.com'}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [%s], apiGroups: ['*'], apiVersions: [%s], resources: [%s]%s]}]\n"
	for named, noted := range map[string]bool{
		fmt.Sprintf(webhook, `"*"`, `"*"`, `"*/*"`, "}"):                                                                                            true,
		fmt.Sprintf(webhook, `"*"`, `"*"`, `"*/*"`, ", scope: Namespaced}"):                                                                         false,
		fmt.Sprintf(webhook, "DELETE", `"*"`, "ipaddresses", "}"):                                                                                   false,
		fmt.Sprintf(webhook, "UPDATE", "v1beta1", "servicecidrs", "}"):                                                                              false,
		fmt.Sprintf(webhook, "UPDATE", "v1", "servicecidrs", ", scope: Cluster}"):                                                                   true,
		fmt.Sprintf(webhook, `"*"`, `"*"`, `"*"`, "}], objectSelector: {matchLabels: {a: b}}, matchConditions: ["):                                  false,
		fmt.Sprintf(webhook, `"*"`, `"*"`, `"*"`, `}], matchConditions: [{name: mm, expression: "!('system:masters' in request.userInfo.groups)"}`): false,
		fmt.Sprintf(webhook, `"*"`, `"*"`, `"*"`, `}], matchConditions: [{name: mm, expression: "request.userInfo.username != 'system:admin'"}`):    true,
		fmt.Sprintf(webhook, `"*"`, `"*"`, `"*"`, `}], failurePolicy: Ignore, matchConditions: [`):                                                  false,
		fmt.Sprintf(webhook, `"*"`, `"*"`, `"*"`, `}], namespaceSelector: {matchLabels: {a: b}}, matchConditions: [`):                               true, // cluster-scoped: no namespaceSelector keeps them
	} {
		o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(named)})
		o.Server = inventory.Version{Major: 1, Minor: 32}
		notes := evaluate(t, DefaultPolicy(), o.Snapshot(time.Time{})).ReleaseNotes
		if got := slices.ContainsFunc(notes, func(n ReleaseNote) bool { return n.StopsServer }); got != noted {
			t.Errorf("noted %t, want %t: %s", got, noted, named)
		}
	}
}
