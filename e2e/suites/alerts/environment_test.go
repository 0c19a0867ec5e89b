package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/timeline"
)

// waitLimit bounds every wait for a real server. API servers read manifests each minute.
const waitLimit = 5 * time.Minute

func TestMain(m *testing.M) {
	// Tests wait for servers more than they compute.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err) // unreachable: package testing has this flag
	}
	os.Exit(m.Run())
}

// environment is a control plane, the clients that tests use, and the users whose requests
// webhooks are called for.
type environment struct {
	*testenv.Env
	manifests manifests // "" where the API server reads none
	users     *users
}

// newEnvironment starts a control plane and a webhook server until the end of the
// test.
func newEnvironment(t testing.TB, o cluster.Options) environment {
	t.Helper()
	return environment{Env: testenv.New(t, o), users: &users{}}
}

// users send each of their requests twice in a round: those that are quick, and those that wait
// for webhooks.
type users struct{ quick, slow []func(context.Context) error }

// round is what users do between two scrapes. Requests may fail; what became of them is for
// the metrics to show. Few are under way at once, so that they wait for webhooks alone.
func (u *users) round(ctx context.Context) {
	var quick, slow errgroup.Group
	quick.SetLimit(4)
	for _, request := range u.quick {
		quick.Go(func() error { return errors.Join(request(ctx), request(ctx)) })
	}
	for _, request := range u.slow {
		slow.Go(func() error { return errors.Join(request(ctx), request(ctx)) })
	}
	_, _ = quick.Wait(), slow.Wait()
}

func (w environment) auditors(t testing.TB, flags ...string) []*auditor.Auditor {
	t.Helper()
	return []*auditor.Auditor{w.Run(t, flags...), w.Run(t, flags...)}
}

// neverSlow is the flag for a Policy by which these webhooks may take longer than
// they ever do: a test that is not about latency must not see how loaded the
// machine is.
func neverSlow(t testing.TB, webhooks ...string) string {
	t.Helper()
	thresholds := map[string]float64{}
	for _, name := range webhooks {
		thresholds[name] = 10
	}
	policy := testenv.Get(json.Marshal(map[string]any{"latencyThresholds": thresholds}))(t)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	testenv.Must(t, os.WriteFile(file, policy, 0o600))
	return "--config=" + file
}

// watched is what Prometheus sees of the environment, in a time of its own.
type watched struct {
	*timeline.Timeline
	environment
	t       *testing.T
	targets []timeline.Target
	begun   time.Time
}

// watch evaluates the printed rules over what these targets export.
func (w environment) watch(t *testing.T, targets ...timeline.Target) *watched {
	t.Helper()
	return &watched{timeline.New(t), w, t, targets, time.Now()}
}

// rounds are so many that a webhook which fails every tenth call does, as often in each state.
const rounds = 5

// lasts has what users do, and what the servers make of it, go on for so long. The first
// rounds are real, the others repeat them.
func (w *watched) lasts(span time.Duration) {
	w.t.Helper()
	w.Change(w.targets...)
	for range rounds {
		w.users.round(w.t.Context())
		w.Scrape(w.targets...)
	}
	w.Repeat(span - rounds*timeline.Tick)
	w.t.Logf("%s of the alerts have taken %.0f s", w.Now(), time.Since(w.begun).Seconds())
}

// isQuick is lasts while these webhooks are quick: rounds in which the machine was not are not
// repeated.
func (w *watched) isQuick(span time.Duration, webhooks []string) {
	w.t.Helper()
	w.Change(w.targets...)
	kept := 0
	for range 100 {
		w.users.round(w.t.Context())
		if w.ScrapeQuick(webhooks, w.targets...) {
			kept++
		}
		if kept == rounds {
			w.Repeat(span)
			return
		}
	}
	w.t.Fatalf("the machine is too busy: %d rounds of 100 were quick", kept)
}

// lastsWhile has what users do go on for so long, until something has happened in real time,
// again and again.
func (w *watched) lastsWhile(span time.Duration, happens func(context.Context) error) {
	w.t.Helper()
	w.Change(w.targets...)
	w.settles(happens)
	w.Scrape(w.targets...)
	w.Repeat(span)
}

// settles waits until the servers have noticed a change, while users go on.
func (w *watched) settles(noticed func(context.Context) error) {
	w.t.Helper()
	eventually(w.t, func(ctx context.Context) error {
		w.users.round(ctx)
		return noticed(ctx)
	})
}

// fires wants alerts of these names to fire now, and no others.
func (w *watched) fires(want ...string) {
	w.t.Helper()
	var have []string
	for _, a := range w.Firing() {
		have = append(have, a.Labels.Get("alertname"))
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		w.t.Errorf("after %s %q fire, want %q", w.Now(), have, want)
	}
}

// one is the text of the only alert of the name that fires, and its labels.
func (w *watched) one(name string) (text string, label func(string) string) {
	w.t.Helper()
	for _, a := range w.Firing() {
		if a.Labels.Get("alertname") == name {
			return strings.Join([]string{a.Annotations.Get("summary"), a.Annotations.Get("description")}, "\n"), a.Labels.Get
		}
	}
	w.t.Fatalf("no %s fires", name)
	return "", nil
}

// eventually calls try until it returns nil, for at most waitLimit.
func eventually(t testing.TB, try func(context.Context) error) {
	t.Helper()
	testenv.EventuallyWithin(t, waitLimit, func() error { return try(t.Context()) })
}
