package classify

import (
	"fmt"
	"regexp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var mirrorPods = &Check{
	Name:     "mirror-pods",
	Summary:  "A mutating webhook or policy meets mirror Pods: where it adds a ServiceAccount, a Secret or a ConfigMap, the kubelet's request is refused.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Type != inventory.Mutating || p.Platform || !slices.ContainsFunc(p.ControlPlane, isStaticPod) ||
			!slices.ContainsFunc(p.Matched, createsPods) ||
			p.Matcher.CallsFor(p.Webhook, inventory.Resource{Name: "pods"}, admission.Create, mirrorPod) == admission.No {
			return nil
		}
		return []Problem{{
			Message: "is called for mirror Pods: if it adds a ServiceAccount, a Secret or a ConfigMap, the kubelet's request is refused, and no list shows the static Pod",
			Fix:     patch(p, excludeRequests(p, `request.resource.resource == "pods" && `+isMirrorPod)),
		}}
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		if p.Type != inventory.MutatingPolicy || p.Platform || !slices.ContainsFunc(p.Mutations, addsReference) ||
			!meetsMirrorPods(p) {
			return nil
		}
		return []Problem{{
			Message: "is evaluated for mirror Pods: if it adds a ServiceAccount, a Secret or a ConfigMap, the kubelet's request is refused, and no list shows the static Pod",
			Fix:     fmt.Sprintf("add a matchCondition to %s, with the expression %s%s", objectName(&p.Registration), quoted("!("+isMirrorPod+")"), changedBy(p.Object.Owner)),
		}}
	},
}

// isMirrorPod is the CEL expression that is true for a mirror Pod.
const isMirrorPod = `object != null && "` + corev1.MirrorPodAnnotationKey + `" in object.metadata.?annotations.orValue({})`

// meetsMirrorPods reports whether a binding may put the policy into effect for them.
func meetsMirrorPods(p *PolicyProfile) bool {
	subject := mirrorPod
	subject.Namespace = "kube-system"
	request, err := p.Matcher.Request(admission.Create, inventory.Resource{Name: "pods"}, subject)
	return err == nil && slices.ContainsFunc(p.Bindings, func(b *inventory.PolicyBinding) bool {
		return p.Matcher.MatchPolicy(request, p.AdmissionPolicy, b).Match != admission.No
	})
}

// references are the fields by which a Pod refers to what no mirror Pod may.
var references = regexp.MustCompile(`(?i)serviceAccount|secret|configMap|envFrom`)

// addsReference reports whether the mutation names one of them.
func addsReference(m admissionv1.Mutation) bool {
	return m.JSONPatch != nil && references.MatchString(m.JSONPatch.Expression) ||
		m.ApplyConfiguration != nil && references.MatchString(m.ApplyConfiguration.Expression)
}

// isStaticPod reports whether the match is one of Pods in kube-system, where static Pods
// are.
func isStaticPod(m ControlPlaneMatch) bool {
	return m.Resource == inventory.Resource{Name: "pods"} && m.Namespace == "kube-system"
}

// createsPods reports whether the webhook is called where a Pod is created.
func createsPods(r admission.MatchedResource) bool {
	return r.Resource == inventory.Resource{Name: "pods"} && r.Operations.Has(admission.Create)
}

// mirrorPod has what each mirror Pod of a file has, whatever the file says. Source:
// CreateMirrorPod in k8s.io/kubernetes/pkg/kubelet/pod.
var mirrorPod = admission.Subject{User: kubelet, Partial: true, Object: map[string]any{
	"metadata": map[string]any{
		"annotations":     map[string]any{corev1.MirrorPodAnnotationKey: "hash", "kubernetes.io/config.hash": "hash", "kubernetes.io/config.source": "file"},
		"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node", "controller": true}},
	},
	"spec": map[string]any{"nodeName": "node"},
}}
