//go:build linux && node

package node

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// function is something that a cluster does, and whether it still does it: in a namespace
// that is new, within a few seconds.
type function struct {
	name  string
	works func(ctx context.Context, namespace string) error
}

var (
	startsPods = function{"a Pod of a new namespace starts", func(ctx context.Context, namespace string) error {
		pod, err := real.Kube.CoreV1().Pods(namespace).Get(ctx, "first", metav1.GetOptions{})
		if err != nil {
			_, err = real.Kube.CoreV1().Pods(namespace).Create(ctx, firstPod(), metav1.CreateOptions{})
			return errors.Join(err, errors.New("the Pod was just created"))
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("the Pod is %s", pod.Status.Phase)
		}
		return nil
	}}
	issuesTokens = function{"a ServiceAccount of a new namespace gets a token", func(ctx context.Context, namespace string) error {
		_, err := real.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		return err
	}}
	findsEndpoints = function{"a new Service gets endpoints", func(ctx context.Context, namespace string) error {
		services := real.Kube.CoreV1().Services(namespace)
		if _, err := services.Get(ctx, "first", metav1.GetOptions{}); err != nil {
			_, err = services.Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "first"},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "first"}, Ports: []corev1.ServicePort{{Port: 443}}},
			}, metav1.CreateOptions{})
			return errors.Join(err, errors.New("the Service was just created"))
		}
		slices, err := real.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=first"})
		if err == nil && len(slices.Items) == 0 {
			err = errors.New("there is no EndpointSlice")
		}
		return err
	}}
	renewsLeases = function{"nodes renew their leases", func(ctx context.Context, namespace string) error {
		lease, err := real.Kube.CoordinationV1().Leases("kube-node-lease").Get(ctx, "w1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		created, err := real.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime.Time.Before(created.CreationTimestamp.Time) {
			err = errors.New("w1 has not renewed its lease since the namespace was created")
		}
		return err
	}}
	recordsEvents = function{"Events are recorded", func(ctx context.Context, namespace string) error {
		_, err := real.Kube.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "first-"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "first"},
		}, testenv.DryRun)
		return err
	}}
	certifiesKubelets = function{"kubelets ask for certificates", func(ctx context.Context, namespace string) error {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return err
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + namespace, Organization: []string{"system:nodes"}}}, key)
		if err != nil {
			return err
		}
		_, err = real.Kube.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: namespace + "-"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			},
		}, testenv.DryRun)
		return err
	}}
	functions = []function{startsPods, issuesTokens, findsEndpoints, renewsLeases, recordsEvents, certifiesKubelets}
)

func firstPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "first", Labels: map[string]string{"app": "first"}},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "main", Image: nodes.ImageName("fixture")}}},
	}
}

// stops are the functions that a dead webhook on a resource ends, in the whole cluster,
// and what audit says of it.
var stops = []struct {
	resources string
	ends      []string
	said      []string
}{
	{resources: "configmaps", ends: []string{startsPods.name}, said: []string{"kube-root-ca.crt"}},
	{resources: "serviceaccounts", ends: []string{startsPods.name, issuesTokens.name}, said: []string{"ServiceAccount default"}},
	{resources: "secrets"},
	{resources: "endpointslices", ends: []string{findsEndpoints.name}, said: []string{"the endpoints of Services"}},
	{resources: "leases", ends: []string{renewsLeases.name}, said: []string{"heartbeats of nodes", "leader election"}},
	{resources: "events", ends: []string{recordsEvents.name}, said: []string{"Events"}},
	{resources: "certificatesigningrequests", ends: []string{certifiesKubelets.name}, said: []string{"certificates of kubelets"}},
}

// TestDeadWebhookStopsFunctions: a webhook without a Service, which fails closed in all
// namespaces, ends what the table says and nothing else, and audit says so.
func TestDeadWebhookStopsFunctions(t *testing.T) {
	for _, s := range stops {
		t.Run(s.resources, func(t *testing.T) {
			h := hook{name: "dead-" + s.resources, resources: s.resources, selector: "matchExpressions: []"}
			apply(t, h.render(hookConfiguration, "BUNDLE", ""))
			t.Cleanup(func() {
				do(t, "delete validatingwebhookconfiguration "+h.name+" --ignore-not-found")
				do(t, "delete namespace fresh-"+s.resources+" --ignore-not-found --wait=false")
			})
			awaitFinding(t, sought{check: "service-missing", configuration: h.name})
			do(t, "create namespace fresh-"+s.resources)
			ended := endedFunctions(t, "fresh-"+s.resources, s.ends)
			if fmt.Sprint(ended) != fmt.Sprint(s.ends) {
				t.Errorf("ended %q, want %q", ended, s.ends)
			}
			said := says(t, "audit") + says(t, "impact", "--down", h.name+"/"+h.name)
			contains(t, "audit and impact", said, s.said...)
			measured.functions += fmt.Sprintf("| %s | %s | %s |\n", s.resources, cmp.Or(strings.Join(ended, "; "), "nothing"), cmp.Or(strings.Join(s.said, "; "), "–"))
		})
	}
}

// endedFunctions are those that do not work. Those that are to end get some seconds, the
// others as long as they need.
func endedFunctions(t testing.TB, namespace string, ends []string) []string {
	t.Helper()
	const soon = 12 * time.Second // a Pod takes two, a lease ten
	for begun := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		var ended []string
		var failures []error
		for _, f := range functions {
			if err := f.works(t.Context(), namespace); err != nil {
				ended, failures = append(ended, f.name), append(failures, fmt.Errorf("%s: %w", f.name, err))
			}
		}
		taken := time.Since(begun)
		if len(ended) == 0 || taken > soon && len(ended) <= len(ends) || taken > patience {
			t.Log(errors.Join(failures...))
			return ended
		}
	}
}
