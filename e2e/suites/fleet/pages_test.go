//go:build thanos

package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// pager is an Alertmanager with the routes that users read, and the pages that it sends.
type pager struct {
	URL string

	mu     sync.Mutex
	firing map[string]bool            // by what makes a page of several alerts
	pages  map[string]int             // by cluster
	alerts map[string]map[string]bool // by cluster
}

// newPager starts an Alertmanager until the end of the test.
func newPager(t *testing.T) *pager {
	t.Helper()
	p := &pager{firing: map[string]bool{}, pages: map[string]int{}, alerts: map[string]map[string]bool{}}
	receiver := httptest.NewServer(p)
	t.Cleanup(receiver.Close)
	config, err := monitoring.Routes("../../../rules/alertmanager.yaml", receiver.URL, scale)
	testenv.Must(t, err)
	config["route"] = with(config["route"], object{"group_wait": "1s", "group_interval": "1s"}) // of what is not ours
	text, err := json.Marshal(config)
	testenv.Must(t, err)
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "alertmanager.json"), text, 0o600))
	ports, err := process.FreePorts(1)
	testenv.Must(t, err)
	p.URL = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	binaries, err := programs.Monitoring()
	testenv.Must(t, err)
	running, err := process.SparinglyIn(dir, filepath.Join(binaries, "alertmanager"), filepath.Join(dir, "log"),
		"--config.file=alertmanager.json", "--storage.path=data", "--web.listen-address="+monitoring.Address(p.URL), "--cluster.listen-address=")
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, running.Stop()) })
	testenv.Eventually(t, func() error { return monitoring.Get(t.Context(), p.URL+"/-/ready", nil) })
	return p
}

// ServeHTTP takes a notification.
func (p *pager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n struct {
		Receiver, Status, GroupKey string
		Alerts                     []struct {
			Status string
			Labels map[string]string
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if n.Receiver != "page" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	about, firing := n.Alerts[0].Labels["cluster"], n.Status == "firing"
	if firing && !p.firing[n.GroupKey] {
		p.pages[about]++
	}
	p.firing[n.GroupKey] = firing
	if p.alerts[about] == nil {
		p.alerts[about] = map[string]bool{}
	}
	for _, a := range n.Alerts {
		p.alerts[about][a.Labels["alertname"]] = true
	}
}

// paged wants so many pages about each cluster, and no others.
func (p *pager) paged(want map[string]int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for cluster := range maps.Keys(p.pages) {
		if p.pages[cluster] > want[cluster] {
			return fmt.Errorf("%d pages about cluster %s, want %d: %q", p.pages[cluster], cluster, want[cluster], slices.Sorted(maps.Keys(p.alerts[cluster])))
		}
	}
	for cluster, times := range want {
		if p.pages[cluster] != times {
			return fmt.Errorf("%d pages about cluster %s, want %d; %d clusters are paged, want %d", p.pages[cluster], cluster, times, len(p.pages), len(want))
		}
	}
	return nil
}
