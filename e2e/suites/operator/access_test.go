package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// prometheus is who may scrape without a review.
const prometheus = "system:serviceaccount:openshift-monitoring:prometheus-k8s"

// guarded is an auditor that serves HTTPS, as it does in a cluster.
type guarded struct {
	*testenv.Env
	address   string
	signer    *ca.Authority
	cert, key string
	process   *process.Process
}

// guard runs an auditor that serves with a certificate, against a server that
// sends reviews to webhooks and publishes its client CA.
func guard(t *testing.T) *guarded {
	t.Helper()
	w := testenv.New(t, cluster.Options{APIServerFlags: testenv.SendsReviews(), WithoutControllers: true})
	signer, err := ca.New("serving")
	testenv.Must(t, err)
	dir := t.TempDir()
	g := &guarded{Env: w, signer: signer, cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	g.renew(t)
	ports, err := process.FreePorts(1)
	testenv.Must(t, err)
	g.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	g.process, err = process.Run(testenv.Binary(t), filepath.Join(dir, "log"), "run", "--kubeconfig="+w.Plane.Kubeconfig(),
		"--web.listen-address="+g.address, "--web.tls-cert-file="+g.cert, "--web.tls-private-key-file="+g.key)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the auditor's log:\n%s", g.process.Output())
		}
		testenv.Must(t, g.process.Stop())
	})
	return g
}

// renew writes another serving certificate.
func (g *guarded) renew(t *testing.T) {
	t.Helper()
	pair, err := g.signer.Serving("127.0.0.1")
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(g.key, pair.Key, 0o600))
	testenv.Must(t, os.WriteFile(g.cert, pair.Certificate, 0o600))
}

// scraper is who asks: with a token, a certificate, or neither.
type scraper struct {
	token       string
	certificate *tls.Certificate
}

// certificate is a scraper whom the cluster's CA names.
func (g *guarded) certificate(t *testing.T, user string, groups ...string) scraper {
	t.Helper()
	config, err := g.Plane.As(user, groups...)
	testenv.Must(t, err)
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	testenv.Must(t, err)
	return scraper{certificate: &pair}
}

// account is a scraper with the token of a ServiceAccount.
func (g *guarded) account(t *testing.T, name string) scraper {
	t.Helper()
	accounts := g.Kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	testenv.Must(t, err)
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	testenv.Must(t, err)
	return scraper{token: request.Status.Token}
}

// allow lets a ServiceAccount get /metrics.
func (g *guarded) allow(t *testing.T, name string) {
	t.Helper()
	_, err := g.Kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "scrape"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = g.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scrape"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scrape"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// get asks for a path and returns the status and the certificate served with.
func (g *guarded) get(ctx context.Context, s scraper, path string) (int, *x509.Certificate, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(g.signer.Bundle)
	config := &tls.Config{RootCAs: roots}
	if s.certificate != nil {
		config.Certificates = []tls.Certificate{*s.certificate}
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 20 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+g.address+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	return response.StatusCode, response.TLS.PeerCertificates[0], response.Body.Close()
}

// answers waits until a path is answered so.
func (g *guarded) answers(t *testing.T, s scraper, path string, want int) {
	t.Helper()
	testenv.Eventually(t, func() error {
		got, _, err := g.get(t.Context(), s, path)
		if err == nil && got != want {
			err = fmt.Errorf("%s: %d, want %d", path, got, want)
		}
		return err
	})
}

func TestAccess(t *testing.T) {
	t.Parallel()
	g := guard(t)
	known, other := g.account(t, "known"), g.account(t, "other")
	g.allow(t, "known")
	trusted := g.certificate(t, prometheus)
	anonymous := scraper{}
	g.answers(t, anonymous, "/readyz", http.StatusOK)
	for _, test := range []struct {
		name string
		scraper
		path string
		want int
	}{
		{"anonymous", anonymous, "/metrics", http.StatusUnauthorized},
		{"anonymous probe", anonymous, "/healthz", http.StatusOK},
		{"made-up token", scraper{token: "made-up"}, "/metrics", http.StatusUnauthorized},
		{"token with the right", known, "/metrics", http.StatusOK},
		{"token without the right", other, "/metrics", http.StatusForbidden},
		{"page without a token", anonymous, "/", http.StatusUnauthorized},
		{"page with the right to /metrics", known, "/webhooks", http.StatusOK},
		{"page without the right", other, "/webhooks", http.StatusForbidden},
		{"trusted certificate", trusted, "/metrics", http.StatusOK},
		{"certificate with the right", g.certificate(t, "admin", "system:masters"), "/metrics", http.StatusOK},
		{"certificate without the right", g.certificate(t, "other"), "/metrics", http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) { g.answers(t, test.scraper, test.path, test.want) })
	}
	t.Run("certificate of a other's CA", func(t *testing.T) { g.refuses(t) })
	t.Run("renewed serving certificate", func(t *testing.T) { g.renews(t, trusted) })
	t.Run("old TLS", func(t *testing.T) {
		connection, err := tls.Dial("tcp", g.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
		if err == nil {
			t.Error("TLS 1.1 is accepted", connection.Close())
		}
	})
	t.Run("body that never comes", func(t *testing.T) { g.hangsUp(t) })
	t.Run("blocked reviews", func(t *testing.T) { g.outlives(t, known, other, trusted) })
}

// hangsUp wants a connection to end that announces a body and never sends it.
func (g *guarded) hangsUp(t *testing.T) {
	connection, err := tls.Dial("tcp", g.address, &tls.Config{InsecureSkipVerify: true})
	testenv.Must(t, err)
	defer connection.Close()
	testenv.Must(t, connection.SetReadDeadline(time.Now().Add(2*testenv.MaxWait))) // its limit of 30 s and more
	_, err = fmt.Fprint(connection, "GET /metrics HTTP/1.1\r\nHost: auditor\r\nContent-Length: 1000\r\n\r\n")
	testenv.Must(t, err)
	if _, err := io.Copy(io.Discard, connection); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it is held open")
	}
}

// refuses wants a certificate that another CA signed, under the name of the
// CA that is asked for, to be worth nothing.
func (g *guarded) refuses(t *testing.T) {
	signer, err := ca.New("e2e")
	testenv.Must(t, err)
	pair, err := signer.Client(prometheus)
	testenv.Must(t, err)
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	testenv.Must(t, err)
	got, _, err := g.get(t.Context(), scraper{certificate: &certificate}, "/metrics")
	if err == nil && got != http.StatusUnauthorized {
		t.Errorf("%d", got)
	}
}

func (g *guarded) renews(t *testing.T, s scraper) {
	_, before, err := g.get(t.Context(), s, "/metrics")
	testenv.Must(t, err)
	g.renew(t)
	testenv.Eventually(t, func() error {
		_, now, err := g.get(t.Context(), s, "/metrics")
		if err == nil && now.Equal(before) {
			err = errors.New("still the old certificate")
		}
		return err
	})
}

// outlives has a dead webhook block the reviews themselves: who was known is
// let in, and so is a trusted certificate.
func (g *guarded) outlives(t *testing.T, known, other, trusted scraper) {
	g.block(t)
	for name, test := range map[string]struct {
		scraper
		want int
	}{
		"known":   {known, http.StatusOK},
		"trusted": {trusted, http.StatusOK},
		"new":     {scraper{token: "never seen"}, http.StatusServiceUnavailable},
	} {
		got, _, err := g.get(t.Context(), test.scraper, "/metrics")
		if err != nil || got != test.want {
			t.Errorf("%s: %d %v, want %d", name, got, err, test.want)
		}
	}
	g.answers(t, other, "/metrics", http.StatusServiceUnavailable)
	g.Unregister(t, "all")
	g.answers(t, other, "/metrics", http.StatusForbidden)
}

// block has a dead webhook block the reviews.
func (g *guarded) block(t *testing.T) {
	t.Helper()
	g.Validate(t, "all", testenv.CatchAll("*/*"))
	testenv.Eventually(t, func() error {
		_, err := g.Kube.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}}, metav1.CreateOptions{})
		if err == nil {
			return errors.New("reviews are not blocked")
		}
		return nil
	})
}
