//go:build linux && node

package node

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// function is something that a cluster does: while it does, what the command line prints
// has the text. Namespace NAME-used is new.
type function struct{ name, line, prints string }

const signingRequest = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHeU1HWUNBUUF3TXpFVk1CTUdBMVVFQ2d3TWMzbHpkR1Z0T201dlpHVnpNUm93R0FZRFZRUUREQkZ6ZVhOMApaVzA2Ym05a1pUcG1hWEp6ZERBcU1BVUdBeXRsY0FNaEFEM05nbWRFeWVJZVBuOHVMd3d3eEJCOWJ2VlJkOXVRCkM0ZFk5cXZsdWQ5cG9BQXdCUVlESzJWd0EwRUFaOC9RRnFreDBmNy8yT3JKSXlvMWZFL1JKc0RXVmE5MkljZkIKN083L3dqNWpqa3AybUwxNEF2YnFndW4weWpKcFdOVGk4bXF4L2d3RmZGNGVoN29PQnc9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"

var (
	startsPods = function{
		"a Pod of a new namespace starts",
		"kubectl -n NAME-used get pod first -o jsonpath={.status.phase} || kubectl -n NAME-used run first --image=IMAGE", "Running",
	}
	issuesTokens   = function{"a ServiceAccount of a new namespace gets a token", "kubectl -n NAME-used create token default", "."}
	findsEndpoints = function{
		"a new Service gets endpoints",
		"kubectl -n NAME-used get endpointslices -o name || true; kubectl -n NAME-used create service clusterip first --tcp=443 >&2", "/first-",
	}
	// CoreDNS's Pod is another by then, where there is a leader. Its livez is readable without a token.
	resolvesNames = function{
		"names resolve, once CoreDNS's Pod is replaced", "kubectl -n default get pod NAME -o jsonpath={.status.phase} || " +
			"kubectl -n default run NAME --image=IMAGE --restart=OnFailure -- ask https://kubernetes.default.svc.cluster.local/livez", "Succeeded",
	}
	// The lease of w1 is deleted before, and made anew by its node.
	renewsLeases  = function{"nodes renew their leases", "kubectl -n kube-node-lease get leases -o name", "/w1"}
	recordsEvents = function{"Events are recorded", `echo '{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "first"}, "involvedObject": {"kind": "Pod", "namespace": "NAME-used", "name": "first"}}' |
		kubectl -n NAME-used create --dry-run=server -f -`, "created"}
	certifiesKubelets = function{"kubelets ask for certificates", `echo '{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "first"},
		"spec": {"request": "` + signingRequest + `", "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": ["digital signature", "client auth"]}}' |
		kubectl create --dry-run=server -f -`, "created"}
	functions = []function{startsPods, issuesTokens, findsEndpoints, resolvesNames, renewsLeases, recordsEvents, certifiesKubelets}
)

// stops are the functions that a dead webhook on a resource ends, in the whole cluster,
// and all that impact says of it.
var stops = []struct {
	resources string
	ends      []string
	said      []string
}{
	{resources: "configmaps", ends: []string{startsPods.name}, said: []string{"Pods of new namespaces: they do not start without ConfigMap kube-root-ca.crt"}},
	{resources: "serviceaccounts", ends: []string{startsPods.name, issuesTokens.name}, said: []string{"Pods of new namespaces: they are refused without ServiceAccount default"}},
	{resources: "secrets"},
	{
		resources: "endpointslices", ends: []string{findsEndpoints.name, resolvesNames.name},
		said: []string{"the endpoints of new Services", "the endpoints of Services following their Pods"},
	},
	{
		// Without leaders, nothing is done that controllers and the scheduler do.
		resources: "leases", ends: []string{startsPods.name, issuesTokens.name, findsEndpoints.name, resolvesNames.name, renewsLeases.name},
		said: []string{"leader election of the scheduler and the controllers", "heartbeats of nodes, which turn NotReady without"},
	},
	{resources: "events", ends: []string{recordsEvents.name}, said: []string{"Events"}},
	{resources: "certificatesigningrequests", ends: []string{certifiesKubelets.name}, said: []string{"certificates of kubelets, for nodes that join and for rotation"}},
}

// TestDeadWebhookStopsFunctions: a webhook without a Service, which fails closed in all
// namespaces, ends what the table says and nothing else, and impact says so.
func TestDeadWebhookStopsFunctions(t *testing.T) {
	for _, s := range stops {
		t.Run(s.resources, func(t *testing.T) {
			h := hook{name: "dead-" + s.resources, resources: s.resources, selector: "matchExpressions: []"}
			t.Cleanup(func() { // what has ended works again
				boot(t) // none: it waits for all
				ready(t, "kube-system", "coredns")
			})
			apply(t, h.render(hookConfiguration, "BUNDLE", ""))
			t.Cleanup(h.remove(t))
			awaitFinding(t, sought{check: "service-missing", configuration: h.name})
			do(t, "-n kube-node-lease delete lease w1 --ignore-not-found")
			if s.resources == "leases" { // what has a leader for a minute more is not asked before that is over
				awaitNoLeader(t, "kube-controller-manager")
				awaitNoLeader(t, "kube-scheduler")
			} else {
				do(t, "-n kube-system delete pods -l k8s-app=kube-dns")
				ready(t, "kube-system", "coredns")
			}
			do(t, "create namespace "+h.name+"-used")
			t.Cleanup(func() { do(t, "-n default delete pod "+h.name+" --ignore-not-found --wait=false") })
			ended := h.endedFunctions(t, s.ends)
			if fmt.Sprint(ended) != fmt.Sprint(s.ends) {
				t.Errorf("ended %q, want %q", ended, s.ends)
			}
			contains(t, "audit", says(t, "audit"), h.name+".example.com")
			said := predicted(t, "--down", h.name+"/"+h.name).Effects
			if len(said) != 1 || fmt.Sprint(said[0].Stops) != fmt.Sprint(s.said) {
				t.Errorf("impact --down says %+v, want %q to stop", said, s.said)
			}
			measured.functions += fmt.Sprintf("| %s | %s | %s |\n", s.resources, cmp.Or(strings.Join(ended, "; "), "nothing"), cmp.Or(strings.Join(s.said, "; "), "–"))
		})
	}
}

// awaitNoLeader waits until the lease of a leader has not been renewed for longer than it
// lasts.
func awaitNoLeader(t testing.TB, name string) {
	t.Helper()
	testenv.EventuallyWithin(t, patience, func() error {
		lease, err := real.Kube.CoordinationV1().Leases("kube-system").Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && time.Since(lease.Spec.RenewTime.Time) < nodes.LeaseDuration {
			err = fmt.Errorf("the lease of %s was renewed at %s", name, lease.Spec.RenewTime)
		}
		return err
	})
}

// endedFunctions are those that do not work. Those that are to end get some seconds, the
// others as long as they need.
func (h hook) endedFunctions(t testing.TB, ends []string) []string {
	t.Helper()
	const soon = 12 * time.Second // a Pod takes two, a lease ten
	for begun := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		var ended []string
		var failures []error
		for _, f := range functions {
			if printed, err := run(t.Context(), "", "sh", "-c", h.render(f.line)); !strings.Contains(printed, f.prints) {
				ended, failures = append(ended, f.name), append(failures, fmt.Errorf("%s: %s %v", f.name, printed, err))
			}
		}
		taken := time.Since(begun)
		if len(ended) == 0 || taken > soon && len(ended) <= len(ends) || taken > patience {
			t.Log(errors.Join(failures...))
			return ended
		}
	}
}
