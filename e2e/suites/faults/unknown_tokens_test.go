//go:build faults

package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/proxy"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// secured is an auditor that serves HTTPS and reaches the API server through a
// proxy.
type secured struct {
	*testenv.Env
	proxy   *proxy.Proxy
	process *process.Process
	address string
	client  *http.Client
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	w := testenv.New(t, cluster.Options{WithoutControllers: true})
	p, err := proxy.Start(w.Plane.Config())
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, p.Close()) })
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	testenv.Must(t, cluster.WriteKubeconfig(kubeconfig, &rest.Config{Host: p.URL}))
	ports, err := process.FreePorts(1)
	testenv.Must(t, err)
	s := &secured{Env: w, proxy: p, address: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	s.process, err = process.Run(testenv.Binary(t), filepath.Join(dir, "log"), "run", "--kubeconfig="+kubeconfig, "--web.listen-address="+s.address, "--web.self-signed")
	testenv.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the auditor's log:\n%s", s.process.Output())
		}
		testenv.Must(t, s.process.Stop())
	})
	testenv.EventuallyWithin(t, recovery, func() error {
		code, err := s.get(t.Context(), "/readyz", "")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("readyz: %d", code)
		}
		return err
	})
	return s
}

// get asks for a path with a token and returns the code of a whole answer.
func (s *secured) get(ctx context.Context, path, token string) (int, error) {
	response, err := s.ask(ctx, path, token)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

func (s *secured) ask(ctx context.Context, path, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	return s.client.Do(request)
}

// equalsAudit waits until what the token reads of the metrics is what a fresh audit says.
func (s *secured) equalsAudit(t *testing.T, token string) {
	t.Helper()
	testenv.EventuallyWithin(t, recovery, func() error {
		response, err := s.ask(t.Context(), "/metrics", token)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		m, err := metrics.Parse(response.Body)
		if err != nil {
			return err
		}
		return agrees(m, audited(t, s.Plane.Kubeconfig()))
	})
}

// scraper makes a ServiceAccount that may get /metrics.
func (s *secured) scraper(t *testing.T) {
	t.Helper()
	const name = "scraper"
	_, err := s.Kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = s.Kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = s.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// token is another token of the scraper.
func (s *secured) token(t *testing.T) string {
	t.Helper()
	request, err := s.Kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(t.Context(), "scraper", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	testenv.Must(t, err)
	return request.Status.Token
}

// scrapes waits until a token lets scrape.
func (s *secured) scrapes(t *testing.T, token string) {
	t.Helper()
	testenv.EventuallyWithin(t, recovery, func() error {
		code, err := s.get(t.Context(), "/metrics", token)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("/metrics: %d", code)
		}
		return err
	})
}

// TestFaultUnknownTokens sends 600 made-up tokens: few of them are reviewed, and who
// could scrape before can at any time. Connections that say nothing are counted,
// not logged one by one, those that announce a body end, and SIGTERM lets the scrape in flight end.
func TestFaultUnknownTokens(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	s.scraper(t)
	known := s.token(t)
	s.scrapes(t, known)
	for _, fault := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"made-up tokens", func(t *testing.T) { s.flood(t, known) }},
		{"idle connections", func(t *testing.T) { s.idle(t, known) }},
		{"held connections", func(t *testing.T) { s.held(t, known) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.do(t)
			s.Validate(t, "after", testenv.CatchAll("configmaps"))
			s.equalsAudit(t, known)
		})
	}
	t.Run("scrape in flight", func(t *testing.T) { s.terminated(t) })
}

func (s *secured) flood(t *testing.T, known string) {
	const tokens = 600
	counted := &requests{counts: map[string]int{}}
	s.proxy.Break(counted.count)
	begun := time.Now()
	limited := 0
	for i := range tokens {
		code, err := s.get(t.Context(), "/metrics", fmt.Sprintf("made-up-%d", i))
		testenv.Must(t, err)
		if code == http.StatusTooManyRequests {
			limited++
		}
		if i%50 == 0 {
			code, err := s.get(t.Context(), "/metrics", known)
			testenv.Must(t, err)
			if code != http.StatusOK {
				t.Errorf("who could scrape before, after %d unknown tokens: %d", i, code)
			}
		}
	}
	most := 40 + 10*(int(time.Since(begun)/time.Second)+1) // at once, and then ten a second
	t.Logf("%d made-up tokens in %s: %d reviews, %d answers 429", tokens, time.Since(begun).Round(time.Millisecond), counted.of("reviews"), limited)
	if n := counted.of("reviews"); n == 0 || n > most+1 { // one of them may be of the known token
		t.Errorf("%d reviews, want at most %d", n, most+1)
	}
	s.scrapes(t, s.token(t)) // a renewed token is reviewed in the end
}

func (s *secured) idle(t *testing.T, known string) {
	const idle = 400
	for range idle {
		c, err := net.Dial("tcp", s.address)
		testenv.Must(t, err)
		testenv.Must(t, c.Close())
	}
	s.scrapes(t, known)
	log := s.process.Output()
	if n := strings.Count(log, "TLS handshake error"); n == 0 || n > 5 {
		t.Errorf("%d lines of %d idle connections", n, idle)
	}
}

// held opens connections that announce a body and never send it: scrapes go on while
// they come and while they last, and all of them end.
func (s *secured) held(t *testing.T, known string) {
	const held, most = 400, 64 << 10 // kB of memory
	before := s.memory(t)
	var connections []net.Conn
	defer func() {
		for _, c := range connections {
			c.Close()
		}
	}()
	var slowest time.Duration
	scrape := func(n int) {
		begun := time.Now()
		code, err := s.get(t.Context(), "/metrics", known)
		if err != nil || code != http.StatusOK {
			t.Fatalf("a scrape beside %d connections: %d, %v", n, code, err)
		}
		slowest = max(slowest, time.Since(begun))
	}
	for i := range held {
		raw, err := net.Dial("tcp", s.address)
		testenv.Must(t, err)
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		connections = append(connections, c)
		path := []string{"/metrics", "/healthz"}[i%2]
		_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: auditor\r\nContent-Length: 1000\r\n\r\n", path)
		testenv.Must(t, err)
		if i%100 == 99 {
			scrape(i + 1)
		}
	}
	grown := s.memory(t) - before
	t.Logf("%d connections: %d kB more memory; the slowest scrape took %s", held, grown, slowest)
	if grown > most {
		t.Errorf("%d connections take %d kB, want at most %d", held, grown, most)
	}
	for i, c := range connections {
		testenv.Must(t, c.SetReadDeadline(time.Now().Add(recovery)))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d does not end", i)
		}
	}
	scrape(0)
}

// memory is what the auditor has resident, in kB.
func (s *secured) memory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.PID()))
	testenv.Must(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kB int
	_, err = fmt.Sscan(rest, &kB)
	testenv.Must(t, err)
	return kB
}

// terminated ends the auditor while it reviews a token: the scrape is answered
// all the same.
func (s *secured) terminated(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	s.proxy.Break(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			once()
			<-finish
		}
		return false
	})
	token := s.token(t)
	answered := make(chan error, 1)
	go func() {
		for {
			code, err := s.get(context.WithoutCancel(t.Context()), "/metrics", token)
			if err != nil || code != http.StatusTooManyRequests {
				answered <- err
				return
			}
			time.Sleep(100 * time.Millisecond) // the limit of reviews: tried again as Retry-After asks
		}
	}()
	<-begun
	testenv.Must(t, syscall.Kill(s.process.PID(), syscall.SIGTERM))
	testenv.EventuallyWithin(t, recovery, func() error {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("connections are still taken"), c.Close())
	})
	close(finish)
	if err := <-answered; err != nil {
		t.Errorf("the scrape in flight: %v", err)
	}
	<-s.process.Done()
	if code := s.process.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
