package manifests

import (
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

// name is that of all objects, and of the one object that is written.
const name = "webhook-auditor"

// The namespaces of the auditor: by default, on OpenShift, and in the templates
// of the Helm chart, where it is open.
const (
	Namespace          = "webhook-auditor"
	OpenShiftNamespace = "openshift-webhook-auditor"
	ReleaseNamespace   = "{{ .Release.Namespace }}"
)

// wholeCluster is what the auditor may do everywhere: read what it watches,
// write its own object, and ask who may scrape.
func wholeCluster() []rbacv1.PolicyRule {
	return append(
		append(cluster.Permissions(), written("webhook-auditor.io", "webhookaudits", "cluster")...),
		creates(authenticationv1.GroupName, "tokenreviews"),
		creates(authorizationv1.GroupName, "subjectaccessreviews"),
	)
}

// written lets one object be applied with its status, which creates it where it is missing.
func written(group, resource, object string) []rbacv1.PolicyRule {
	groups, names := []string{group}, []string{object}
	return []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"get", "create", "patch"}},
		{APIGroups: groups, Resources: []string{resource + "/status"}, ResourceNames: names, Verbs: []string{"patch"}},
	}
}

func creates(group, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"create"}}
}

// election is what the auditor may do in its own namespace: hold its lease. The
// authorizer does not know the name of what is being created.
func election() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{name},
			Verbs: []string{"get", "update"},
		},
	}
}

// events is what it may do in the namespace default, where Events on
// cluster-scoped objects live: record them.
func events() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{corev1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create"}}}
}

// clientCA is what it may do in the namespace kube-system: read the CA that the
// API server publishes there, to verify client certificates with.
func clientCA() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{corev1.GroupName}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"},
		Verbs: []string{"get"},
	}}
}

// RBAC writes what the auditor is granted: what it really watches and writes,
// no Secrets, no wildcard.
func RBAC(namespace string) ([]byte, error) {
	auditor := account(namespace, name)
	return stream(
		clusterRole(name, wholeCluster()),
		clusterRoleBinding(name, auditor),
		role(namespace, name, election()),
		roleBinding(namespace, name, name, auditor),
		role(metav1.NamespaceDefault, name+"-events", events()),
		roleBinding(metav1.NamespaceDefault, name+"-events", name+"-events", auditor),
		role(metav1.NamespaceSystem, name+"-client-ca", clientCA()),
		roleBinding(metav1.NamespaceSystem, name+"-client-ca", name+"-client-ca", auditor),
		// For the scraper; the auditor itself does not need it.
		metricsReader(),
	)
}

func metricsReader() object {
	return clusterRole(name+"-metrics-reader", []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}})
}

// clusterOperator is what the auditor may do on OpenShift besides: write its own
// ClusterOperator.
func clusterOperator() []rbacv1.PolicyRule {
	return written("config.openshift.io", "clusteroperators", name)
}

// prometheusRules let the Prometheus of OpenShift find the Pods: by EndpointSlices,
// or by Endpoints where its prometheus-operator is older than 0.86, which drops the
// ServiceMonitor's serviceDiscoveryRole.
func prometheusRules() []rbacv1.PolicyRule {
	found := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"services", "endpoints", "pods"}, Verbs: found},
		{APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: found},
	}
}

// OpenShiftRBAC writes what is granted besides on OpenShift: the
// ClusterOperator, and for its Prometheus to find the Pods.
func OpenShiftRBAC(namespace string) ([]byte, error) {
	const operators, prometheus = name + "-clusteroperator", "prometheus-k8s"
	return stream(
		clusterRole(operators, clusterOperator()),
		clusterRoleBinding(operators, account(namespace, name)),
		role(namespace, prometheus, prometheusRules()),
		roleBinding(namespace, prometheus, prometheus, account("openshift-monitoring", prometheus)),
	)
}

// OpenShiftTemplate is OpenShiftRBAC as a template of the Helm chart.
func OpenShiftTemplate() ([]byte, error) {
	text, err := OpenShiftRBAC(ReleaseNamespace)
	return []byte("{{- if .Values.openshift.enabled }}\n" + string(text) + "{{- end }}\n"), err
}

// PageRBAC writes what the status page on OpenShift is granted: to read what the
// auditor reads. Who may get /metrics may look at it.
func PageRBAC() ([]byte, error) {
	const page = name + "-page"
	return stream(
		clusterRole(page, cluster.Permissions()),
		clusterRoleBinding(page, account(OpenShiftNamespace, page)),
	)
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

func clusterRole(name string, rules []rbacv1.PolicyRule) object {
	return object{"kind": "ClusterRole", "metadata": labeled("", name), "rules": rules}
}

func clusterRoleBinding(name string, subject rbacv1.Subject) object {
	return object{"kind": "ClusterRoleBinding", "metadata": labeled("", name), "roleRef": ref("ClusterRole", name), "subjects": []rbacv1.Subject{subject}}
}

func role(namespace, name string, rules []rbacv1.PolicyRule) object {
	return object{"kind": "Role", "metadata": labeled(namespace, name), "rules": rules}
}

func roleBinding(namespace, name, role string, subject rbacv1.Subject) object {
	return object{"kind": "RoleBinding", "metadata": labeled(namespace, name), "roleRef": ref("Role", role), "subjects": []rbacv1.Subject{subject}}
}

func ref(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func labeled(namespace, name string) object {
	out := object{"name": name, "labels": object{"app.kubernetes.io/name": "webhook-auditor"}}
	if namespace != "" {
		out["namespace"] = namespace
	}
	return out
}

// object is one of RBAC's, as YAML has it: the Go types would write an empty
// creation timestamp.
type object map[string]any

// stream writes objects as one file.
func stream(objects ...object) ([]byte, error) {
	out := []byte("# Generated by \"webhook-auditor print rbac\"; do not edit.\n")
	for i, o := range objects {
		o["apiVersion"] = rbacv1.SchemeGroupVersion.String()
		document, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("writing RBAC: %w", err)
		}
		if i > 0 {
			out = append(out, "---\n"...)
		}
		out = append(out, document...)
	}
	return out, nil
}
