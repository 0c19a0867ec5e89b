package classify

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestOwners: a patch of an object that a tool manages says that it will be
// reverted, and where to make the change instead.
func TestOwners(t *testing.T) {
	controller := true
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want string
	}{
		"no tool":  {metav1.ObjectMeta{}, ""},
		"helm":     {metav1.ObjectMeta{Annotations: map[string]string{"meta.helm.sh/release-name": "scanner"}}, "the next helm upgrade reverts that: change the values or templates of release scanner"},
		"olm":      {metav1.ObjectMeta{Labels: map[string]string{"olm.owner": "scanner.v1.2.3"}}, "OLM reverts that: change the ClusterServiceVersion scanner.v1.2.3"},
		"argocd":   {metav1.ObjectMeta{Labels: map[string]string{"argocd.argoproj.io/instance": "security"}}, "Argo CD reverts that: change the source of application security"},
		"flux":     {metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps"}}, "Flux reverts that: change the source of apps"},
		"operator": {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Scanner", Name: "main", Controller: &controller}}}, "Scanner/main owns the object and reverts that: change it there"},
	} {
		t.Run(name, func(t *testing.T) {
			seconds := int32(30)
			c.meta.Name = "scan"
			o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{{
				ObjectMeta: c.meta,
				Webhooks:   []admissionv1.ValidatingWebhook{{Name: "scan.example.com", TimeoutSeconds: &seconds}},
			}}}
			findings := evaluate(t, DefaultPolicy(), o.Snapshot(taken)).Findings
			if len(findings) != 1 || findings[0].Check != longTimeout {
				t.Fatalf("want one long-timeout, got %v", findings)
			}
			_, note, _ := strings.Cut(findings[0].Fix, "]'")
			if !strings.Contains(note, c.want) || c.want == "" && note != "" {
				t.Errorf("after the patch: %q, want %q", note, c.want)
			}
		})
	}
}
