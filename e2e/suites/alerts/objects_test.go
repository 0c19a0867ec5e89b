package alerts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// createObjects makes what a cluster that runs on machines has and this one lacks,
// and what diagnoses look for.
func (s scenario) createObjects(t *testing.T) {
	t.Helper()
	s.makeNode(t)
	s.makeNamespaces(t)
	s.makeWorkload(t)
	s.makeAgent(t)
	s.makeEvents(t)
	s.makeCertificates(t)
	testenv.Must(t, s.manifests.add(scenario{environment: s.environment, name: static, backend: s.backend}))
}

func (s scenario) makeNode(t *testing.T) {
	t.Helper()
	_, err := s.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	testenv.Must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.Must(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	testenv.Must(t, err)
	_, err = s.Kube.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: "example.com/signer",
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature},
		},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// makeNamespaces makes one of run level 0 and one whose deletion hangs.
func (s scenario) makeNamespaces(t *testing.T) {
	t.Helper()
	namespaces := s.Kube.CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "platform", Labels: map[string]string{"openshift.io/run-level": "0"}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = namespaces.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "hanging", Finalizers: []string{"example.com/none"}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	testenv.Must(t, namespaces.Delete(t.Context(), "hanging", metav1.DeleteOptions{}))
}

// makeWorkload makes a Deployment that is the auditor's by its label, and what
// limits the disruption of its Pods and who reaches them.
func (s scenario) makeWorkload(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "webhook-auditor"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	_, err := s.Kube.AppsV1().Deployments(s.name).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "hook", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: selector,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: oneContainer()},
		},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = s.Kube.PolicyV1().PodDisruptionBudgets(s.name).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "one"}, // a runbook creates "hook"
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	_, err = s.Kube.NetworkingV1().NetworkPolicies(s.name).Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: *selector},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// makeAgent makes a Pod of the tunnel that a hosted control plane reaches Pods by.
func (s scenario) makeAgent(t *testing.T) {
	t.Helper()
	_, err := s.Kube.CoreV1().Pods("kube-system").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "konnectivity-agent", Labels: map[string]string{"k8s-app": "konnectivity-agent"}},
		Spec:       oneContainer(),
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// makeEvents makes an Event of the kind that controllers write when a webhook
// refuses what they create.
func (s scenario) makeEvents(t *testing.T) {
	t.Helper()
	_, err := s.Kube.CoreV1().Events(s.name).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "refused"},
		InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Namespace: s.name, Name: "hook"},
		Reason:         "FailedCreate",
		Message:        "failed calling webhook",
		LastTimestamp:  metav1.Now(),
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// createLabelled creates what the matchCondition of the scenario's webhook asks for.
func (s scenario) createLabelled(ctx context.Context) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-", Labels: map[string]string{"asked": "yes"}}}
	_, err := s.Kube.CoreV1().ConfigMaps(s.namespace()).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// makeCertificates makes a certificate of cert-manager and a Secret that holds
// one.
func (s scenario) makeCertificates(t *testing.T) {
	t.Helper()
	_, err := s.Kube.CoreV1().Secrets(s.name).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	const group = "cert-manager.io"
	_, err = s.CRDs.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "certificates." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    group,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "certificates", Singular: "certificate", Kind: "Certificate", ListKind: "CertificateList"},
			Scope:    apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{testenv.WidgetVersion("v1")},
		},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	certificates := s.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "certificates"}).Namespace(s.name)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Certificate", "metadata": map[string]any{"name": "hook"},
	}}
	eventually(t, func(ctx context.Context) error {
		_, err := certificates.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}
