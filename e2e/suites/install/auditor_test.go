package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

const (
	account = "webhook-auditor"
	// prometheus is who may scrape without a review.
	prometheus = "system:serviceaccount:openshift-monitoring:prometheus-k8s"
)

// auditor is one that runs as the Pods of a Deployment would.
type auditor struct {
	*process.Process
	address string
	// dir is where the volumes are mounted.
	dir string
	// roots verify the serving certificate; none while it is self-signed.
	roots   *x509.CertPool
	token   string
	trusted tls.Certificate
}

// start runs the auditor with the arguments of the installed Deployment, the
// files that its Pods get, and the token of its account. The Secret with the
// serving certificate is not there yet.
func start(t testing.TB, w *testenv.Env, namespace string, flags ...string) *auditor {
	t.Helper()
	request := testenv.Get(w.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	config := testenv.Get(w.Plane.As(prometheus))(t)
	ports := testenv.Get(process.FreePorts(1))(t)
	a := &auditor{
		token: request.Status.Token, trusted: testenv.Get(tls.X509KeyPair(config.CertData, config.KeyData))(t),
		address: fmt.Sprintf("127.0.0.1:%d", ports[0]), dir: t.TempDir(),
	}
	own := &rest.Config{Host: w.Plane.Config().Host, BearerToken: a.token, TLSClientConfig: rest.TLSClientConfig{CAData: w.Plane.Config().CAData}}
	args := append(arguments(t, w, a.dir), flags...)
	args = append(args, "--kubeconfig="+testenv.Kubeconfig(t, own), "--namespace="+namespace, "--web.listen-address="+a.address)
	a.Process = testenv.Get(process.Run(testenv.Binary(t), filepath.Join(a.dir, "log"), args...))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the auditor's log:\n%s", a.Output())
		}
		testenv.Must(t, a.Stop())
	})
	return a
}

// arguments are those of the container, with the mounted folders in dir.
func arguments(t testing.TB, w *testenv.Env, dir string) []string {
	t.Helper()
	deployments := testenv.Get(w.Kube.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + account}))(t)
	if len(deployments.Items) != 1 {
		t.Fatalf("%d Deployments, want one", len(deployments.Items))
	}
	installed := deployments.Items[0]
	policy := testenv.Get(w.Kube.CoreV1().ConfigMaps(installed.Namespace).Get(t.Context(), account, metav1.GetOptions{}))(t)
	for name, content := range policy.Data {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	mounted := strings.NewReplacer("=/etc/webhook-auditor/", "="+dir+"/", "=/tls/", "="+dir+"/")
	var out []string
	for _, arg := range installed.Spec.Template.Spec.Containers[0].Args {
		out = append(out, mounted.Replace(arg))
	}
	return out
}

// serving writes what the Secret with the serving certificate holds.
func (a *auditor) serving(t testing.TB) {
	t.Helper()
	signer := testenv.Get(ca.New("serving"))(t)
	pair := testenv.Get(signer.Serving("127.0.0.1"))(t)
	a.roots = x509.NewCertPool()
	a.roots.AppendCertsFromPEM(signer.Bundle)
	testenv.Must(t, os.WriteFile(filepath.Join(a.dir, "tls.key"), pair.Key, 0o600))
	testenv.Must(t, os.WriteFile(filepath.Join(a.dir, "tls.crt"), pair.Certificate, 0o600))
}

// scrape reads the metrics, with a token or as the trusted Prometheus.
func (a *auditor) scrape(ctx context.Context, token string) (metrics.Metrics, error) {
	// As the ServiceMonitors have it, of Kubernetes and of OpenShift.
	config := &tls.Config{RootCAs: a.roots, InsecureSkipVerify: a.roots == nil}
	var to http.RoundTripper = &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	if token == "" {
		config.Certificates = []tls.Certificate{a.trusted}
	} else {
		to = transport.NewBearerAuthRoundTripper(token, to)
	}
	text, err := web.Get(ctx, &http.Client{Transport: to, Timeout: 20 * time.Second}, "https://"+a.address+"/metrics")
	if err != nil {
		return nil, err
	}
	return metrics.Parse(text)
}

// scraper is the token of an account that may get /metrics, because of the
// ClusterRole that is installed for that.
func scraper(t testing.TB, w *testenv.Env, name string) string {
	t.Helper()
	w.Kubectl(t, "create", "serviceaccount", name)
	w.Kubectl(t, "create", "clusterrolebinding", name, "--clusterrole=webhook-auditor-metrics-reader", "--serviceaccount=default:"+name)
	return strings.TrimSpace(w.Kubectl(t, "create", "token", name))
}
