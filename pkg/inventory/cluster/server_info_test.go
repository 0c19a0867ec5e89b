package cluster

import (
	"net/http"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func TestParseVersion(t *testing.T) {
	for _, tt := range []struct {
		name, document string
		want           inventory.Version
		fails          bool
	}{
		{"not emulating", `{"major":"1","minor":"37","gitVersion":"v1.37.1","emulationMajor":"1","emulationMinor":"37"}`, inventory.Version{Major: 1, Minor: 37, Git: "v1.37.1"}, false},
		{"emulating", `{"major":"1","minor":"37","gitVersion":"v1.37.1","emulationMajor":"1","emulationMinor":"36"}`, inventory.Version{Major: 1, Minor: 36, Git: "v1.37.1"}, false},
		{"before emulation", `{"major":"1","minor":"30+","gitVersion":"v1.30.2-eks-1"}`, inventory.Version{Major: 1, Minor: 30, Git: "v1.30.2-eks-1"}, false},
		{"something else", `<html>`, inventory.Version{}, true},
		{"nothing", `{}`, inventory.Version{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseVersion([]byte(tt.document))
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// TestVersionThatCounts: what is evaluated for is what reports show.
func TestVersionThatCounts(t *testing.T) {
	for want, v := range map[string]inventory.Version{
		"v1.37.1":                    {Major: 1, Minor: 37, Git: "v1.37.1"},
		"v1.36, emulated by v1.37.1": {Major: 1, Minor: 36, Git: "v1.37.1"},
		"v1.30.2-eks-1":              {Major: 1, Minor: 30, Git: "v1.30.2-eks-1"},
	} {
		if got := v.String(); got != want {
			t.Errorf("%+v: %s, want %s", v, got, want)
		}
	}
}

func TestProgressing(t *testing.T) {
	for document, want := range map[string]bool{
		`{"status":{"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True"}]}}`: true,
		`{"status":{"conditions":[{"type":"Progressing","status":"False"}]}}`:                                     false,
		`{}`: false,
	} {
		got, err := progressing([]byte(document))
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", document, got, err)
		}
	}
	if _, err := progressing([]byte(`<html>`)); err == nil {
		t.Error("something else is no ClusterVersion")
	}
}

func TestReviewsExcluded(t *testing.T) {
	const gateOff = reviewsGate + `,stage="BETA"} 0` + "\n"
	for _, tt := range []struct {
		name, version, metrics string
		status                 int
		want, asks             bool
	}{
		{"by the gate", "37", gateOff, 0, false, true},
		{"by the version, as /metrics may not be read", "37", gateOff, http.StatusForbidden, true, true},
		{"by the version, as /metrics does not exist", "37", gateOff, http.StatusNotFound, true, true},
		{"by the version, as /metrics lacks the gate", "37", "nothing\n", 0, true, true},
		{"by the version, from before the gate", "36", gateOff, 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t)
			s.documents["/version"] = `{"major":"1","minor":"37","gitVersion":"v1.37.1","emulationMajor":"1","emulationMinor":"` + tt.version + `"}`
			s.documents["/metrics"] = tt.metrics
			s.refuse(tt.status, func(r request) bool { return r.path == "/metrics" && tt.status != 0 })
			got := watching(s, Options{}).await("anything", anything)
			if got.ReviewsExcluded != tt.want || len(got.Errors) != 0 {
				t.Errorf("reviews excluded: %v, errors %v", got.ReviewsExcluded, got.Errors)
			}
			asks := false
			for _, r := range s.recorded() {
				asks = asks || r.path == "/metrics"
			}
			expect.Equal(t, tt.asks, asks) // asked for /metrics
		})
	}
}

// TestGatesAreReadAgainAfterARestart switches the gate off while the API
// server restarts.
func TestGatesAreReadAgainAfterARestart(t *testing.T) {
	s := startServer(t)
	r := watching(s, Options{})
	if !r.await("anything", anything).ReviewsExcluded {
		t.Errorf("reviews are not excluded")
	}
	s.end()
	r.await("an Error", func(s *inventory.Snapshot) bool { return len(s.Errors) > 0 })
	s.change(func() { s.documents["/metrics"] = reviewsGate + `,stage="BETA"} 0` + "\n" })
	s.begin()
	r.await("no exclusion", func(s *inventory.Snapshot) bool { return !s.ReviewsExcluded })
}

func TestRouting(t *testing.T) {
	for _, tt := range []struct {
		name       string
		configured inventory.Routing
		openShift  bool
		want       inventory.Routing
	}{
		{"unknown", inventory.RoutingUnknown, false, inventory.RoutingUnknown},
		{"OpenShift", inventory.RoutingUnknown, true, inventory.RoutingEndpoints},
		{"configured", inventory.RoutingClusterIP, true, inventory.RoutingClusterIP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := assemble(Options{Routing: tt.configured}, nil, serverInfo{openShift: tt.openShift}, &reads{})
			expect.Equal(t, tt.want, o.Routing)
		})
	}
}
