package inventory

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestPortOfTwoProtocols: UDP and TCP share a port number. A cluster IP leads to the TCP one.
func TestPortOfTwoProtocols(t *testing.T) {
	udp := corev1.ServicePort{Name: "quic", Port: 443, Protocol: corev1.ProtocolUDP}
	tcp := corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}
	for name, test := range map[string]struct {
		routing Routing
		ports   []corev1.ServicePort
		detail  string
	}{
		"UDP first":                    {RoutingClusterIP, []corev1.ServicePort{udp, tcp}, ""},
		"TCP first":                    {RoutingUnknown, []corev1.ServicePort{tcp, udp}, ""},
		"another number":               {RoutingClusterIP, []corev1.ServicePort{{Name: "https", Port: 8443}}, "has no port 443, only 8443"},
		"a port that says no protocol": {RoutingClusterIP, []corev1.ServicePort{udp, {Name: "https", Port: 443}}, ""},
		"UDP alone":                    {RoutingUnknown, []corev1.ServicePort{udp}, "has port 443 for UDP alone"},
		"UDP alone, to endpoints":      {RoutingEndpoints, []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolUDP}}, ""},
	} {
		meta := metav1.ObjectMeta{Namespace: "policy", Name: "policy"}
		o := Objects{
			Services:       []*corev1.Service{{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.7", Ports: test.ports}}},
			EndpointSlices: []*discoveryv1.EndpointSlice{kubetest.EndpointSlice("policy", "policy", "10.0.0.1")},
			Cluster:        Cluster{Routing: test.routing},
		}
		o.ServicesKnown.All, o.EndpointsKnown.All = true, true
		state := o.Snapshot(time.Time{}).State(Backend{Kind: BackendService, Service: ServiceRef{Key: Key{"policy", "policy"}, Port: 443}})
		if state.Detail != test.detail {
			t.Errorf("%s: %q, want %q", name, state.Detail, test.detail)
		}
	}
}

// TestServiceWithoutPorts: only a headless Service can be without. Of another, which
// is a part of one, the ports are unknown.
func TestServiceWithoutPorts(t *testing.T) {
	for clusterIP, want := range map[string]BackendState{
		"":                   {},
		"10.96.0.7":          {},
		corev1.ClusterIPNone: {Known: true, Fault: PortNotFound, Detail: "has no port 443, nor any other"},
	} {
		o := Objects{
			Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "policy"}, Spec: corev1.ServiceSpec{ClusterIP: clusterIP}}},
			Cluster:  Cluster{Routing: RoutingEndpoints},
		}
		o.ServicesKnown.All, o.EndpointsKnown.All = true, true
		ref := ServiceRef{Key: Key{"policy", "policy"}, Port: 443}
		want.Service = ref
		if got := o.Snapshot(time.Time{}).State(Backend{Kind: BackendService, Service: ref}); got != want {
			t.Errorf("clusterIP %q: %+v, want %+v", clusterIP, got, want)
		}
	}
}

// TestPortWithoutName: an EndpointSlice of a file need not name its only port.
func TestPortWithoutName(t *testing.T) {
	o := Objects{
		Services: []*corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "policy"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 443}}},
		}},
		EndpointSlices: []*discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "policy-x", Labels: map[string]string{discoveryv1.LabelServiceName: "policy"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
			Ports:      []discoveryv1.EndpointPort{{Port: new(int32(8443))}},
		}},
	}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	state := o.Snapshot(time.Time{}).State(Backend{Kind: BackendService, Service: ServiceRef{Key: Key{"policy", "policy"}, Port: 443}})
	if state.Fault != Sound {
		t.Errorf("fault %q (%s), want none", state.Fault, state.Detail)
	}
}

// TestUnreadableURLs: the API server accepts none such; a file may hold one.
func TestUnreadableURLs(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/urls.tsv", 2) {
		want, url := row[0], row[1]
		w := admissionv1.ValidatingWebhook{Name: "v.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}}
		c := &admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{w}}
		s := Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{c}}.Snapshot(time.Time{})
		var errs []string
		for _, e := range s.Errors {
			errs = append(errs, e.Error())
		}
		got := strings.Join(errs, "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: errors %q, want %q", url, got, want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s: %q shows a secret", url, got)
		}
	}
}

func TestAuthority(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	first, last := now.Add(time.Hour), now.Add(2*time.Hour)
	both := certtest.Bundle(t, last, first)
	junk := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	key := []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	for name, tc := range map[string]struct {
		bundle               []byte
		notAfter             time.Time
		certificates         int
		placeholder, blanked bool
	}{
		"not PEM":         {bundle: []byte("hello")},
		"not parsable":    {bundle: junk},
		"line break":      {bundle: []byte("\n"), placeholder: true},
		"written out":     {bundle: []byte(`\n`), placeholder: true},
		"blanked":         {bundle: []byte("xxxx"), blanked: true},
		"expired":         {bundle: certtest.Bundle(t, now.AddDate(-3, 0, 0)), notAfter: now.AddDate(-3, 0, 0), certificates: 1},
		"rotation":        {bundle: both, notAfter: last, certificates: 2},
		"among other PEM": {bundle: slices.Concat(key, junk, both, []byte("trailing")), notAfter: last, certificates: 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := readAuthority(tc.bundle)
			if !a.NotAfter.Equal(tc.notAfter) || len(a.Certificates) != tc.certificates {
				t.Errorf("%d certificates until %v, want %d until %v", len(a.Certificates), a.NotAfter, tc.certificates, tc.notAfter)
			}
			if a.Placeholder != tc.placeholder || a.Blanked != tc.blanked {
				t.Errorf("placeholder %v, blanked %v", a.Placeholder, a.Blanked)
			}
		})
	}
	if readAuthority(nil) != nil {
		t.Error("an empty bundle is none")
	}
}

// TestLikelyService: which Service a reference most likely means, by the kinds of slips.
func TestLikelyService(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/likely-services.tsv", 4) {
		s := Objects{Services: services(row[3])}.Snapshot(time.Time{})
		missing := services(row[2])[0]
		likely, found := s.LikelyService(ServiceRef{Key: Key{missing.Namespace, missing.Name}, Port: missing.Spec.Ports[0].Port})
		if got := likely.String(); found != (row[1] != "") || found && got != row[1] {
			t.Errorf("%s: %s of %s: %s, want %s", row[0], row[2], row[3], got, row[1])
		}
	}
}

// services are those of names with ports, 443 where there is none.
func services(names string) []*corev1.Service {
	var out []*corev1.Service
	for one := range strings.FieldsSeq(names) {
		key, port, _ := strings.Cut(one, ":")
		namespace, name, _ := strings.Cut(key, "/")
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		for number := range strings.SplitSeq(cmp.Or(port, "443"), ",") {
			n, _ := strconv.Atoi(number)
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Port: int32(n)})
		}
		out = append(out, service)
	}
	return out
}
