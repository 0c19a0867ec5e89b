package rules

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/rules"
)

// firings are the alerts that fire at each time in one cluster.
type firings func(offset time.Duration) []*rules.Alert

// A scenario is what happens in a cluster of its own, and what a person on call expects then.
type scenario struct {
	name, cluster string
	alerts        []string // that are looked at
	series        []string
	wrong         func(fires firings) string // says what is, or ""
}

// A world is evaluated at once: what is scraped and evaluated alike.
type world struct {
	name string
	// scrape and step are the times between scrapes and evaluations, from begin to last.
	scrape, step, begin, last time.Duration
	scenarios                 []scenario

	groups []monitoringv1.RuleGroup
	run    *evaluator
	fires  func(cluster string, offset time.Duration) []*rules.Alert
	lock   sync.Mutex
	usual  map[string]output   // of each rule
	inputs map[string][]string // which rules it reads
}

// load reads the alerts that the scenarios look at, and what these read.
func (w *world) load(t testing.TB) {
	t.Helper()
	var names []string
	for _, s := range w.scenarios {
		names = append(names, s.alerts...)
	}
	w.groups = silentGroupsOf(t, names...)
}

// evaluate evaluates these.
func (w *world) evaluate(t testing.TB) {
	t.Helper()
	w.load(t)
	series := map[string][]string{}
	for _, s := range w.scenarios {
		series[s.cluster] = s.series
	}
	w.run = evaluateFile(t, groupFile(t, w.groups), w.scrape, inClusters(series))
	w.fires = w.run.evaluateSpan(w.begin, w.last, w.step)
}

// firingsOf are the alerts of the cluster of a scenario.
func (w *world) firingsOf(s scenario) firings {
	return func(offset time.Duration) []*rules.Alert { return w.fires(s.cluster, offset) }
}

// worlds are all that scenarios are evaluated in, those first that notice most mutants for what they cost.
func worlds(t *testing.T) []*world {
	t.Helper()
	return slices.Concat([]*world{findingWorld(), heldWorld(), inputWorld()}, expectationWorlds(), caseWorlds(t), []*world{silenceWorld(), shapeWorld(), cutOffWorld(), backendsDownWorld(), repairedWorld(), faultWorld(t)})
}

// TestScenarios evaluates what a person on call expects.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, w := range worlds(t) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			w.evaluate(t)
			for _, s := range w.scenarios {
				t.Run(s.name, func(t *testing.T) {
					if wrong := s.wrong(w.firingsOf(s)); wrong != "" {
						t.Error(wrong)
					}
				})
			}
			if w.name == "shapes" {
				textsOfShapes(t, w)
			}
		})
	}
}

// minutes is the time of a minute of the tests.
func minutes(n int) time.Duration { return time.Duration(n) * minute }

// expiring is the alert whose expectations are a world of their own.
const expiring = "WebhookCaBundleExpiresSoon"

// expectationWorlds are those of the expectations: those that are scraped and evaluated alike
// are evaluated at once.
func expectationWorlds() []*world {
	alike := map[string]*world{}
	var out []*world
	for _, e := range slices.Concat(rollouts(), auditorsGo(), expectations) {
		key := fmt.Sprint(e.scrape, e.step, e.begin/400, e.begin/20 == 0, e.last/250)
		switch {
		case e.isAboutAbsence():
			key = e.name
		case e.alert == expiring:
			key = expiring
		}
		w := alike[key]
		if w == nil {
			w = &world{name: key, scrape: minutes(e.scrape), step: minutes(e.step), begin: minutes(e.begin)}
			alike[key], out = w, append(out, w)
		}
		w.begin, w.last = min(w.begin, minutes(e.begin)), max(w.last, minutes(e.last))
		w.scenarios = append(w.scenarios, e.scenario())
	}
	return out
}
