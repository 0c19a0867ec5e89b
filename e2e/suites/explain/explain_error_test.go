package explain

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// errorCase is a cause of an error of an API server about a webhook, and the
// cause that "explain --error" must make out of the words it uses.
type errorCase struct {
	name, cause string
	// related is the check whose finding says the same, if any.
	related string
	breaks  func(t *testing.T, b webhook.Backend, h *admissionv1.ValidatingWebhook)
}

var errorCases = []errorCase{
	{name: "denied", cause: "denied", breaks: atPath("/deny")},
	{name: "failing", cause: "server-error", breaks: atPath("/fail-every/1")},
	{name: "garbage", cause: "invalid-answer", breaks: atPath("/garbage")},
	{name: "slow", cause: "timeout", breaks: func(t *testing.T, b webhook.Backend, h *admissionv1.ValidatingWebhook) {
		atPath("/delay/5s")(t, b, h)
		h.TimeoutSeconds = new(int32(1))
	}},
	{name: "no-service", cause: "service-missing", related: "service-missing", breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
		testenv.Must(t, b.DeleteService(t.Context()))
	}},
	{name: "no-port", cause: "service-port-missing", related: "service-port-missing", breaks: func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.ClientConfig.Service.Port = new(int32(444))
	}},
	{name: "no-endpoints", cause: "no-ready-endpoints", related: "no-ready-endpoints", breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
		testenv.Must(t, b.Unready(t.Context()))
	}},
	{name: "refused", cause: "connection-refused", breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
		testenv.RefuseConnections(t, b)
	}},
	{name: "external-name", cause: "service-unroutable", related: "service-unroutable", breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
		renamed(t, b)
	}},
	{name: "own-server", cause: "not-found", breaks: func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		*h.ClientConfig.Service = admissionv1.ServiceReference{Namespace: "default", Name: "kubernetes", Path: new("/apis/gone.example.com/v1/reviews")}
	}},
	{name: "hangs-up", cause: "cut-off", breaks: connected(func(net.Conn) {})},
	{name: "no-tls", cause: "no-tls", breaks: connected(func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1<<12))
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})},
	{name: "resets", cause: "cut-off", breaks: connected(func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1<<12))
		_ = conn.(*net.TCPConn).SetLinger(0)
	})},
	{name: "no-certificate", cause: "no-certificate", breaks: connected(func(conn net.Conn) {
		_ = tls.Server(conn, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }}).Handshake()
	})},
	{name: "mesh", cause: "mesh", breaks: certified("", time.Hour)},
	{name: "client-cert", cause: "tls", breaks: serving(tls.RequireAnyClientCert, http.StatusOK)},
	{name: "other-path", cause: "not-found", breaks: serving(tls.NoClientCert, http.StatusNotFound)},
	{name: "unauthorized", cause: "unauthorized", breaks: serving(tls.NoClientCert, http.StatusUnauthorized)},
	{name: "forbidden", cause: "html-page", breaks: serving(tls.NoClientCert, http.StatusForbidden)},
	{name: "too-large", cause: "too-large", breaks: serving(tls.NoClientCert, http.StatusRequestEntityTooLarge)},
	{name: "overloaded", cause: "server-error", breaks: serving(tls.NoClientCert, http.StatusServiceUnavailable)},
	{name: "bad-gateway", cause: "html-page", breaks: serving(tls.NoClientCert, http.StatusBadGateway)},
	{name: "internal", cause: "html-page", breaks: serving(tls.NoClientCert, http.StatusInternalServerError)},
	{name: "busy", cause: "server-error", breaks: serving(tls.NoClientCert, http.StatusTooManyRequests)},
	{name: "teapot", cause: "server-error", breaks: serving(tls.NoClientCert, http.StatusTeapot)},
	{name: "method", cause: "not-found", breaks: serving(tls.NoClientCert, http.StatusMethodNotAllowed)},
	{name: "media-type", cause: "html-page", breaks: serving(tls.NoClientCert, http.StatusUnsupportedMediaType)},
	{name: "no-review", cause: "invalid-answer", breaks: serving(tls.NoClientCert, http.StatusOK)},
	{name: "expired", cause: "certificate-expired", breaks: certified("hook.pasted-expired.svc", -time.Hour)},
	{name: "misnamed", cause: "certificate-name", breaks: certified("hook.elsewhere.svc", time.Hour)},
	{name: "unknown-ca", cause: "unknown-authority", breaks: bundled(nil)},
	{name: "placeholder", cause: "ca-bundle-invalid", breaks: bundled([]byte("\n"))},
	{name: "no-pem", cause: "ca-bundle-invalid", related: "ca-bundle-invalid", breaks: bundled([]byte("nonsense"))},
	{name: "condition", cause: "match-condition", breaks: func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.MatchConditions = []admissionv1.MatchCondition{{Name: "lacking", Expression: "object.data.lacking == 'x' &&\n  object.metadata.name != 'y'"}}
	}},
}

func atPath(path string) func(*testing.T, webhook.Backend, *admissionv1.ValidatingWebhook) {
	return func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.ClientConfig.Service.Path = &path
	}
}

func bundled(bundle []byte) func(*testing.T, webhook.Backend, *admissionv1.ValidatingWebhook) {
	return func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.ClientConfig.CABundle = bundle
	}
}

func renamed(t *testing.T, b webhook.Backend) {
	t.Helper()
	services := b.Client.CoreV1().Services(b.Namespace)
	service := testenv.Get(services.Get(t.Context(), b.Name, metav1.GetOptions{}))(t)
	service.Spec.Type, service.Spec.ExternalName = corev1.ServiceTypeExternalName, "localhost"
	service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
	testenv.Get(services.Update(t.Context(), service, metav1.UpdateOptions{}))(t)
}

// connected does something with each connection, and hangs up.
func connected(do func(net.Conn)) func(*testing.T, webhook.Backend, *admissionv1.ValidatingWebhook) {
	return func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
		listener := testenv.Listen(t, b)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				do(conn)
				_ = conn.Close()
			}
		}()
		t.Cleanup(func() {
			testenv.Must(t, listener.Close())
			<-ended
		})
	}
}

// serving answers each call with a code and a page that is no review.
func serving(auth tls.ClientAuthType, code int) func(*testing.T, webhook.Backend, *admissionv1.ValidatingWebhook) {
	return func(t *testing.T, b webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.ClientConfig.CABundle = testenv.ServingCertificate{DNSName: "hook." + b.Namespace + ".svc", Left: time.Hour}.Serve(t, b, &http.Server{
			// In TLS 1.3 the refusal of a client comes after the handshake, and is
			// lost at times.
			TLSConfig: &tls.Config{ClientAuth: auth, MaxVersion: tls.VersionTLS12},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = fmt.Fprintf(w, "<html>%s</html>", http.StatusText(code))
			}),
		})
	}
}

// certified answers with a certificate of one's choice.
func certified(dns string, left time.Duration) func(*testing.T, webhook.Backend, *admissionv1.ValidatingWebhook) {
	return func(t *testing.T, b webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.ClientConfig.CABundle = testenv.ServingCertificate{DNSName: dns, Left: left}.Serve(t, b, &http.Server{Handler: b.Server})
	}
}

// complaint is what an API server answered about the webhook of a configuration, and
// what is to be made of it.
type complaint struct{ name, message, cause, related, configuration string }

// TestExplainError: what the API server really says is understood, and found
// in the cluster.
func TestExplainError(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	var all []complaint
	for _, m := range errorCases {
		b := w.Backend(t, "pasted-"+m.name)
		h := testenv.Hook(b, "/allow/pasted", testenv.Rule("", "configmaps"))
		m.breaks(t, b, &h)
		w.Validate(t, b.Namespace, h)
		message := refusal(t, m.name, func() error {
			_, err := w.CreateConfigMap(t, b.Namespace)
			return err
		})
		all = append(all, complaint{m.name, message, m.cause, m.related, b.Namespace})
	}
	w.explained(t, all)
}

// TestExplainErrorOfConversions does the same with conversions.
func TestExplainErrorOfConversions(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	var all []complaint
	for _, m := range []struct {
		name, path, cause string
		breaks            func(webhook.Backend, context.Context) error
	}{
		{name: "endpoints", path: "/convert", cause: "no-ready-endpoints", breaks: webhook.Backend.DeleteEndpoints},
		{name: "service", path: "/convert", cause: "service-missing", breaks: webhook.Backend.DeleteService},
		{name: "refusing", path: "/convert/deny", cause: "conversion-refused"},
		{name: "garbage", path: "/convert/garbage", cause: "invalid-answer"},
		{name: "failing", path: "/convert/fail-every/1", cause: "server-error"},
	} {
		b := w.Backend(t, "pasted-convert-"+m.name)
		group := "pasted-" + m.name + ".example.com"
		name := w.Widgets(t, group, b.Conversion(m.path))
		testenv.Eventually(t, func() error { return testenv.IgnoreExisting(w.CreateWidget(t, group, "one")) })
		if m.breaks != nil {
			testenv.Must(t, m.breaks(b, t.Context()))
		}
		message := refusal(t, m.name, func() error {
			_, err := w.WidgetClient(group, "v2").Get(t.Context(), "one", metav1.GetOptions{})
			return err
		})
		all = append(all, complaint{m.name, message, m.cause, "", name})
	}
	w.explained(t, all)
}

// TestExplainErrorOfPatches: a mutating webhook patches what cannot be.
func TestExplainErrorOfPatches(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "pasted-patch")
	made := testenv.Get(w.CreateConfigMap(t, b.Namespace))(t)
	h := testenv.Hook(b, "/patch", testenv.Rule("", "configmaps"))
	h.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Delete}
	w.Mutate(t, b.Namespace, testenv.Mutating(h))
	message := refusal(t, "patch", func() error {
		return w.Kube.CoreV1().ConfigMaps(b.Namespace).Delete(t.Context(), made.Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	w.explained(t, []complaint{{"patch", message, "patch", "", b.Namespace}})
}

// refusal makes a request until it fails, and returns how.
func refusal(t *testing.T, name string, request func() error) string {
	t.Helper()
	var refused error
	testenv.Eventually(t, func() error {
		if refused = request(); refused == nil {
			return fmt.Errorf("%s: the request went through", name)
		}
		return nil
	})
	return refused.Error()
}

// explained pastes all messages, as it stands in a log, and holds the
// answers against what is to be made of it.
func (w environment) explained(t *testing.T, all []complaint) {
	t.Helper()
	for batch := range slices.Chunk(all, 10) {
		var log strings.Builder
		for _, c := range batch {
			log.WriteString("Error from server: " + c.message + "\n")
		}
		answers := w.diagnose(t, log.String())
		if len(answers) != len(batch) {
			t.Fatalf("%d answers to\n%s", len(answers), log.String())
		}
		for i, c := range batch {
			got := answers[i]
			if got.Cause != c.cause || len(got.Webhooks) != 1 || got.Webhooks[0].Configuration != c.configuration {
				t.Errorf("%s: %s\nis explained as %+v, want %s of %s", c.name, c.message, got, c.cause, c.configuration)
			}
			if c.related != "" && (len(got.Findings) == 0 || got.Findings[0].Check != c.related) {
				t.Errorf("%s: findings %+v, want %s first", c.name, got.Findings, c.related)
			}
		}
	}
}

// diagnosed is what is read of "explain --error -o json".
type diagnosed struct {
	Cause    string
	Webhooks []struct{ Configuration string }
	Findings []struct{ Check string }
}

func (w environment) diagnose(t *testing.T, text string) []diagnosed {
	t.Helper()
	result := testenv.Command(t, "explain", "--kubeconfig="+w.Plane.Kubeconfig(), "--aggregator-routing=true", "-o=json", "--error="+text)
	var out struct{ Errors []diagnosed }
	if err := json.Unmarshal([]byte(result.Stdout), &out); err != nil {
		t.Fatal(fmt.Errorf("%s: exit code %d: %s%s: %w", text, result.Code, result.Stdout, result.Stderr, err))
	}
	return out.Errors
}
