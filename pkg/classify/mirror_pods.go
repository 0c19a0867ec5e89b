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
		if p.Type != inventory.Mutating || p.Platform || len(p.ControlPlane) == 0 {
			return nil
		}
		v := p.Matcher.InterceptsSubject(p.Webhook, pods, admission.Create, mirrorPod)
		if v.Match == admission.No || v.OptIn {
			return nil
		}
		return []Problem{{
			Message: "is called for " + ifItRefers,
			Fix:     patch(p, excludeRequests(p, `request.resource.resource == "pods" && `+isMirrorPod)...),
		}}
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		if p.Type != inventory.MutatingPolicy || p.Platform || !slices.ContainsFunc(p.Mutations, addsReference) {
			return nil
		}
		request, err := p.Matcher.Request(admission.Create, pods, mirrorPod)
		meets := func(b *inventory.PolicyBinding) bool {
			return p.Matcher.MatchPolicy(request, p.AdmissionPolicy, b).Match != admission.No
		}
		if err != nil || !slices.ContainsFunc(p.Bindings, meets) {
			return nil
		}
		return []Problem{{
			Message: "is evaluated for " + ifItRefers,
			Fix:     fmt.Sprintf("add a matchCondition to %s, with the expression %s%s", objectName(&p.Registration), quoted("!("+isMirrorPod+")"), changedBy(p.Object.Owner)),
		}}
	},
}

// ifItRefers is what follows where one of the references is added.
const ifItRefers = "mirror Pods: if it adds a ServiceAccount, a Secret or a ConfigMap, the kubelet's request is refused, and no list shows the static Pod"

// isMirrorPod is the CEL expression that is true for a mirror Pod.
const isMirrorPod = `object != null && "` + corev1.MirrorPodAnnotationKey + `" in object.metadata.?annotations.orValue({})`

// references are the fields by which a Pod refers to what no mirror Pod may.
var references = regexp.MustCompile(`(?i)serviceAccount|secret|configMap|envFrom`)

// addsReference reports whether the mutation names one of them.
func addsReference(m admissionv1.Mutation) bool {
	return m.JSONPatch != nil && references.MatchString(m.JSONPatch.Expression) ||
		m.ApplyConfiguration != nil && references.MatchString(m.ApplyConfiguration.Expression)
}

// mirrorPod has what each mirror Pod of a file has, whatever the file says. Source:
// CreateMirrorPod in k8s.io/kubernetes/pkg/kubelet/pod.
var mirrorPod = admission.Subject{Namespace: "kube-system", User: kubelet, Partial: true, Object: map[string]any{
	"metadata": map[string]any{
		"annotations":     map[string]any{corev1.MirrorPodAnnotationKey: "hash", "kubernetes.io/config.hash": "hash", "kubernetes.io/config.source": "file"},
		"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node", "controller": true}},
	},
	"spec": map[string]any{"nodeName": "node"},
}}
