package classify

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var mirrorPods = &Check{
	Name:     "mirror-pods",
	Summary:  "A mutating webhook is called for mirror Pods: where it adds a ServiceAccount, a Secret or a ConfigMap, the kubelet's request is refused.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Type != inventory.Mutating || p.Platform || !slices.ContainsFunc(p.ControlPlane, isStaticPod) || !slices.ContainsFunc(p.Matched, createsPods) ||
			p.Matcher.CallsFor(p.Webhook, inventory.Resource{Name: "pods"}, admission.Create, mirrorPod) == admission.No {
			return nil
		}
		return []Problem{{
			Message: "is called for mirror Pods, by which kubelets show static Pods: if it adds a ServiceAccount, a Secret or a ConfigMap, the API server refuses the Pod, and no list shows it",
			Fix:     patch(p, excludeRequests(p, `request.resource.resource == "pods" && object != null && "`+corev1.MirrorPodAnnotationKey+`" in object.metadata.?annotations.orValue({})`)),
		}}
	},
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
