package inputs

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestFlags: each flag of a command changes an answer about a cluster, and of those that go on
// running one about files, or is a usage error. What a flag changes of other answers about
// files, a test beside the program shows.
func TestFlags(t *testing.T) {
	w := environment{compared.UseAlone(t)}
	checks := root + "pkg/classify/testdata/"
	w.fillWhole(t, slices.Concat(fixture(t, checks+"label-opt-out.yaml"), fixture(t, checks+"service-unroutable.yaml"), fixture(t, checks+"failing-match-condition.yaml")))
	defer w.empty(t)
	added := filepath.Join(t.TempDir(), "added.yaml")
	testenv.Must(t, os.WriteFile(added, []byte(strings.ReplaceAll(string(read(t, checks+"service-unroutable.yaml"))+"---\n"+strings.ReplaceAll(string(read(t, checks+"label-opt-out.yaml")), "{name: object}", "{name: another}"), "policy", "police")), 0o600))
	policy, object := filepath.Join(t.TempDir(), "policy.yaml"), filepath.Join(t.TempDir(), "new.yaml")
	testenv.Must(t, os.WriteFile(policy, []byte("{checks: [label-opt-out], longTimeoutSeconds: 1, latencyThresholds: {headless.policy.example.com: 10}}\n"), 0o600))
	testenv.Must(t, os.WriteFile(object, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"policy"}}`), 0o600))
	kubeconfig, files := "--kubeconfig="+w.Plane.Kubeconfig(), "--aggregator-routing=true --from="+added
	f := flagTable{values: map[string][]string{
		"aggregator-routing": {"true", "false", "auto"}, "api-version": {"v1beta1", "v1"}, "as": {"jane"}, "as-group": {"none"}, "by": {"user"}, "checks": {"label-opt-out"},
		"config": {policy}, "context": {"none"}, "degraded": {"off"}, "degraded.inertia": {"0s"}, "error": {`failed calling webhook "a.example.com": EOF`}, "fail-on": {"info", "never"},
		"from": {checks + "label-opt-out.yaml"}, "filename": {object}, "kubeconfig": {"none"}, "labels": {"a=b"}, "log.format": {"json"}, "log.level": {"error"}, "namespace": {"elsewhere"}, "observe": {"apiserver"}, "output": {"json"},
		"probe": {"tls"}, "prometheus-url": {"http://127.0.0.1:9"}, "request-timeout": {"1ns", "1ms"}, "server-version": {"v1.30", "v1.25"}, "sort": {"name"},
		"web.allowed-hosts": {"elsewhere"}, "web.max-series": {"1"}, "down": {"policy/headless"}, "down-node": {"none"}, "delete": {"policy"},
	}}
	for command, bases := range map[string][]string{
		"audit":        {kubeconfig, kubeconfig + " --fixes", kubeconfig + " -n elsewhere", kubeconfig + " --prometheus-url=http://127.0.0.1:9"},
		"explain":      {kubeconfig + " create jobs.batch -n policy", kubeconfig + " create jobs.batch -o json", kubeconfig + " create carts.example.com", kubeconfig + " -f " + object, kubeconfig + " --call -f " + object},
		"impact":       {kubeconfig + " validatingwebhookconfiguration/policy", kubeconfig + " validatingwebhookconfiguration/policy -o json", kubeconfig, kubeconfig + " --down=policy/both", kubeconfig + " --down=policy/both -o json"},
		"top":          {kubeconfig + " --observe-for=1s -n elsewhere", kubeconfig + " --prometheus-url=http://127.0.0.1:9"},
		"diff":         {kubeconfig + " " + added, kubeconfig + " " + policy},
		"run":          {kubeconfig, kubeconfig + " --degraded.inertia=0s", kubeconfig + " --web.self-signed"},
		"mcp":          {kubeconfig},
		"run of files": {files, files + " --degraded.inertia=0s"},
		"mcp of files": {files},
	} {
		t.Run(command, func(t *testing.T) {
			command, _, _ := strings.Cut(command, " ")
			f.compare(t, command, bases)
		})
	}
}

// flagTable are values of flags that change answers.
type flagTable struct{ values map[string][]string }

var (
	// aFlag matches a flag in the help of a command, and whether it takes a value.
	aFlag = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z.-]+)( \w+)? {2,}`)
	// moving matches what differs from one answer to the next.
	moving = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][0-9:.]+Z?|127\.0\.0\.1:\d+|\d+(?:\.\d+)? ?m?s\b|nonce="[^"]*"|auditor-\d+`)
	// elsewhere are flags whose effects other tests show: they need a backend, clients, calls
	// or another time.
	elsewhere = []string{
		"labels", "mcp server-version", "probe", "run observe", "settle", "sort", "top config",
		"web.allow-http", "web.listen-address", "web.tls-private-key-file", "web.trusted-user",
	}
)

// compare tries each flag of the command with each of the other arguments.
func (f flagTable) compare(t *testing.T, command string, bases []string) {
	t.Helper()
	plain := make([]string, len(bases))
	for i, base := range bases {
		plain[i] = f.answer(t, command, strings.Fields(base))
		if again := f.answer(t, command, strings.Fields(base)); again != plain[i] {
			t.Fatalf("%s %s answers differently each time:\n%s", command, base, difference(plain[i], again))
		}
	}
	for _, m := range aFlag.FindAllStringSubmatch(testenv.Command(t, command, "--help").Stdout, -1) {
		if slices.Contains(elsewhere, m[1]) || slices.Contains(elsewhere, command+" "+m[1]) {
			continue
		}
		flags := []string{"--" + m[1]}
		if m[2] != "" {
			flags = nil
			for _, value := range append(slices.Clone(f.values[m[1]]), "none")[:max(1, len(f.values[m[1]]))] {
				flags = append(flags, "--"+m[1]+"="+value)
			}
		}
		differs := false
		for i := 0; i < len(bases)*len(flags) && !differs; i++ {
			base := bases[i/len(flags)]
			differs = f.answer(t, command, append(strings.Fields(base), flags[i%len(flags)])) != plain[i/len(flags)]
		}
		if !differs {
			t.Errorf("%s %v has no effect", command, flags)
		}
	}
}

func (f flagTable) answer(t *testing.T, command string, args []string) string {
	t.Helper()
	switch command {
	case "run":
		return moving.ReplaceAllString(served(t, args), "")
	case "mcp":
		if r := testenv.Command(t, append([]string{"mcp"}, args...)...); r.Code != 0 { // its input ends at once
			return r.Stderr
		}
		a := agent(t, "mcp", args...)
		return a.ask("audit") + a.ask("explain create jobs.batch -n police") + a.ask("impact --down=police/headless")
	}
	r := testenv.Command(t, append([]string{command}, args...)...)
	return moving.ReplaceAllString(fmt.Sprint(r.Code, r.Stdout, r.Stderr), "")
}

// served is what a running auditor logs, exports and shows, to a browser that calls it by a
// foreign name as well.
func served(t *testing.T, args []string) string {
	t.Helper()
	a := testenv.Get(auditor.Launch(auditor.Options{Binary: testenv.Binary(t), Flags: args}))(t)
	defer a.Stop() //nolint:errcheck // it may have ended
	if slices.Contains(args, "--web.self-signed") {
		a.URL = strings.Replace(a.URL, "http:", "https:", 1)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	get := func(path, host string) string {
		request := testenv.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+path, nil))(t)
		request.Host = host
		response, err := client.Do(request)
		if err != nil {
			return ""
		}
		defer response.Body.Close()
		return fmt.Sprint(response.StatusCode, string(testenv.Get(io.ReadAll(response.Body))(t)))
	}
	ready := func(context.Context) error {
		if answer := get("/readyz", ""); !strings.HasPrefix(answer, "200") && !strings.HasPrefix(answer, "40") && !warning.MatchString(a.Output()) {
			return fmt.Errorf("it answers %q", answer)
		}
		return nil
	}
	if a.Await(t.Context(), ready) != nil { // it has ended
		return a.Output()
	}
	metrics := slices.DeleteFunc(strings.Split(get("/metrics", ""), "\n"), func(line string) bool { return !lasting.MatchString(line) })
	log := strings.Split(moving.ReplaceAllString(a.Output(), ""), "\n")
	slices.Sort(log)
	return strings.Join(append(log, metrics...), "\n") + get("/", "") + get("/", "elsewhere")
}

// warning matches what an auditor logs that has no Snapshot to serve.
var warning = regexp.MustCompile(`level"?[=:]"?(?:WARN|ERROR)`)

// lasting matches series that say the same at each scrape.
var lasting = regexp.MustCompile(`^\w+_(?:finding|condition|webhook_info|series_dropped_total)\{|^\d+`)
