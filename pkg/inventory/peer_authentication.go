package inventory

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// PeerAuthentication is Istio's: whether the sidecars of Pods take calls without the
// mesh's mutual TLS. Source: istio.io, reference of PeerAuthentication.
type PeerAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector      *metav1.LabelSelector `json:"selector"`
		MTLS          meshTLS               `json:"mtls"`
		PortLevelMTLS map[string]meshTLS    `json:"portLevelMtls"`
	} `json:"spec"`
}

// DeepCopyObject copies what is ever written to.
func (p *PeerAuthentication) DeepCopyObject() runtime.Object { out := *p; return &out }

type meshTLS struct {
	Mode string `json:"mode"`
}

// meshRoot is the namespace whose PeerAuthentication is for the whole mesh.
const meshRoot = "istio-system"

// StrictFor returns the PeerAuthentication by which the sidecar of the workload's Pods
// refuses calls from outside the mesh to the port; nil where none does. That of the
// workload counts before that of its namespace, and that before that of the mesh.
func (s *Snapshot) StrictFor(w *Workload, port int32) *PeerAuthentication {
	var found *PeerAuthentication
	rank, mode := 0, ""
	for _, p := range s.PeerAuthentications {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
		own := p.Namespace == w.Namespace
		next := 0
		switch {
		case err != nil || !own && p.Namespace != meshRoot:
		case own && p.Spec.Selector != nil && selector.Matches(labels.Set(w.PodLabels)):
			next = 3
		case p.Spec.Selector == nil && own:
			next = 2
		case p.Spec.Selector == nil:
			next = 1
		}
		ownMode := p.Spec.MTLS.Mode
		if level, set := p.Spec.PortLevelMTLS[strconv.Itoa(int(port))]; set && next == 3 {
			ownMode = level.Mode
		}
		if next > rank && ownMode != "" && ownMode != "UNSET" {
			rank, mode, found = next, ownMode, p
		}
	}
	if mode != "STRICT" {
		return nil
	}
	return found
}
