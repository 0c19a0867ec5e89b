package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// named is what is read of an object to know whether it counts.
type named interface {
	GetNamespace() string
	GetName() string
}

// packedPod is a stripped Pod as protobuf. Most Pods of a cluster do not count, and as
// objects they would take more than three times the memory.
type packedPod struct {
	inventory.Key
	Protobuf string
}

func (p *packedPod) GetNamespace() string           { return p.Namespace }
func (p *packedPod) GetName() string                { return p.Name }
func (*packedPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (p *packedPod) DeepCopyObject() runtime.Object { return p } // it is never changed

func packed(object any) any {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object
	}
	data, err := pod.Marshal()
	utilruntime.Must(err)
	return &packedPod{keyOf(pod), string(data)}
}

func unpacked(object any) any {
	p, ok := object.(*packedPod)
	if !ok {
		return object
	}
	pod := &corev1.Pod{}
	utilruntime.Must(pod.Unmarshal([]byte(p.Protobuf)))
	return pod
}
