//go:build linux && node

package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
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
	// CoreDNS's Pod is another by then. Its livez is readable without a token.
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
// and what audit says of it.
var stops = []struct {
	resources string
	ends      []string
	said      []string
}{
	{resources: "configmaps", ends: []string{startsPods.name}, said: []string{"kube-root-ca.crt"}},
	{resources: "serviceaccounts", ends: []string{startsPods.name, issuesTokens.name}, said: []string{"ServiceAccount default"}},
	{resources: "secrets"},
	{resources: "endpointslices", ends: []string{findsEndpoints.name, resolvesNames.name}, said: []string{"the endpoints of Services"}},
	{resources: "leases", ends: []string{renewsLeases.name}, said: []string{"heartbeats of nodes", "leader election"}},
	{resources: "events", ends: []string{recordsEvents.name}, said: []string{"Events"}},
	{resources: "certificatesigningrequests", ends: []string{certifiesKubelets.name}, said: []string{"certificates of kubelets"}},
}

// TestDeadWebhookStopsFunctions: a webhook without a Service, which fails closed in all
// namespaces, ends what the table says and nothing else, and audit says so.
func TestDeadWebhookStopsFunctions(t *testing.T) {
	for _, s := range stops {
		t.Run(s.resources, func(t *testing.T) {
			h := hook{name: "dead-" + s.resources, resources: s.resources, selector: "matchExpressions: []"}
			apply(t, h.render(hookConfiguration, "BUNDLE", ""))
			t.Cleanup(h.remove(t))
			awaitFinding(t, sought{check: "service-missing", configuration: h.name})
			do(t, "create namespace "+h.name+"-used")
			do(t, "-n kube-node-lease delete lease w1 --ignore-not-found")
			asked := functions
			if s.resources == "leases" { // without theirs, nodes are not ready after 40 s, and whether names resolve then depends on what runs where
				asked = slices.DeleteFunc(slices.Clone(functions), func(f function) bool { return f.name == resolvesNames.name })
			} else {
				do(t, "-n kube-system delete pods -l k8s-app=kube-dns")
				ready(t, "kube-system", "coredns")
			}
			t.Cleanup(func() { do(t, "-n default delete pod "+h.name+" --ignore-not-found --wait=false") })
			ended := h.endedFunctions(t, asked, s.ends)
			if fmt.Sprint(ended) != fmt.Sprint(s.ends) {
				t.Errorf("ended %q, want %q", ended, s.ends)
			}
			said := says(t, "audit") + says(t, "impact", "--down", h.name+"/"+h.name)
			contains(t, "audit and impact", said, s.said...)
			measured.functions += fmt.Sprintf("| %s | %s | %s |\n", s.resources, cmp.Or(strings.Join(ended, "; "), "nothing"), cmp.Or(strings.Join(s.said, "; "), "–"))
		})
	}
}

// endedFunctions are those of the asked that do not work. Those that are to end get some seconds, the
// others as long as they need.
func (h hook) endedFunctions(t testing.TB, asked []function, ends []string) []string {
	t.Helper()
	const soon = 12 * time.Second // a Pod takes two, a lease ten
	for begun := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		var ended []string
		var failures []error
		for _, f := range asked {
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
