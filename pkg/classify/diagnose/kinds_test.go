package diagnose

import (
	"regexp"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// TestOtherServers: names in a certificate that are none of the backend's own, and that
// may be.
func TestOtherServers(t *testing.T) {
	const other, own = "other-server w.example.com ×1", "certificate-name w.example.com ×1"
	valid := func(names string) string {
		return call("x509: certificate is valid for " + names + ", not hook.policy.svc")
	}
	expect.Results(t, summary, map[string]string{
		valid("node-7.example.com"):                                                      other, // a kubelet whose node has a domain
		valid("gke-prod-default-pool-7f1c-x2kq"):                                         other,
		valid("aks-nodepool1-30012345-vmss000002"):                                       other,
		valid("ip-10-0-3-9.ec2.internal, ec2-3-9-1-2.eu-west-1.compute.amazonaws.com"):   other,
		valid("*.apps.example.com"):                                                      other, // an ingress
		valid("4f2b.9c1e.traefik.default"):                                               other,
		valid("cert-manager-webhook, cert-manager-webhook.cert-manager.svc"):             other, // a webhook on the same port of the node
		valid("metrics-server.kube-system.svc"):                                          other,
		valid("kubernetes, kubernetes.default, kubernetes.default.svc, api.example.com"): other,
		valid("vault.vault.svc.cluster.local, vault"):                                    other,
		valid("etcd-0.etcd.kube-system.svc, localhost"):                                  other,
		valid("hook"): own,
		valid("localhost, localhost.localdomain"):         own,
		valid("hook.old.svc, hook.old.svc.cluster.local"): own, // moved
		valid("hook-service.policy.svc"):                  own, // renamed
		valid("webhook-server"):                           own,
		valid("*.policy.svc.cluster.local"):               own,
		`failed calling webhook "w.example.com": failed to call webhook: Post "https://hooks.corp.example.com/v": x509: certificate is valid for www.corp.example.com, not hooks.corp.example.com`: own,
		`failed calling webhook "w.example.com": failed to call webhook: Post "https://hooks.corp.example.com/v": x509: certificate is valid for *.cdn.example.net, not hooks.corp.example.com`:    other,
		`conversion webhook for a.example.com/v1, Kind=Cart failed: Post "https://hook.policy.svc:443/c?timeout=30s": x509: certificate is valid for worker-3, not hook.policy.svc`:                "other-server  ×1",
	})
}

// TestConfigurationErrors: what is wrong with a policy or its binding is no verdict on an
// object.
func TestConfigurationErrors(t *testing.T) {
	const vap = "machines \"m\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
	expect.Results(t, summary, map[string]string{
		vap + "failed to configure binding: paramKind kind `&ParamKind{APIVersion:a.example.com/v1,Kind:Machine,}` not known":                       "param-kind p ×1",
		`policy "p" with binding "b" denied request: failed to configure binding: paramKind kind ` + "`a.example.com/v1, Kind=M` not known":         "param-kind p ×1",
		"ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'a/v1, Kind=M'": "param-kind p ×1",
		vap + "failed to configure binding: failed to find REST mapping for a/v1, Kind=M: no matches for kind":                                      "param-kind p ×1",
		vap + `failed to configure binding: invalid paramKind APIVersion "a/b/c": unexpected GroupVersion string`:                                   "policy-configuration p ×1",
		vap + "failed to configure binding: paramRef.name and paramRef.selector are mutually exclusive":                                             "policy-configuration p ×1",
		vap + "failed to configure binding: one of name or selector must be provided":                                                               "policy-configuration p ×1",
		vap + "failed to configure binding: failed to convert param a/v1, Kind=M to typed object: x":                                                "policy-configuration p ×1",
		`policy "p" denied request: failed to configure policy: words of a later release`:                                                           "policy-configuration p ×1",
		vap + "paramKind kind is my own message": "policy-denied p ×1",
	})
}

// TestStamps: what CI systems put before each line of what a command prints.
func TestStamps(t *testing.T) {
	const printed = "The CustomResourceDefinition \"carts.shop.example.com\" is invalid: \n" +
		"* spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook\n" +
		"* spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook\n"
	want := map[string]string{
		"2024-05-01T10:00:00Z\tINFO\ta\n" + printed: "half-merged crd carts.shop.example.com ×1",
		"2024-05-01T10:00:00.1Z Error: admission webhook \"w.example.com\" denied the request: a\n2024-05-01T10:00:00.1Z b\n" +
			"2024-05-01T10:00:00.1Z ##[error]Process completed with exit code 1.\n2024-05-01T10:00:00.1Z Done": "denied w.example.com ×1",
	}
	for _, stamp := range []string{
		"2024-05-01T10:00:00.1234567Z ", "\ufeff2024-05-01T10:00:00.1234567Z ", "2024-05-01T10:00:00.1234567Z ##[error]", "2024-05-01T10:00:00.123456Z 01O ",
		"[2024-05-01T10:00:00.123Z] ", "10:00:00  ", "2024-05-01 10:00:00,123 -   ",
	} {
		want[stamp+strings.ReplaceAll(strings.TrimSpace(printed), "\n", "\n"+stamp)] = "half-merged crd carts.shop.example.com ×1"
	}
	expect.Results(t, summary, want)
	if got := Parse("10:00:00 error: admission webhook \"w.example.com\" denied the request: a\n10:00:00 b\n10:00:00 Process completed with exit code 1.")[0].Detail; got != "a b" {
		t.Errorf("the words are %q", got)
	}
}

// TestFrames: the same errors as other programs print them.
func TestFrames(t *testing.T) {
	const mirror = `admission webhook "w.example.com" denied the request: not from cache`
	evicted := `admission webhook "drain.example.com" denied the request: the operator moves the Pod`
	expect.Results(t, summary, map[string]string{
		`E1129 09:00:00.1 1 kubelet.go:1] "Failed creating a mirror pod" err="` + `admission webhook \"w.example.com\" denied the request: not from cache" pod="kube-system/proxy-n1"`: "mirror-pod-denied w.example.com ×1",
		`Failed creating a mirror pod for "proxy-n1_kube-system(1)": ` + mirror:                                                                                                        "mirror-pod-denied w.example.com ×1",
		`"Failed creating a mirror pod" err="Internal error occurred: failed calling webhook \"w.example.com\": EOF"`:                                                                  "cut-off w.example.com ×1",
		`error when evicting pods/"db-0" -n "queue" (will retry after 5s): ` + evicted:                                                                                                 "eviction-denied drain.example.com ×1",
		`error when evicting pods/"db-0" -n "queue": ` + evicted:                                                                                                                       "eviction-denied drain.example.com ×1",
		`There are pending pods in node "w1" when an error occurred: cannot evict pod queue/db-0: ` + evicted:                                                                          "eviction-denied drain.example.com ×1",
		`Drain node w1 failed when evicting pod db-0 failed with Too Many Requests error. This is often caused by a restrictive Pod Disruption Budget (PDB) policy. ` + evicted:        "eviction-denied drain.example.com ×1",
		`Pod eviction failed: ` + evicted:        "eviction-denied drain.example.com ×1",
		`error deleting pods/"db-0": ` + evicted: "denied drain.example.com ×1",
		`InstallComponentFailed install strategy failed: Internal error occurred: failed calling webhook "w.example.com": service "h" not found`:                                                                                                                                                                          "service-missing w.example.com ×1",
		`Bundle unpacking failed. error using catalogsource: error validating existing CRs against new CRD's schema for "carts.shop.example.com": error listing resources: conversion webhook for shop.example.com/v1, Kind=Cart failed: Post "https://h.s.svc:443/c?timeout=30s": service "h" not found`:                 "service-missing  ×1",
		`Error: UPGRADE FAILED: failed to create resource: admission webhook "w.example.com" denied the request: no`:                                                                                                                                                                                                      "denied w.example.com ×1",
		`Error: INSTALLATION FAILED: 1 error occurred: * Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: EOF`:                                                                                                                                                                    "cut-off w.example.com ×1",
		`one or more objects failed to apply, reason: Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "https://h.s.svc:443/v?timeout=10s": no endpoints available for service "h",admission webhook "v.example.com" denied the request: no. Retrying attempt #3 at 9:00AM.`: "no-ready-endpoints w.example.com ×1, denied v.example.com ×1",
		`ComparisonError Failed to compare desired state to live state: failed to calculate diff: error calculating server side diff: serverSideDiff error: error running server side apply in dryrun mode for resource Cart/a: admission webhook "w.example.com" does not support dry run`:                               "dry-run w.example.com ×1",
		`Kustomization/flux-system/apps dry-run failed (InternalError): Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "https://h.s.svc:443/v?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused`:                                                            "connection-refused w.example.com ×1",
		`HelmRelease reconciliation failed: Helm upgrade failed for release apps/web with chart web@1.0.0: cannot patch "web" with kind Deployment: admission webhook "w.example.com" denied the request: no`:                                                                                                             "denied w.example.com ×1",
		`message: 'Health check failed after 30s: timeout waiting for: [Deployment/apps/web status: ''Failed'']: ReplicaSet "web-1" failed: admission webhook "w.example.com" denied the request: no'`:                                                                                                                    "denied w.example.com ×1",
	})
}

// TestOtherSoftware: what kubelets, OLM, Helm, Argo CD, Flux, controller-runtime, drainers and
// clients of other languages print, by cause.
func TestOtherSoftware(t *testing.T) {
	const gate = `failed calling webhook "w.example.com": failed to call webhook: Post "https://h.s.svc:443/v?timeout=10s": `
	const denied = `admission webhook "w.example.com" denied the request: no`
	const policy = "x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
	const crd = `conversion webhook for shop.example.com/v1alpha1, Kind=Cart failed: Post "https://h.s.svc:443/c?timeout=30s": `
	expect.Results(t, summary, map[string]string{
		`E1 controller.go:195] "Failed to update lease" err="Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: Post \"https://h.s.svc:443/v?timeout=10s\": no endpoints available for service \"h\""`:                                                               "no-ready-endpoints w.example.com ×1",
		`"Unable to register node with API server" err="admission webhook \"w.example.com\" denied the request: no label" node="n1"`:                                                                                                                                                                         "denied w.example.com ×1",
		`MountVolume.SetUp failed for volume "kube-api-access-abc" : failed to fetch token: Internal error occurred: ` + gate + "context deadline exceeded":                                                                                                                                                  "timeout w.example.com ×1",
		`"Server rejected event (will not retry!)" err="` + policy + `" event="&Event{}"`:                                                                                                                                                                                                                    "policy-denied p ×1",
		`"Failed to update status for pod" err="failed to patch status \"{\\\"metadata\\\":{}}\" for pod \"shop\"/\"p\": admission webhook \\\"w.example.com\\\" denied the request: no" pod="shop/p"`:                                                                                                       "denied w.example.com ×1",
		`"Failed deleting a mirror pod" err="admission webhook \"w.example.com\" denied the request: no" pod="kube-system/etcd-n1"`:                                                                                                                                                                          "mirror-pod-denied w.example.com ×1",
		`"Failed creating a mirror pod" err="` + policy + `" pod="kube-system/etcd-n1"`:                                                                                                                                                                                                                      "mirror-pod-denied p ×1",
		"Webhook install failed: conversionWebhook not ready":                                                                                                                                                                                                                                                "olm-conversion-lost  ×1",
		`validating upgrade for CRD "carts.shop.example.com" failed: CustomResourceDefinition carts.shop.example.com failed upgrade safety validation. "NoStoredVersionRemoved" validation failed: stored version "v1alpha1" removed`:                                                                        "stored-version crd carts.shop.example.com ×1",
		`Error: INSTALLATION FAILED: unable to build kubernetes objects from release manifest: resource mapping not found for name: "w" namespace: "" from "": no matches for kind "ValidatingWebhookConfiguration" in version "admissionregistration.k8s.io/v1beta1"` + "\nensure CRDs are installed first": "version-not-served validatingwebhookconfiguration ×1",
		`ValidatingAdmissionPolicy/w dry-run failed: no matches for kind "ValidatingAdmissionPolicy" in version "admissionregistration.k8s.io/v1beta1"`:                                                                                                                                                      "version-not-served validatingadmissionpolicy ×1",
		`The Kubernetes API could not find version "v1beta1" of admissionregistration.k8s.io/ValidatingAdmissionPolicy for requested resource /w. Version "v1" of admissionregistration.k8s.io/ValidatingAdmissionPolicy is installed on the destination cluster.`:                                           "version-not-served validatingadmissionpolicy ×1",
		"Warning: admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy is deprecated in v1.37+, unavailable in v1.40+":                                                                                                                                                                               "version-not-served mutatingadmissionpolicy ×1",

		`Error: UPGRADE FAILED: Unable to continue with update: ValidatingAdmissionPolicy "p" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by": must be set to "Helm"; annotation validation error: missing key "meta.helm.sh/release-name": must be set to "eg"; annotation validation error: missing key "meta.helm.sh/release-namespace": must be set to "eg"`: "unowned-object validatingadmissionpolicy p ×1",
		`Helm install failed for release a/b: Unable to continue with install: CustomResourceDefinition "p" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; annotation validation error: missing key "meta.helm.sh/release-name": must be set to "eg"; annotation validation error: missing key "meta.helm.sh/release-namespace": must be set to "eg"`:                                                                              "unowned-object crd p ×1",
		`Unable to continue with install: MutatingWebhookConfiguration "p" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by": must be set to "Helm"`:                                                                                                                                                                                                               "unowned-object mutatingwebhookconfiguration p ×1",
		`Unable to continue with install: MutatingWebhookConfiguration "p" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by": must be set to "Helm"; annotation validation error: key "meta.helm.sh/release-name" must equal "a": current value is "b"`:                                                                                                            "two-owners mutatingwebhookconfiguration p ×1",
		`conversion webhook for a.example.com/v1, Kind=Cart failed: Post "https://h.s.svc:443/c?timeout=30s": notresolvable`:                                                                                                                                                                         "other  ×1",
		`conversion webhook for a.example.com/v1, Kind=Cart failed: Post "https://h.s.svc:443/c?timeout=30s": Blocked by policy`:                                                                                                                                                                     "other  ×1",
		`conversion webhook for a.example.com/v1, Kind=Cart failed: spec.size is lost in v1`:                                                                                                                                                                                                         "conversion-refused  ×1",
		`Error from server: failed to prune fields: failed add back owned items: failed to convert pruned object at version a.example.com/v1: conversion for a.example.com/v1, Kind=Cart returned invalid metadata in object at index 1: missing metadata in converted object`:                       "invalid-answer  ×1",
		"The CustomResourceDefinition \"carts.a.example.com\" is invalid: \n* spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook\n* spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook\n": "half-merged crd carts.a.example.com ×1",
		`E0312 14:57:22.2 1 leaderelection.go:367] Failed to update lock: Put "https://api/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager?timeout=5s": net/http: request canceled (Client.Timeout exceeded while awaiting headers)`:                               "lease-timeout  ×1",
		`I1 leaderelection.go:300] "Failed to renew lease" lease="kube-system/kube-scheduler" err="timed out waiting for the condition"`:                                                                                                                                                             "lease-timeout  ×1",
		`E1 controller.go:195] "Failed to update lease" err="Put \"https://api:6443/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1?timeout=10s\": context deadline exceeded"`:                                                                                                      "lease-timeout  ×1",
		`error retrieving resource lock kube-system/kube-scheduler: Get "https://api:6443/x": context deadline exceeded`:                                                                                                                                                                             "",
		`The MutatingAdmissionPolicy "p" is invalid: spec.mutations[0].applyConfiguration.expression: Invalid value: "Object{}": compilation failed: ERROR: <input>:3:24: unexpected failed resolution of 'kubernetes.variables'`:                                                                    "refused-at-first mutatingadmissionpolicy p ×1",
		`reflector.go:204] "Failed to watch" err="failed to list *v1alpha1.MutatingAdmissionPolicy: the server could not find the requested resource" type="*v1alpha1.MutatingAdmissionPolicy"`:                                                                                                      "version-not-served mutatingadmissionpolicy ×1",
		`ERR Failed to watch error="failed to list *v1beta1.ValidatingAdmissionPolicyBinding: the server could not find the requested resource" reflector=reflector.go:289`:                                                                                                                          "version-not-served validatingadmissionpolicybinding ×1",
		`k8s.io/client-go/informers/factory.go:134: Failed to list *v1beta1.MutatingWebhookConfiguration: the server could not find the requested resource`:                                                                                                                                          "version-not-served mutatingwebhookconfiguration ×1",
		`failed to list *v1beta1.CustomResourceDefinition: the server could not find the requested resource (get customresourcedefinitions.apiextensions.k8s.io)`:                                                                                                                                    "version-not-served customresourcedefinition ×1",
		`failed to list *v1.ValidatingAdmissionPolicy: validatingadmissionpolicies.admissionregistration.k8s.io is forbidden: User "system:serviceaccount:a:b" cannot list resource`:                                                                                                                 "",
		`failed to list *v1beta1.PodDisruptionBudget: the server could not find the requested resource`:                                                                                                                                                                                              "",

		`no matches for kind "Cart" in version "shop.example.com/v1"`: "",
		"failed to sync cluster https://10.0.0.1: failed to load initial state of resource Cart.shop.example.com: " + crd + "dial tcp: connect: connection refused": "connection-refused  ×1",
		"conditions: - message: 'Failed to delete all resource types, 1 remaining: Internal error occurred: " + crd + `service "h" not found'`:                      "service-missing  ×1",
		`http: TLS handshake error from 10.0.0.1:34567: remote error: tls: bad certificate`:                                                                         "certificate-refused  ×1",
		`{"level":"info","msg":"http: TLS handshake error from 10.0.0.1:1: remote error: tls: unknown certificate authority"}`:                                      "certificate-refused  ×1",
		`http: TLS handshake error from 10.0.0.1:34567: EOF`:                                                                                                        "handshake-closed  ×1",
		`http: TLS handshake error from 10.0.0.1:34567: tls: client didn't provide a certificate`:                                                                   "tls  ×1",
		`{"level":"error","msg":"Reconciler error","error":"Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: Post \"https://h.s.svc:443/v?timeout=10s\": dial tcp 10.1.1.1:443: connect: connection refused","stacktrace":"x"}`: "connection-refused w.example.com ×1",
		`"Error evicting pod" pod="shop/db-0" err="admission webhook \"w.example.com\" denied the request: moved"`:                                                                                                                                                        "eviction-denied w.example.com ×1",
		`{"level":"error","msg":"Error evicting pod","err":"admission webhook \"w.example.com\" denied the request: moved"}`:                                                                                                                                              "eviction-denied w.example.com ×1",
		"FailedDraining  evicting pod shop/db-0, " + denied:                                                                             "eviction-denied w.example.com ×1",
		`error when evicting pods/"db-0" -n "shop": evictions "db-0" ` + policy:                                                         "eviction-denied p ×1",
		`error when evicting pods/"db-0" -n "shop": Internal error occurred: ` + gate + "EOF":                                           "cut-off w.example.com ×1",
		gate + "read tcp 10.0.0.1:3->10.0.0.2:443: read: connection timed out":                                                          "cut-off w.example.com ×1",
		gate + "dial tcp 10.0.0.2:443: connect: operation not permitted":                                                                "connect-timeout w.example.com ×1",
		gate + "dial tcp 10.0.0.2:443: connect: cannot assign requested address":                                                        "api-server w.example.com ×1",
		gate + "dial tcp 10.0.0.2:443: socket: too many open files":                                                                     "api-server w.example.com ×1",
		gate + "dial tcp: lookup hooks.example.com: i/o timeout":                                                                        "dns w.example.com ×1",
		gate + `net/http: HTTP/1.x transport connection broken: malformed HTTP response "\x15"`:                                         "invalid-answer w.example.com ×1",
		`Post "https://h.s.svc:443/v?timeout=10s": x509: certificate signed by unknown authority`:                                       "unknown-authority  ×1",
		`webhook "w.example.com": failed to call webhook: Post "https://h.s.svc:443/v?timeout=10s": EOF`:                                "cut-off  ×1",
		`Put "https://10.0.0.1:6443/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x?timeout=5s": context deadline exceeded`: "",
		"webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect":   "rule-without-effect  ×1",
		"Status:\n  Message:  conflicting CRD owner in namespace\n  Phase:    Failed\n  Reason:   OwnerConflict\n":                      "olm-owner-conflict  ×1",
		`Warning  OwnerConflict  5m  operator-lifecycle-manager  crd owner conflict: x`:                                                 "olm-owner-conflict  ×1",
		`csv failed: reason: "InterOperatorGroupOwnerConflict", message: "intersecting operatorgroups provide the same apis"`:           "olm-owner-conflict  ×1",
		`time="2026-11-29T09:00:00Z" level=warning msg="intersecting operatorgroups provide the same apis" apis=a`:                      "olm-owner-conflict  ×1",
		`{"type":"Ready","status":"False","reason":"OwnerConflict","message":"unable to adopt APIService"}`:                             "olm-owner-conflict  ×2",
		`time="2026-11-29T09:00:00Z" level=error msg="sync failed" error="conflicting CRD owner in namespace"`:                          "olm-owner-conflict  ×1",
		`unsupported bundle: webhookDefinitions are not supported: certificate provider is nil`:                                         "olm-unsupported  ×1",
		`message: 'error for resolved bundle "w.v1" with version "1.0.0": unsupported bundle: apiServiceDefintions are not supported'`:  "olm-unsupported  ×1",
		`Retrying  reconcile error: webhookDefinitions are not supported`:                                                               "olm-unsupported  ×1",
		`CustomResourceDefinition 'carts.shop.example.com' already exists in namespace '' and cannot be managed by operator-controller`: "two-owners crd carts.shop.example.com ×1",
		`ValidatingWebhookConfiguration 'w.example.com' already exists in namespace 'a' and cannot be managed by operator-controller`:   "two-owners validatingwebhookconfiguration w.example.com ×1",
		`Deployment 'w' already exists in namespace 'a' and cannot be managed by operator-controller`:                                   "",
		"status:\n  typeChecking:\n    expressionWarnings:\n    - fieldRef: spec.validations[0].expression\n      warning: |-\n        apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n         | object.replicas > 1\n         | ......^": "type-warning  ×1",
		`{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'"}]}`:                                                                                                "type-warning  ×1",
		"Type Checking:\n    Expression Warnings:\n      Field Ref:  spec.variables[1].expression\n      Warning:    apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'":                                                                       "type-warning  ×1",
		"Warning: apps/v1, Kind=ReplicaSet: ERROR: <input>:1:7: undefined field 'replicas'":                                                                                                                                                                          "type-warning  ×1",
		"Message: The conversion webhook CABundle is invalid: unable to load root certificates":                                                                                                                                                                      "ca-bundle-invalid  ×1",
		`failed to install CRD crds/cart.yaml: 1 error occurred: * customresourcedefinitions.apiextensions.k8s.io "carts.shop.example.com" already exists`:                                                                                                           "two-owners crd carts.shop.example.com ×1",
		`two Cluster-scoped configurations with the same name and GroupKind: "MutatingWebhookConfiguration.admissionregistration.k8s.io" named "inject".`:                                                                                                            "two-owners mutatingwebhookconfiguration inject ×1",
		"Resource admissionregistration.k8s.io/MutatingWebhookConfiguration//inject appeared 2 times among application resources.":                                                                                                                                   "two-owners mutatingwebhookconfiguration inject ×1",
		`APIServer panic'd: reflect.Set: value of type *structpb.Struct is not assignable to type *structpb.Value`:                                                                                                                                                   "api-server-panic  ×1",
		"Error from server: error when creating \"pod.yaml\": stream error: stream ID 5; INTERNAL_ERROR; received from peer":                                                                                                                                         "api-server-panic  ×1",
		gate + "stream error: stream ID 5; INTERNAL_ERROR; received from peer":                                                                                                                                                                                       "cut-off w.example.com ×1",
		"Resource kind shop.example.com/v1, Kind=Cart not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.":                                                                                               "kind-too-new objects of shop.example.com/v1, Kind=Cart ×1",
	})
	expect.Results(t, summary, map[string]string{
		// What a backend answers is of its own calls, whatever words it has.
		called(`an error on the server ("dial tcp 10.96.0.1:443: connect: connection refused") has prevented the request from succeeding`):                                   "server-error w.example.com ×1",
		called(`an error on the server ("context deadline exceeded") has prevented the request from succeeding`):                                                             "server-error w.example.com ×1",
		called(`an error on the server ("Get \"https://10.96.0.1\": x509: certificate has expired") has prevented the request from succeeding`):                              "server-error w.example.com ×1",
		called(`an error on the server ("lookup db.shop.svc: no such host") has prevented the request from succeeding`):                                                      "server-error w.example.com ×1",
		called(`an error on the server ("write: broken pipe") has prevented the request from succeeding`):                                                                    "server-error w.example.com ×1",
		called(`an error on the server ("User \"x\" Unauthorized") has prevented the request from succeeding`):                                                               "server-error w.example.com ×1",
		called(`an error on the server ("fault filter abort") has prevented the request from succeeding`):                                                                    "envoy w.example.com ×1",
		called(`an error on the server ("404 page not found") has prevented the request from succeeding`):                                                                    "not-found w.example.com ×1",
		`conversion webhook for shop.example.com/v1, Kind=Cart failed: Get "https://10.96.0.1:443/api": dial tcp 10.96.0.1:443: connect: refused`:                            "conversion-refused  ×1",
		`conversion webhook for shop.example.com/v1, Kind=Cart failed: no kind "Cart" is registered for version "shop.example.com/v2" in scheme "pkg/runtime/scheme.go:100"`: "conversion-refused  ×1",
		`conversion webhook for shop.example.com/v1, Kind=Cart failed: no kind "ConversionReview" is registered for version "apiextensions.k8s.io/v2" in scheme "x"`:         "invalid-answer  ×1",
		`conversion webhook for shop.example.com/v1, Kind=Cart failed: cannot read: Get "https://10.96.0.1:443/api": context deadline exceeded`:                              "conversion-refused  ×1",
		`conversion webhook for shop.example.com/v1, Kind=Cart failed: Post "https://h.s.svc:443/c?timeout=30s": context deadline exceeded`:                                  "timeout  ×1",
		// A name that cannot be resolved, in whatever way the server of names fails.
		call(`dial tcp: lookup hook.policy.svc on 127.0.0.53:53: read udp 127.0.0.1:4->127.0.0.53:53: read: connection refused`): "dns w.example.com ×1",
		call(`dial tcp: lookup hook.policy.svc on 169.254.20.10:53: dial udp 169.254.20.10:53: connect: network is unreachable`): "dns w.example.com ×1",
		call(`dial tcp: lookup hook.policy.svc on 10.0.0.10:53: read udp 10.0.0.2:5->10.0.0.10:53: i/o timeout`):                 "dns w.example.com ×1",
		call(`dial tcp: lookup hook.policy.svc: device or resource busy`):                                                        "dns w.example.com ×1",
		call(`dial tcp: lookup hook.policy.svc on 10.0.0.10:53: server misbehaving`):                                             "dns w.example.com ×1",
		call(`dial tcp: lookup hook.policy.svc on 10.0.0.10:53: write: operation not permitted`):                                 "dns w.example.com ×1",
		// The network of other hosts.
		call(`dial tcp: i/o timeout`): "connect-timeout w.example.com ×1",
		call(`dial tcp 127.0.0.1:9443: connectex: No connection could be made because the target machine actively refused it.`): "connection-refused w.example.com ×1",
		call(`dial tcp 10.0.0.1:9443: connectex: A connection attempt failed because the connected party did not respond`):      "connect-timeout w.example.com ×1",
		call(`read tcp 10.0.0.2:3->10.0.0.1:4: wsarecv: An existing connection was forcibly closed by the remote host.`):        "cut-off w.example.com ×1",
		call(`http: server closed idle connection`):                              "cut-off w.example.com ×1",
		call(`x509: “hook” certificate is expired`):                              "certificate-expired w.example.com ×1",
		call(`rpc error: code = Unavailable desc = transport is closing`):        "tunnel w.example.com ×1",
		call(`x509: certificate is valid for 10.0.0.9, 127.0.0.1, not 10.0.0.1`): "certificate-name w.example.com ×1",
		// 400 and 422 of the backend.
		called("the server rejected our request for an unknown reason"):                                                       "bad-request w.example.com ×1",
		called("the server rejected our request due to an error in our request"):                                              "bad-request w.example.com ×1",
		`conversion webhook for shop.example.com/v1, Kind=Cart failed: the server rejected our request for an unknown reason`: "bad-request  ×1",
		// Converted objects that are not those that were sent; structured-merge-diff#227, kubernetes#117260.
		`failed to prune fields: failed add back owned items: failed to convert pruned object at version a.example.com/v1: conversion webhook for a.example.com/v2, Kind=Cart returned invalid metadata: missing metadata in converted object`: "invalid-answer  ×1",
		`failed to convert pruned object at version a.example.com/v1: conversion for a.example.com/v2, Kind=Cart returned invalid metadata in object at index 1: missing metadata in converted object`:                                         "invalid-answer  ×1",
		`conversion webhook for a.example.com/v2, Kind=<kind> returned invalid metadata: invalid metadata of type <nil> in input object`:                                                                                                       "invalid-answer  ×1",
		`conversion webhook for <group>/v2, Kind=Cart returned 0 objects, expected 1`:                                                                                                                                                          "invalid-answer  ×1",
		`conversion webhook for a.example.com/v2, Kind=***** failed: Post "https://h.s.svc:443/c?timeout=30s": EOF`:                                                                                                                            "cut-off  ×1",
		`conversion-webhook "msg"="failed to convert" "error"="*v1.Cart is not convertible to *v2.Cart" "request"="1"`:                                                                                                                         "conversion-refused  ×1",
		// A registration that a client refuses by the schema; cloud-on-k8s#6250.
		`error validating "x.yaml": error validating data: [ValidationError(ValidatingWebhookConfiguration.webhooks[0]): unknown field "matchConditions" in io.k8s.api.admissionregistration.v1.ValidatingWebhook, ValidationError(ValidatingWebhookConfiguration.webhooks[1]): unknown field "x"]`: "refused-by-api validatingwebhookconfiguration ×1",
		`ValidationError(MutatingWebhookConfiguration.webhooks[0].clientConfig.service): missing required field "namespace" in io.k8s.api.admissionregistration.v1.ServiceReference`:                                                                                                                "refused-by-api mutatingwebhookconfiguration ×1",
		`error validating data: unknown object type "nil" in MutatingWebhookConfiguration.webhooks[0].clientConfig.caBundle`:                                                                                                                                                                        "refused-by-api mutatingwebhookconfiguration ×1",
		`ValidationError(ValidatingAdmissionPolicy.spec): unknown field "variables"`:                                                                                                                                                                                                                "refused-by-api validatingadmissionpolicy ×1",
		`ValidationError(CustomResourceDefinition.spec.conversion): missing required field "strategy"`:                                                                                                                                                                                              "refused-by-api customresourcedefinition ×1",
		`ValidationError(Deployment.spec): unknown field "x"`:                                                                                                                                                                                                                                       "",
		// Halves of a conversion; ome#835, cert-manager#4838.
		`CustomResourceDefinition.apiextensions.k8s.io "carts.shop.example.com" is invalid: spec.conversion.strategy: Required value`:                                                                    "half-merged crd carts.shop.example.com ×1",
		`CustomResourceDefinition.apiextensions.k8s.io "carts.shop.example.com" is invalid: spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook`:       "half-merged crd carts.shop.example.com ×1",
		`CustomResourceDefinition.apiextensions.k8s.io "carts.shop.example.com" is invalid: [spec.conversion.webhookClientConfig: Forbidden: x, spec.conversion.conversionReviewVersions: Forbidden: y]`: "half-merged crd carts.shop.example.com ×1",
		`ValidatingWebhookConfiguration.admissionregistration.k8s.io "v" is invalid: webhooks[0].clientConfig: Required value: exactly one of url or service is required`:                                "half-merged validatingwebhookconfiguration v ×1", // hypershift#2227
		`CustomResourceDefinition.apiextensions.k8s.io "carts.shop.example.com" is invalid: spec.conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is true`:      "preserved-fields crd carts.shop.example.com ×1",
		`CustomResourceDefinition.apiextensions.k8s.io "carts.shop.example.com" is invalid: spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook`:               "refused-by-api crd carts.shop.example.com ×1",
		`{"logger":"controller.webhook.ConversionWebhook","msg":"Reconcile error","error":"custom resource \"carts.shop.example.com\" isn't configured for webhook conversion"}`:                         "conversion-not-set crd carts.shop.example.com ×1",
		// What kubectl prints of a denial with the reason Invalid.
		`The request is invalid: spec.x: is bad`: "denied-unnamed  ×1",
		"The request is invalid: \n* spec.running: Running and RunStrategy are mutually exclusive\n* spec.template: Required value": "denied-unnamed  ×1",
		// A patch that is no JSON, before API servers named the webhook; kubernetes#128297.
		`Internal error occurred: invalid character 's' after array element`:                                             "patch-failed  ×1",
		`Error from server (InternalError): Internal error occurred: unexpected end of JSON input`:                       "patch-failed  ×1",
		`{"responseStatus":{"message":"Internal error occurred: invalid character 's' after array element","code":500}}`: "patch-failed  ×1",
		`error: invalid character 's' after array element`:                                                               "",
		called(`received undecodable patch: invalid character 's' after array element`):                                  "invalid-answer w.example.com ×1",
		// Callers as the log of a webhook has them; amazon-eks-pod-identity-webhook#243.
		"http: TLS handshake error from 10.0.0.1:1: local error: tls: bad record MAC\nhttp: TLS handshake error from 10.0.0.2:2: remote error: tls: bad certificate": "certificate-refused  ×1",
		`http: TLS handshake error from 10.0.0.1:1: tls: client offered only unsupported versions: [302 301]`:                                                        "tls  ×1",
		`http: TLS handshake error from 10.0.0.1:1: tls: no certificates configured`:                                                                                 "no-certificate  ×1",
		`http: TLS handshake error from 10.0.0.1:1: No certificate available.`:                                                                                       "no-certificate  ×1",
		`http: TLS handshake error from 10.0.0.1:1: open /certs/tls.crt: no such file or directory`:                                                                  "no-certificate  ×1",
		`http: TLS handshake error from 10.0.0.1:1: secret "webhook-certs" not found`:                                                                                "no-certificate  ×1",
		`http: TLS handshake error from 10.0.0.1:1: read tcp 10.0.0.2:9443->10.0.0.1:1: read: connection reset by peer`:                                              "handshake-closed  ×1",
		`http: TLS handshake error from 10.0.0.1:1: tls: first record does not look like a TLS handshake`:                                                            "handshake-closed  ×1",
		// What API servers log of a certificate; opa#4902.
		`server_cert_deprecations.go:68] missing-san.invalid-cert.kubernetes.io: invalid certificate detected connecting to "hook.policy.svc": relies on a legacy Common Name field instead of the SAN extension for subject validation`:                    "certificate-name  ×1",
		`server_cert_deprecations.go:68] insecure-sha1.invalid-cert.kubernetes.io: invalid certificate detected connecting to "hook.policy.svc": uses an insecure SHA-1 signature`:                                                                          "certificate-invalid  ×1",
		call(`x509: certificate signed by unknown authority (possibly because of "x509: cannot verify signature: insecure algorithm SHA1-RSA (temporarily override with GODEBUG=x509sha1=1)" while trying to verify candidate authority certificate "ca")`): "certificate-invalid w.example.com ×1",
		call(`x509: certificate signed by unknown authority (possibly because of "crypto/rsa: verification error" while trying to verify candidate authority certificate "ca")`):                                                                            "unknown-authority w.example.com ×1",
		// Servers without a certificate; controller-runtime#900, piraeus-operator#761, metallb#1547.
		`{"level":"error","msg":"problem running manager","error":"open /tmp/k8s-webhook-server/serving-certs/tls.crt: no such file or directory"}`:   "unserved-certificate  ×1",
		`ERROR	setup	problem running manager	{"error": "open /var/folders/_q/T/k8s-webhook-server/serving-certs/tls.crt: no such file or directory"}`: "unserved-certificate  ×1",
		`ERROR   kubebuilder.webhook     server returns an unexpected error      {"error": "open /tmp/cert/cert.pem: no such file or directory"}`:     "unserved-certificate  ×1",
		`MountVolume.SetUp failed for volume "cert" : secret "webhook-server-cert" not found`:                                                         "unserved-certificate  ×1",
		`  Warning  FailedMount  4s (x9 over 2m)  kubelet  MountVolume.SetUp failed for volume "certs" : secret "cert-manager-webhook-tls" not found`: "unserved-certificate  ×9",
		`MountVolume.SetUp failed for volume "cert" : object "shop"/"webhook-server-cert" not registered`:                                             "unserved-certificate  ×1",
		`{"level":"error","logger":"cert-rotation","msg":"secret is not well-formed, cannot update webhook configurations","error":"missing ca.crt"}`: "unserved-certificate  ×1",
		`MountVolume.SetUp failed for volume "token" : secret "github-webhook-secret" not found`:                                                      "",
		`MountVolume.SetUp failed for volume "tls" : secret "shop-tls" not found`:                                                                     "",
		`open /etc/nginx/certs/tls.crt: no such file or directory`:                                                                                    "",
		`http: TLS handshake error from 10.0.0.1:1: tls: no cipher suite supported by both client and server`:                                         "tls  ×1",
		// Names that an API server does not print with a full stop.
		call(`x509: certificate is valid for hook, hook.policy, not hook.policy.svc. Retrying attempt #2 at 5:00AM.`): "certificate-name w.example.com ×1",
		// A patch of the client's own.
		`The request is invalid: the server rejected our request due to an error in our request`:                                              "",
		`The request is invalid: patch: Invalid value: "map[data:map[a:map[]]]": unrecognized type: int32`:                                    "",
		`Error from server: jsonpatch replace operation does not apply: doc is missing key: /webhooks/0/clientConfig/caBundle`:                "",
		`Internal error occurred: replace operation does not apply: doc is missing key: /spec/webhooks/0: missing value`:                      "patch-failed  ×1",
		`failed calling webhook "w.example.com": EOF. The request is invalid: the server rejected our request due to an error in our request`: "cut-off w.example.com ×1",
	})
	const clientPatch = "the client's own patch does not fit the object; no webhook refused the request"
	expect.Results(t, Unrecognized, map[string]string{
		`webhook.go:196] Failed to make webhook authorizer request: the server could not find the requested resource`:                                                                                                                      "the check who asks, or what they may do, failed (TokenReview, SubjectAccessReview); no admission webhook did",
		`"Failed to make webhook authenticator request" err="Post \"http://127.0.0.1:6440/v1\": connection refused"`:                                                                                                                       "the check who asks, or what they may do, failed (TokenReview, SubjectAccessReview); no admission webhook did",
		`Error in audit plugin 'webhook' affecting 1 audit events: Post "https://a.example.com": context deadline exceeded`:                                                                                                                "the API server could not send its audit events (--audit-webhook-config-file); no admission webhook failed",
		`pods "a" is forbidden: one or more images rejected by webhook backend`:                                                                                                                                                            "the built-in plugin ImagePolicyWebhook refused the request. Its backend is in the API server's own configuration, in no webhook configuration",
		`Error presenting challenge: the server is currently unable to handle the request (post ns.acme.example.net)`:                                                                                                                      "the API server does not serve this API, or what serves it for it does not answer; no webhook is named: kubectl get apiservices",
		`E1129 09:00:00.1 1 available_controller.go:311] v1beta1.admission.example.com failed with: Get https://10.0.249.58:443: net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)`: "the API server does not serve this API, or what serves it for it does not answer; no webhook is named: kubectl get apiservices",
		`v1.metrics.example.com failed with: failing or missing response from https://10.0.0.1:443/apis/metrics.example.com/v1: bad status`:                                                                                                "the API server does not serve this API, or what serves it for it does not answer; no webhook is named: kubectl get apiservices",
		`The request is invalid: the server rejected our request due to an error in our request`:                                                                                                                                           clientPatch,
		`The request is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"data\":{\"a\":{}}}": json: cannot unmarshal object into Go struct field ConfigMap.data of type string`:                                                    clientPatch,
		`Error from server: jsonpatch replace operation does not apply: doc is missing key: /webhooks/0/clientConfig/caBundle`:                                                                                                             clientPatch,
		`Internal error occurred: add operation does not apply: doc is missing path: "/webhooks/0/clientConfig/caBundle": missing value`:                                                                                                   clientPatch,
		`info	validationController	Not ready to switch validation to fail-closed: dummy invalid config not rejected`:                                                                                                                       "this is istiod's own log: the API server does not call its validating webhook, or cannot. Until it does, failurePolicy stays Ignore: webhook-auditor audit --probe=tls",
		`[webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive,`:                                                                                                             "the API server does not accept a webhook configuration, for the fields in the text. Before the next apply: webhook-auditor audit PATH",
		`Cannot complete cluster master operations because the cluster has a broken webhook application.`:                                                                                                                                  "the provider found a webhook that fails or is unsafe, and does not name it here: webhook-auditor audit",
		`the server could not find the requested resource (get carts.shop.example.com)`:                                                                                                                                                    "the API server does not serve this API, or what serves it for it does not answer; no webhook is named: kubectl get apiservices",
		`unable to retrieve the complete list of server APIs: shop.example.com/v1: the server is currently unable to handle the request`:                                                                                                   "the API server does not serve this API, or what serves it for it does not answer; no webhook is named: kubectl get apiservices",
		`error when evicting pods/"a": Cannot evict pod as it would violate the pod's disruption budget.`:                                                                                                                                  "a PodDisruptionBudget refused the eviction, no webhook did",
		`The Cart "a" is invalid: spec.x: Invalid value: 1: should be even`:                                                                                                                                                                "validation refused the object: the API server's own, of what mutating webhooks made of it, or a webhook's, which kubectl does not name where its reason is Invalid: webhook-auditor explain OPERATION RESOURCE",
		// What an injector adds has no limits, or too many: bank-vaults#515.
		`message: 'pods "a" is forbidden: failed quota: q: must specify limits.memory,requests.cpu'`:                                                                                                     "a ResourceQuota refused the request, no webhook did. What mutating webhooks add counts: webhook-auditor explain create pods",
		`pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2`:                                                                                                                    "a LimitRange refused the request, no webhook did. What mutating webhooks add counts: webhook-auditor explain create pods",
		`Operation cannot be fulfilled on validatingwebhookconfigurations.admissionregistration.k8s.io "v": the object has been modified; please apply your changes to the latest version and try again`: "another writer changed the object in between: try again; no webhook refused it",
		`mutatingwebhookconfigurations.admissionregistration.k8s.io is forbidden: User "u" cannot create resource "mutatingwebhookconfigurations"`:                                                       "RBAC refused the request, no webhook did",
		`Error from server (Forbidden): admission webhook … denied the request: no`:                                                                                                                      `no webhook error recognized, only "Forbidden", which names no webhook (where one is called: unauthorized)`,
	})
	const ruler = "\n-------------------------------------------------------------------------------\n"
	for _, text := range []string{ // a backend quotes another program, whose lines look like records
		`Error: admission webhook "w.example.com" denied the request: ` + ruler + "Error: exit status 1\n2026/10/15 10:30:28 [emerg] 2#2: the cause\nnginx: configuration file test failed" + ruler,
		`W0223 18:41:48.303065 1 dispatcher.go:141] rejected by webhook "w.example.com": &errors.StatusError{ErrStatus:v1.Status{Message:"admission webhook \"w.example.com\" denied the request: ` + ruler + "Error: signal: the cause\n" + ruler + `", Reason:"BadRequest", Details:(*v1.StatusDetails)(nil), Code:400}}`,
	} {
		if found := Parse(text); len(found) != 1 || !strings.Contains(found[0].Detail, "the cause") {
			t.Errorf("%s: %+v", text, found)
		}
	}
	for words, fix := range map[string]string{
		`unsupported webhook operation UPDATE`:                                   "look at the log",
		`no kind "Eviction" is registered for version "policy/v1" in scheme "x"`: "look at the log",
		`Internal error occurred: failed calling webhook "x.y.z": EOF`:           "look at the log",
		`error: signal: killed`:                                                  "look at the log",
		`failed to list pods: context deadline exceeded`:                         "look at the log",
		`the size of the cache has to be a quantity`:                             "change the object",
		`spec.template: Required value`:                                          "change the object",
	} {
		denied := Parse(`admission webhook "w.example.com" denied the request: ` + words)
		if a := FromMessage(denied[0]); !strings.HasPrefix(a.Fix, fix) {
			t.Errorf("%s: the first step is %q, want %q", words, a.Fix, fix)
		}
	}
	for text, isOpen := range map[string]bool{
		`W1 dispatcher.go:176] Failed calling webhook, failing open w.example.com: ` + call("EOF"):                                                   true,
		`W1 dispatcher.go:176] Failed calling webhook, failing open w.example.com: ` + call("EOF") + "\nE1 dispatcher.go:183] " + call("EOF"):        true,
		`"Failed calling webhook, failing open" webhook="w.example.com" err="failed calling webhook \"w.example.com\": failed to call webhook: EOF"`: true,
		`W1 dispatcher.go:176] Failed calling webhook, failing closed w.example.com: ` + call("EOF"):                                                 false,
	} {
		found := Parse(text)
		if len(found) != 1 || found[0].WentOn != isOpen || strings.Contains(strings.Join(FromMessage(found[0]).Notes, ""), "went on") != isOpen {
			t.Errorf("%s: %+v", text, found)
		}
	}
	const words = "no"
	for _, message := range []string{
		`HTTP response body: {"kind":"Status","apiVersion":"v1","status":"Failure","message":"admission webhook \"w.example.com\" denied the request: no","code":400}`,
		`ApiError: ` + denied + ` (ErrorResponse { status: "Failure", message: "x", reason: "", code: 400 })`,
		"Failure executing: POST at: https://10.0.0.1/api/v1/pods. Message: " + denied + ". Received status: Status(apiVersion=v1, code=400, message=x)",
		"Error: " + denied + "\n  with kubernetes_manifest.x,\n  on main.tf line 1",
		`unable to drain node "n1" due to error: [error when evicting pods/"a" -n "x": ` + denied + `, error when evicting pods/"b" -n "x": global timeout reached: 1m0s]`,
		"cannot evict pod shop/db-0: " + denied + "; cannot evict pod shop/db-1: " + denied,
	} {
		if found := Parse(message); len(found) != 1 || found[0].Detail != words {
			t.Errorf("%s: %+v", message, found)
		}
	}
}

// TestOwnTexts: what Crossplane, cert-manager and Knative say themselves of the certificates of
// webhooks and of who has an object, in their words of an Event, a condition and a log.
func TestOwnTexts(t *testing.T) {
	const revision = "packages/providerrevision.pkg.crossplane.io  cannot establish control of object: "
	expect.Results(t, summary, map[string]string{
		"  Warning  SyncPackage  29s (x37 over 30m)  " + revision + "cannot deploy a CRD with webhook conversion strategy without having a TLS bundle":                                                                      "crossplane-certificate  ×37",
		"    message: 'cannot establish control of object: waiting for package runtime controller to set revision''s webhook TLS secret'":                                                                                   "crossplane-certificate  ×1",
		`ERROR	crossplane	Reconciler error	{"error": "cannot establish control of object: cannot get webhook tls secret: Secret \"p-tls-server\" not found"}`:                                                               "crossplane-certificate  ×1",
		"  Warning  SyncPackage  4s (x7 over 1m)  " + revision + "carts.shop.example.com is already controlled by ProviderRevision p-2f0b8 (UID 0f6c-11)":                                                                   "two-packages crd carts.shop.example.com ×7",
		"cannot establish control of object: Object carts.shop.example.com is not controlled by ProviderRevision p-2f0b8 (UID 0f6c-11)":                                                                                     "two-packages crd carts.shop.example.com ×1",
		`cannot apply package revision: cannot patch object: Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "https://h.s.svc:443/v": no endpoints available for service "h"`: "no-ready-endpoints w.example.com ×1",
		"post establish runtime hook failed for package: provider package deployment is unavailable with message: Deployment does not have minimum availability.":                                                           "",
		`E1 controller.go:320] "unable to fetch associated secret" err="Secret \"c\" not found" logger="cert-manager.cainjector" kind="validatingwebhookconfiguration" name="hook"`:                                         "ca-not-injected  ×1",
		`cert-manager/secret-for-certificate-mapper "msg"="unable to fetch certificate that owns the secret" "error"="Certificate.cert-manager.io \"hook\" not found"`:                                                      "ca-not-injected  ×1",
		`"msg"="Secret resource does not allow direct injection - refusing to inject CA" "kind"="mutatingwebhookconfiguration"`:                                                                                             "ca-not-injected  ×1",
		"Not ready: the cert-manager webhook CA bundle is not injected yet":                                                                                                                                                 "ca-not-injected  ×1",
		"Not ready: the cert-manager webhook deployment is not ready yet":                                                                                                                                                   "no-ready-endpoints  ×1",
		"Not ready: the cert-manager webhook service is not created yet":                                                                                                                                                    "service-missing  ×1",
		`{"logger":"webhook","message":"Reconcile error","error":"secret \"webhook-certs\" is missing \"server-cert.pem\" key"}`:                                                                                            "unserved-certificate  ×1",
		`unable to fetch associated Subscription`: "",
	})
}

// TestNeeded: texts of which one is in whatever an expression matches.
func TestNeeded(t *testing.T) {
	needs := func(expression string) string { return strings.Join(neededFor(regexp.MustCompile(expression)), "|") }
	expect.Results(t, needs, map[string]string{
		`calling webhook "([^"]+)"`: `calling webhook "`,
		`(?i)Owner(?:s|less)x?`:     "owner",
		`ab|cde`:                    "ab|cde",
		`ab?|`:                      "",
		`(?:ab)+\d(cdef)`:           "cdef",
		`x*[yz]`:                    "",
		`(?:a|bb) (?:ccc|dddd)`:     "ccc|dddd",
	})
}
