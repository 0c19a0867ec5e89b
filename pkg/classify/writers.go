package classify

import (
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// The users by whose names the parts of the control plane write. Source: k8s.io/apiserver
// pkg/authentication/user, k8s.io/kubernetes pkg/controller and cmd/kubeadm.
var (
	kubelet             = admission.NewUser("system:node:node", []string{"system:nodes"})
	garbageCollector    = admission.NewUser("system:serviceaccount:kube-system:generic-garbage-collector", nil)
	namespaceController = admission.NewUser("system:serviceaccount:kube-system:namespace-controller", nil)
	replicaSets         = admission.NewUser("system:serviceaccount:kube-system:replicaset-controller", nil)
	scheduler           = admission.NewUser("system:kube-scheduler", []string{"system:authenticated"})
	controllerManager   = admission.NewUser("system:kube-controller-manager", []string{"system:authenticated"})
	apiServer           = admission.NewUser(admission.APIServerUser, []string{"system:masters"})
)

// byWriters is the request on the control plane's path as each of its writers makes it.
func byWriters(r admission.Request, namespace string) []admission.Request {
	return text.Map(writersOf(r.Resource, namespace), r.By)
}

// writersOf are those parts that write the resource on the control plane's path.
func writersOf(r inventory.Resource, namespace string) []*admission.User {
	switch {
	case namespace == "kube-node-lease", r.Name == "nodes", r.Name == "csinodes", r.Subresource == "token",
		r == inventory.Resource{Name: "pods", Subresource: "status"}:
		return []*admission.User{kubelet}
	case r == inventory.Resource{Name: "pods", Subresource: "binding"}:
		return []*admission.User{scheduler}
	case r.Name == "leases":
		return []*admission.User{scheduler, controllerManager}
	case r == inventory.Resource{Name: "pods"}:
		return []*admission.User{kubelet, replicaSets}
	}
	return []*admission.User{apiServer, controllerManager, replicaSets}
}
