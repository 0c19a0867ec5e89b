package classify

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// stockWebhook is a configuration, or the conversion of a CRD, that a
// distribution registers itself. Its name alone proves nothing: a user who may
// register webhooks may choose any.
type stockWebhook struct {
	// distribution reports whether the input is of a cluster of the distribution.
	distribution func(*inventory.Snapshot) bool
	// name is that of the configuration or CRD.
	name string
	// backends are globs of the namespace of the backend, or of the host of its
	// URL.
	backends []string
	// resources are all that its rules name.
	resources []string
}

func openshift(s *inventory.Snapshot) bool { return s.OpenShift }

func eks(s *inventory.Snapshot) bool { return s.Server.IsEKS() }

// stockWebhooks are what stock clusters register; one of plain Kubernetes
// registers none. The comments name the source.
var stockWebhooks = []stockWebhook{
	// cluster-network-operator bindata/network/node-identity; with hosted control planes by URL of a Service
	{openshift, "network-node-identity.openshift.io", []string{"127.0.0.1", "network-node-identity.*.svc"}, []string{"nodes.*/status", "pods.*/status"}},
	// cluster-network-operator bindata/network/multus-admission-controller
	{openshift, "multus.openshift.io", []string{"openshift-multus"}, []string{"network-attachment-definitions.k8s.cni.cncf.io"}},
	// cloud-credential-operator bindata/v4.1.0/podidentity
	{openshift, "pod-identity-webhook", []string{"openshift-cloud-credential-operator"}, []string{"pods"}},
	// cluster-autoscaler-operator
	{openshift, "autoscaling.openshift.io", []string{"openshift-machine-api"}, []string{"clusterautoscalers.autoscaling.openshift.io", "machineautoscalers.autoscaling.openshift.io"}},
	// machine-api-operator, machines and machinesets
	{openshift, "machine-api", []string{"openshift-machine-api"}, []string{"machines.machine.openshift.io", "machinesets.machine.openshift.io"}},
	// machine-api-operator
	{openshift, "machine-api-metal3-remediation", []string{"openshift-machine-api"}, []string{"metal3remediations.infrastructure.cluster.x-k8s.io", "metal3remediationtemplates.infrastructure.cluster.x-k8s.io"}},
	// cluster-monitoring-operator assets/admission-webhook
	{openshift, "prometheusrules.openshift.io", []string{"openshift-monitoring"}, []string{"prometheusrules.monitoring.coreos.com"}},
	// cluster-monitoring-operator assets/admission-webhook
	{openshift, "alertmanagerconfigs.openshift.io", []string{"openshift-monitoring"}, []string{"alertmanagerconfigs.monitoring.coreos.com"}},
	// cluster-monitoring-operator manifests
	{openshift, "monitoringconfigmaps.openshift.io", []string{"openshift-monitoring"}, []string{"configmaps"}},
	// cluster-csi-snapshot-controller-operator assets
	{openshift, "snapshot.storage.k8s.io", []string{"openshift-cluster-storage-operator"}, []string{"volumesnapshotclasses.snapshot.storage.k8s.io", "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io"}},
	// cluster-baremetal-operator
	{openshift, "cluster-baremetal-validating-webhook-configuration", []string{"openshift-machine-api"}, []string{"provisionings.metal3.io"}},
	// cluster-baremetal-operator
	{openshift, "baremetal-operator-validating-webhook-configuration", []string{"openshift-machine-api"}, []string{"baremetalhosts.metal3.io"}},
	// cluster-control-plane-machine-set-operator
	{openshift, "controlplanemachineset.machine.openshift.io", []string{"openshift-machine-api"}, []string{"controlplanemachinesets.machine.openshift.io"}},
	// cluster-node-tuning-operator manifests
	{openshift, "performance-addon-operator", []string{"openshift-cluster-node-tuning-operator"}, []string{"performanceprofiles.performance.openshift.io"}},
	// cluster-monitoring-operator manifests, CRD conversion
	{openshift, "alertmanagerconfigs.monitoring.coreos.com", []string{"openshift-monitoring"}, nil},

	// github.com/aws/amazon-eks-pod-identity-webhook, which EKS runs beside the API server
	{eks, "pod-identity-webhook", []string{"127.0.0.1"}, []string{"pods"}},
}

// StockNames are the names of what stock OpenShift clusters register.
func StockNames() []string {
	return lists.Once(lists.Map(stockWebhooks, func(k stockWebhook) string { return k.name }))
}

// stock reports whether the webhook is one that the input's distribution registers: by its name,
// its backend and its rules, which name no resource but those of the stock webhook.
func stock(s *inventory.Snapshot, w *inventory.Webhook) bool {
	address := w.Backend.Service.Namespace
	if w.Backend.Kind == inventory.BackendURL {
		address = w.Backend.Host()
	}
	return slices.ContainsFunc(stockWebhooks, func(k stockWebhook) bool {
		isOther := func(r inventory.Resource) bool { return !slices.Contains(k.resources, r.String()) }
		return k.name == w.Configuration && k.distribution(s) && matchAny(k.backends, address) &&
			!slices.ContainsFunc(w.Rules, func(rule admissionv1.RuleWithOperations) bool {
				return slices.ContainsFunc(RuleResources(&rule), isOther)
			})
	})
}
