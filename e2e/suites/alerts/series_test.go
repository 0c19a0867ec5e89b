//go:build matrix

package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// seriesVariable is the environment variable that names the file into which TestSeries
// writes the series that it saw, and their labels.
const seriesVariable = "WEBHOOK_AUDITOR_E2E_SERIES"

// later are the series of what only newer API servers do, by what their names begin with.
var later = map[string]testenv.Feature{
	"apiserver_manifest_admission_config_controller_": testenv.StaticManifests,
	"apiserver_mutating_admission_policy_":            testenv.MutatingPolicies,
}

// series are the names of series, and the labels of each.
type series map[string][]string

// TestSeries: API servers and kube-controller-manager of the release export what the
// alerts read, with the labels that they read, once there was a call of each kind.
func TestSeries(t *testing.T) {
	want := readByAlerts(t)
	for prefix, feature := range later {
		if !feature.There(t) {
			maps.DeleteFunc(want, func(name string, _ []string) bool { return strings.HasPrefix(name, prefix) })
		}
	}
	manifests, options := newManifests(t), cluster.Options{}
	if testenv.StaticManifests.There(t) {
		options.APIServerFlags = manifests.flags(t)
	}
	w := newEnvironment(t, options)
	for _, name := range []string{"admission-no-service", "admission-open", "refusing", "patches", "match-conditions", "conversion-tenth"} {
		i := incidents[slices.IndexFunc(incidents, func(i incident) bool { return i.name == name })]
		s := newScenario(t, w, name)
		i.prepares(t, s)
		testenv.Must(t, i.breaks(t.Context(), s))
	}
	w.meetPolicies(t)
	testenv.Must(t, manifests.add(newScenario(t, w, static)))
	var have series
	eventually(t, func(ctx context.Context) (err error) {
		have, err = w.exported(ctx, want)
		if err != nil {
			return err
		}
		return have.lack(want)
	})
	text, err := json.Marshal(have)
	testenv.Must(t, err)
	t.Logf("%s", text)
	if file := os.Getenv(seriesVariable); file != "" {
		testenv.Must(t, os.WriteFile(file, text, 0o600))
	}
}

// meetPolicies has requests denied by a policy, and by one that cannot be evaluated, and
// patched in vain where there are policies that patch.
func (w environment) meetPolicies(t *testing.T) {
	t.Helper()
	denying, patching := newScenario(t, w, "denying"), newScenario(t, w, "patching")
	denying.denies(t, "false", func(*admissionv1.ValidatingAdmissionPolicySpec) {}, func(*admissionv1.ValidatingAdmissionPolicyBindingSpec) {})
	denying.traffic(1, denying.createConfigMap)
	if testenv.MutatingPolicies.There(t) {
		patching.mutates(t, `[JSONPatch{op: "remove", path: "/data/absent"}]`)
		patching.traffic(1, patching.createConfigMap)
	}
}

// readByAlerts are the series that the printed rules read of API servers and of
// kube-controller-manager, without the suffixes of histograms, and the labels that they
// want each to have.
func readByAlerts(t *testing.T) series {
	t.Helper()
	var printed struct {
		Groups []struct {
			Rules []struct {
				Expr   string
				Labels map[string]string
			}
		}
	}
	testenv.Must(t, yaml.Unmarshal([]byte(testenv.Command(t, "print", "rules", "--form=prometheus").Stdout), &printed))
	var expressions, inputs strings.Builder
	for _, group := range printed.Groups {
		for _, rule := range group.Rules {
			fmt.Fprintln(&expressions, rule.Expr)
			fmt.Fprintln(&inputs, rule.Labels["series"])
		}
	}
	want, suffix := series{}, regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, name := range regexp.MustCompile(`\b(apiserver|garbagecollector|workqueue)_\w+`).FindAllString(expressions.String(), -1) {
		if !strings.HasSuffix(name, "_webhook_rejection_count") && !strings.HasSuffix(name, "_webhook_fail_open_count") { // counters
			name = suffix.ReplaceAllString(name, "")
		}
		if want[name] == nil {
			want[name] = []string{}
		}
	}
	for _, label := range regexp.MustCompile(`label (\w+) of (\w+)`).FindAllStringSubmatch(inputs.String(), -1) {
		name := label[2]
		if want[name] == nil {
			name = suffix.ReplaceAllString(name, "")
		}
		if label[1] != "instance" { // which Prometheus adds
			want[name] = append(want[name], label[1])
		}
	}
	if len(want) < 15 || len(slices.Concat(slices.Collect(maps.Values(want))...)) < 10 {
		t.Fatalf("the rules read too little: %v", want)
	}
	return want
}

// exported are those of the series that the servers export now.
func (w environment) exported(ctx context.Context, among series) (series, error) {
	controllers := w.Plane.Config()
	controllers.Host = w.Plane.ControllersURL()
	out := series{}
	for _, server := range []*rest.Config{w.Plane.Config(), controllers} {
		client, err := rest.HTTPClientFor(server)
		if err != nil {
			return nil, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Host+"/metrics", nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		scrape, err := metrics.Parse(response.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", monitoring.Address(server.Host), response.Status, err)
		}
		for _, s := range scrape {
			if among[s.Name] == nil {
				continue
			}
			out[s.Name] = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(out[s.Name], maps.Keys(s.Labels)))))
		}
	}
	return out, nil
}

// lack is an error that names what is wanted and not there.
func (have series) lack(want series) error {
	var missing []string
	for name, labels := range want {
		if _, there := have[name]; !there {
			missing = append(missing, name)
		}
		for _, label := range labels {
			if !slices.Contains(have[name], label) {
				missing = append(missing, label+" of "+name)
			}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("not exported: %s", strings.Join(missing, ", "))
	}
	return nil
}
