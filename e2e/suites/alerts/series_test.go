//go:build matrix

package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/timeline"
)

// later are the series of what only newer API servers do, by what their names begin with.
var later = map[string]testenv.Feature{
	"apiserver_manifest_admission_config_controller_": testenv.StaticManifests,
	"apiserver_mutating_admission_policy_":            testenv.MutatingPolicies,
}

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
	manifests, options := manifests(t.TempDir()), cluster.Options{}
	if testenv.StaticManifests.There(t) {
		options.APIServerFlags = manifests.flags(t)
	}
	w := newEnvironment(t, options)
	for _, name := range []string{"pods-backend-of-eight", "admission-open", "refusing", "pods-unusable-patch", "match-conditions", "conversion-no-service"} {
		i := incidents[slices.IndexFunc(incidents, func(i incident) bool { return i.name == name })]
		s := newScenario(t, w, name)
		i.prepares(t, s)
		testenv.Must(t, i.breaks(t.Context(), s))
	}
	newScenario(t, w, ruled).useRuled(t)
	testenv.Must(t, manifests.add(newScenario(t, w, static)))
	var have series
	eventually(t, func(ctx context.Context) (err error) {
		w.users.round(ctx)
		have, err = w.exported(t, want)
		if err != nil {
			return err
		}
		return have.lack(want)
	})
	if diff := cmp.Diff(documented(t), have, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("docs/releases.md (-) and the servers (+) differ:\n%s", diff)
	}
}

// documented are the series that docs/releases.md says are exported in the release.
func documented(t *testing.T) series {
	t.Helper()
	text := testenv.Get(os.ReadFile("../../../docs/releases.md"))(t)
	out := series{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*) \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		if releases := strings.Split(row[3], ", "); row[3] == "all" || slices.Contains(releases, programs.Release()) {
			out[row[1]] = strings.FieldsFunc(row[2], func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return out
}

// readByAlerts are the series that the rules read of API servers and of
// kube-controller-manager, without the suffixes of histograms, and the labels that they
// want each to have.
func readByAlerts(t *testing.T) series {
	t.Helper()
	text := testenv.Get(os.ReadFile("../../../rules/adjustable.json"))(t)
	var read struct{ Series []string }
	testenv.Must(t, json.Unmarshal(text, &read))
	want := series{}
	for _, name := range read.Series {
		if !strings.HasPrefix(name, "webhook_auditor_") && name != "up" {
			want[family(name)] = []string{}
		}
	}
	printed := testenv.Command(t, "print", "rules", "--form=prometheus").Stdout
	for _, input := range regexp.MustCompile(`series: 'label (.+) of (\w+)'`).FindAllStringSubmatch(printed, -1) {
		of := family(input[2])
		for label := range strings.SplitSeq(input[1], " or ") {
			if label != "instance" { // which Prometheus adds
				want[of] = append(want[of], label)
			}
		}
	}
	if len(want) < 15 || len(slices.Concat(slices.Collect(maps.Values(want))...)) < 10 {
		t.Fatalf("the rules read too little: %v", want)
	}
	return want
}

// family is the histogram of a series, or its own name.
func family(name string) string {
	if strings.HasSuffix(name, "_webhook_rejection_count") || strings.HasSuffix(name, "_webhook_fail_open_count") { // counters
		return name
	}
	return regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
}

// exported are those of the series that the servers export now.
func (w environment) exported(t *testing.T, among series) (series, error) {
	out := series{}
	for _, target := range []timeline.Target{timeline.APIServer(t, w.Plane.Config()), timeline.Controllers(t, w.Plane)} {
		exported, err := target.Scrape(t.Context())
		if err != nil {
			return nil, err
		}
		for _, s := range exported {
			if name := family(s.Name); among[name] != nil {
				delete(s.Labels, model.BucketLabel)
				out[name] = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(out[name], maps.Keys(s.Labels)))))
			}
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
