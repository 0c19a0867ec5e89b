package admission

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// APIServerUser is the user by whose name an API server writes to itself. Source:
// k8s.io/apiserver pkg/authentication/user.
const APIServerUser = "system:apiserver"

// AnyNamespace is the namespace of a ServerWrite that is made in whichever.
const AnyNamespace = "*"

// ServerWrite is what an API server writes by itself, through admission: at its start,
// and while it serves a request.
type ServerWrite struct {
	inventory.Resource
	// Namespace is "" of a cluster-scoped resource.
	Namespace  string
	Operations []Operation
	// When says when it does, and Loss what is lost where that is refused; "" where no user
	// would notice.
	When, Loss string
	// Source is the package of k8s.io/kubernetes, or the module, that writes it.
	Source string
}

var (
	writes = []Operation{Create, Update}
	// rewrites are those of what is made anew where it cannot be changed, or goes with a release.
	rewrites = []Operation{Create, Update, Delete}
)

const (
	atStart = "at its start"
	inUse   = "while it serves"
	// noStart: the hook ends the process, or /readyz waits for it.
	noStart = "an API server of a new release does not start"
)

// ServerWrites are all of them. A test compares them with the audit log of an API server
// that starts.
var ServerWrites = []ServerWrite{
	{inventory.ResourceNamed("namespaces"), "", []Operation{Create}, atStart, "the system namespaces are missing", "pkg/controlplane/controller/systemnamespaces"},
	{inventory.ResourceNamed("clusterroles.rbac.authorization.k8s.io"), "", writes, atStart, noStart, "pkg/registry/rbac/rest"},
	{inventory.ResourceNamed("clusterrolebindings.rbac.authorization.k8s.io"), "", rewrites, atStart, noStart, "pkg/registry/rbac/rest"},
	{inventory.ResourceNamed("roles.rbac.authorization.k8s.io"), metav1.NamespaceSystem, writes, atStart, noStart, "pkg/registry/rbac/rest"},
	{inventory.ResourceNamed("rolebindings.rbac.authorization.k8s.io"), metav1.NamespaceSystem, rewrites, atStart, noStart, "pkg/registry/rbac/rest"},
	{inventory.ResourceNamed("roles.rbac.authorization.k8s.io"), metav1.NamespacePublic, writes, atStart, noStart, "pkg/registry/rbac/rest"},
	{inventory.ResourceNamed("rolebindings.rbac.authorization.k8s.io"), metav1.NamespacePublic, rewrites, atStart, noStart, "pkg/registry/rbac/rest"},
	{inventory.ResourceNamed("priorityclasses.scheduling.k8s.io"), "", []Operation{Create}, atStart, noStart, "pkg/registry/scheduling/rest"},
	{inventory.ResourceNamed("flowschemas.flowcontrol.apiserver.k8s.io"), "", rewrites, atStart, noStart, "pkg/registry/flowcontrol/ensurer"},
	{inventory.ResourceNamed("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"), "", rewrites, atStart, noStart, "pkg/registry/flowcontrol/ensurer"},
	{inventory.ResourceNamed("flowschemas.flowcontrol.apiserver.k8s.io/status"), "", []Operation{Update}, inUse, "their status is stale", "k8s.io/apiserver pkg/util/flowcontrol"},
	{inventory.ResourceNamed("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io/status"), "", []Operation{Update}, inUse, "their status is stale", "pkg/registry/flowcontrol"},
	{inventory.ResourceNamed("servicecidrs.networking.k8s.io"), "", writes, atStart, noStart, "pkg/controlplane/controller/defaultservicecidr, v1.33"},
	{inventory.ResourceNamed("servicecidrs.networking.k8s.io/status"), "", []Operation{Update}, atStart, "no new Service gets a cluster IP", "pkg/controlplane/controller/defaultservicecidr, v1.33"},
	{inventory.ResourceNamed("ipaddresses.networking.k8s.io"), "", []Operation{Create, Delete}, "for each Service with a cluster IP", "no new Service gets a cluster IP", "pkg/registry/core/service/ipallocator, v1.33"},
	{inventory.ResourceNamed("services"), metav1.NamespaceDefault, writes, atStart, "Pods of a new cluster do not find the API server", "pkg/controlplane/controller/kubernetesservice"},
	{inventory.ResourceNamed("endpoints"), metav1.NamespaceDefault, writes, atStart, "Pods do not find the API server", "pkg/controlplane/reconcilers"},
	{inventory.ResourceNamed("endpointslices.discovery.k8s.io"), metav1.NamespaceDefault, rewrites, atStart, "Pods do not find the API server", "pkg/controlplane/reconcilers"},
	{inventory.ResourceNamed("configmaps"), metav1.NamespaceSystem, rewrites, atStart, "aggregated API servers trust no request", "pkg/controlplane/controller/clusterauthenticationtrust, …/legacytokentracking"},
	{inventory.ResourceNamed("leases.coordination.k8s.io"), metav1.NamespaceSystem, rewrites, atStart, "it counts as gone", "pkg/controlplane/apiserver, identity leases"},
	{inventory.ResourceNamed("leasecandidates.coordination.k8s.io"), metav1.NamespaceSystem, []Operation{Update, Delete}, inUse, "no leader is chosen", "pkg/controlplane/controller/leaderelection"},
	{inventory.ResourceNamed("apiservices.apiregistration.k8s.io"), "", rewrites, atStart, noStart, "k8s.io/kube-aggregator pkg/controllers/autoregister"},
	{inventory.ResourceNamed("apiservices.apiregistration.k8s.io/status"), "", []Operation{Update}, inUse, "APIs count as they were", "k8s.io/kube-aggregator pkg/controllers/status"},
	{inventory.ResourceNamed("customresourcedefinitions.apiextensions.k8s.io/status"), "", []Operation{Update}, "for each new CRD", "it is not served", "k8s.io/apiextensions-apiserver pkg/controller"},
	{inventory.ResourceNamed("storageversions.internal.apiserver.k8s.io"), "", writes, atStart, "it refuses other writes", "k8s.io/apiserver pkg/storageversion, alpha"},
	{inventory.ResourceNamed("storageversions.internal.apiserver.k8s.io/status"), "", []Operation{Update}, atStart, "it refuses other writes", "k8s.io/apiserver pkg/storageversion, alpha"},
	{inventory.ResourceNamed("poddisruptionbudgets.policy/status"), AnyNamespace, []Operation{Update}, "for each eviction", "no Pod under the budget is evicted", "pkg/registry/core/pod/storage"},
	{inventory.ResourceNamed("resourcequotas/status"), AnyNamespace, []Operation{Update}, "for each request that a quota counts", "the request is refused", "k8s.io/apiserver pkg/admission/plugin/resourcequota"},
	{inventory.ResourceNamed("secrets"), AnyNamespace, []Operation{Update}, "for each day on which a token of it is used", "", "pkg/serviceaccount, annotates the last use"},
	{inventory.ResourceNamed("events"), AnyNamespace, writes, inUse, "the Event is lost", "k8s.io/client-go tools/record"},
	{inventory.ResourceNamed("events.events.k8s.io"), AnyNamespace, writes, inUse, "the Event is lost", "k8s.io/client-go tools/events"},
}

// StopsStart reports whether an API server does not start where the write is refused.
func (w ServerWrite) StopsStart() bool { return w.Loss == noStart }

func (w ServerWrite) isMadeIn(namespace string) bool {
	return w.Namespace == "" || w.Namespace == AnyNamespace || w.Namespace == namespace
}

// serverNotes say that the API server makes the request itself, where a webhook or policy
// that may refuse it is on its way then.
func (m *Matcher) serverNotes(c Chain) []string {
	i := slices.IndexFunc(ServerWrites, func(w ServerWrite) bool {
		return w.Resource == c.Request.Resource && slices.Contains(w.Operations, c.Request.Operation) &&
			w.isMadeIn(c.Request.Namespace)
	})
	if i < 0 || ServerWrites[i].Loss == "" || c.Request.requestContext == nil {
		return nil
	}
	own := c.Request.By(NewUser(APIServerUser, []string{"system:masters"}))
	own.objectLabels = labelSet{complete: true} // none but of Kubernetes' own
	own.oldLabels = own.objectLabels
	if !slices.ContainsFunc(c.Steps,
		func(s Step) bool { return s.Webhook.FailsClosed() && own.Match(s.Webhook).Match != No }) &&
		!slices.ContainsFunc(c.Policies, func(s PolicyStep) bool {
			return s.Policy.FailsClosed() && m.MatchPolicy(own, s.Policy, s.Binding).Match != No
		}) {
		return nil
	}
	w := ServerWrites[i]
	return []string{fmt.Sprintf("the API server itself writes %s, %s: where that is refused, %s", w.Resource, w.When, w.Loss)}
}
