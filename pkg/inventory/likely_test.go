package inventory

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLikelyService: which Service a reference most likely means, by the kinds of slips. Wrong
// before this table, which found other namespaces alone: all but the last seven.
func TestLikelyService(t *testing.T) {
	for _, test := range []struct{ name, missing, there, want string }{
		{"a word is missing", "policy/policy", "policy/policy-webhook", "policy/policy-webhook"},
		{"a word too many", "policy/policy-webhook", "policy/policy", "policy/policy"},
		{"beside metrics", "policy/policy", "policy/policy-metrics policy/policy-webhook", "policy/policy-webhook"},
		{"a letter is missing", "sys/webhook-servce", "sys/webhook-service", "sys/webhook-service"},
		{"two letters in the wrong order", "sys/webhook-sevrice", "sys/webhook-service sys/other", "sys/webhook-service"},
		{"a hyphen", "sys/webhookservice", "sys/webhook-service", "sys/webhook-service"},
		{"a letter of the namespace", "cert-manger/hook", "cert-manager/hook other/hook", "cert-manager/hook"},
		{"the name that is nearer", "sys/policy-webhok", "sys/policy-webhook sys/policy-webhooks", "sys/policy-webhook"},
		{"another namespace", "kube-system/karp", "karp/karp", "karp/karp"},
		{"several namespaces", "x/webhook", "a/webhook b/webhook", ""},
		{"two as likely", "sys/policy", "sys/policy-a sys/policy-b", ""},
		{"metrics alone", "sys/policy", "sys/policy-metrics", ""},
		{"a number", "sys/hook-1", "sys/hook-2", ""},
		{"a single letter", "sys/hook-a", "sys/hook-b", ""},
		{"another name", "sys/policy", "sys/gateway", ""},
	} {
		s := Objects{Services: services(test.there)}.Snapshot(time.Time{})
		namespace, name, _ := strings.Cut(test.missing, "/")
		likely, found := s.LikelyService(Key{namespace, name})
		if got := likely.String(); found != (test.want != "") || found && got != test.want {
			t.Errorf("%s: %s of %s: %s, want %s", test.name, test.missing, test.there, got, test.want)
		}
	}
}

func services(names string) []*corev1.Service {
	var out []*corev1.Service
	for one := range strings.FieldsSeq(names) {
		namespace, name, _ := strings.Cut(one, "/")
		out = append(out, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	return out
}
