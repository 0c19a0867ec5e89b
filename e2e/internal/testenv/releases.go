package testenv

import (
	"fmt"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
)

// Feature is what API servers do from the release 1.Since of Kubernetes on.
type Feature struct {
	Since        int
	Name, Source string
}

// What the API servers of releases that make e2e-matrix runs do not all do.
var (
	KeepsReviews     = Feature{37, "reviews are not sent to webhooks", "gate ExcludeAdmissionWebhookVirtualResources, beta and on in 1.37"}
	RoutesBySlices   = Feature{34, "with --enable-aggregator-routing, backends are found by EndpointSlices, not by Endpoints", "ResolveEndpoint of k8s.io/apiserver/pkg/util/proxy, 0.33 and 0.34"}
	ResolvesEachCall = Feature{37, "each call goes to a backend that is there now, not along a connection that was kept", "gate WebhookRoundTripLoadBalancing, beta and on in 1.37"}
	MutatingPolicies = Feature{36, "MutatingAdmissionPolicies", "served as admissionregistration.k8s.io/v1 from 1.36 on"}
	StaticManifests  = Feature{37, "webhooks from manifests on the API server's disk", "gate ManifestBasedAdmissionControlConfig, beta and on in 1.37"}
)

// Minor is N of the release 1.N of Kubernetes that the tests run in.
func Minor() int {
	var minor int
	if _, err := fmt.Sscanf(programs.Release(), "1.%d", &minor); err != nil {
		panic(fmt.Sprintf("%s=%s: must be a release as 1.31", programs.ReleaseVariable, programs.Release()))
	}
	return minor
}

// There reports whether the API server of the tests does it.
func (f Feature) There(t testing.TB) bool {
	t.Helper()
	if Minor() >= f.Since {
		return true
	}
	t.Logf("left out before 1.%d: %s (%s)", f.Since, f.Name, f.Source)
	return false
}

// SendsReviews are the flags with which kube-apiserver sends reviews to webhooks: those
// of a release that always does know no such gate.
func SendsReviews() []string {
	if Minor() < KeepsReviews.Since {
		return nil
	}
	return []string{"--feature-gates=ExcludeAdmissionWebhookVirtualResources=false"}
}
