package diagnose

import (
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
		`error deleting pods/"db-0": ` + evicted:                                                                                                                                       "denied drain.example.com ×1",
		`InstallComponentFailed install strategy failed: Internal error occurred: failed calling webhook "w.example.com": service "h" not found`:                                       "service-missing w.example.com ×1",
		`Bundle unpacking failed. error using catalogsource: error validating existing CRs against new CRD's schema for "carts.shop.example.com": error listing resources: conversion webhook for shop.example.com/v1, Kind=Cart failed: Post "https://h.s.svc:443/c?timeout=30s": service "h" not found`: "service-missing  ×1",
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
		`no matches for kind "Cart" in version "shop.example.com/v1"`:                                                                                                                                                                                                                                        "",
		"failed to sync cluster https://10.0.0.1: failed to load initial state of resource Cart.shop.example.com: " + crd + "dial tcp: connect: connection refused":                                                                                                                                          "connection-refused  ×1",
		"conditions: - message: 'Failed to delete all resource types, 1 remaining: Internal error occurred: " + crd + `service "h" not found'`:                                                                                                                                                               "service-missing  ×1",
		`http: TLS handshake error from 10.0.0.1:34567: remote error: tls: bad certificate`:                                                                                                                                                                                                                  "certificate-refused  ×1",
		`{"level":"info","msg":"http: TLS handshake error from 10.0.0.1:1: remote error: tls: unknown certificate authority"}`:                                                                                                                                                                               "certificate-refused  ×1",
		`http: TLS handshake error from 10.0.0.1:34567: EOF`:                                                                                                                                                                                                                                                 "handshake-closed  ×1",
		`http: TLS handshake error from 10.0.0.1:34567: tls: client didn't provide a certificate`:                                                                                                                                                                                                            "tls  ×1",
		`{"level":"error","msg":"Reconciler error","error":"Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: Post \"https://h.s.svc:443/v?timeout=10s\": dial tcp 10.1.1.1:443: connect: connection refused","stacktrace":"x"}`:                                    "connection-refused w.example.com ×1",
		`"Error evicting pod" pod="shop/db-0" err="admission webhook \"w.example.com\" denied the request: moved"`:                                                                                                                                                                                           "eviction-denied w.example.com ×1",
		`{"level":"error","msg":"Error evicting pod","err":"admission webhook \"w.example.com\" denied the request: moved"}`:                                                                                                                                                                                 "eviction-denied w.example.com ×1",
		"FailedDraining  evicting pod shop/db-0, " + denied:                                                                                                                                                                                                                                                  "eviction-denied w.example.com ×1",
		`error when evicting pods/"db-0" -n "shop": evictions "db-0" ` + policy:                                                                                                                                                                                                                              "eviction-denied p ×1",
		`error when evicting pods/"db-0" -n "shop": Internal error occurred: ` + gate + "EOF":                                                                                                                                                                                                                "cut-off w.example.com ×1",
		gate + "read tcp 10.0.0.1:3->10.0.0.2:443: read: connection timed out":                                                                                                                                                                                                                               "cut-off w.example.com ×1",
		gate + "dial tcp 10.0.0.2:443: connect: operation not permitted":                                                                                                                                                                                                                                     "connect-timeout w.example.com ×1",
		gate + "dial tcp 10.0.0.2:443: connect: cannot assign requested address":                                                                                                                                                                                                                             "api-server w.example.com ×1",
		gate + "dial tcp 10.0.0.2:443: socket: too many open files":                                                                                                                                                                                                                                          "api-server w.example.com ×1",
		gate + "dial tcp: lookup hooks.example.com: i/o timeout":                                                                                                                                                                                                                                             "dns w.example.com ×1",
		gate + `net/http: HTTP/1.x transport connection broken: malformed HTTP response "\x15"`:                                                                                                                                                                                                              "invalid-answer w.example.com ×1",
		`Post "https://h.s.svc:443/v?timeout=10s": x509: certificate signed by unknown authority`:                                                                                                                                                                                                            "unknown-authority  ×1",
		`webhook "w.example.com": failed to call webhook: Post "https://h.s.svc:443/v?timeout=10s": EOF`:                                                                                                                                                                                                     "cut-off  ×1",
		`Put "https://10.0.0.1:6443/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x?timeout=5s": context deadline exceeded`:                                                                                                                                                                      "",
		"webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect":                                                                                                                                                                        "rule-without-effect  ×1",
		"Status:\n  Message:  conflicting CRD owner in namespace\n  Phase:    Failed\n  Reason:   OwnerConflict\n":                                                                                                                                                                                           "olm-owner-conflict  ×1",
		`Warning  OwnerConflict  5m  operator-lifecycle-manager  crd owner conflict: x`:                                                                                                                                                                                                                      "olm-owner-conflict  ×1",
		`csv failed: reason: "InterOperatorGroupOwnerConflict", message: "intersecting operatorgroups provide the same apis"`:                                                                                                                                                                                "olm-owner-conflict  ×1",
		`time="2026-11-29T09:00:00Z" level=warning msg="intersecting operatorgroups provide the same apis" apis=a`:                                                                                                                                                                                           "olm-owner-conflict  ×1",
		`{"type":"Ready","status":"False","reason":"OwnerConflict","message":"unable to adopt APIService"}`:                                                                                                                                                                                                  "olm-owner-conflict  ×2",
		`time="2026-11-29T09:00:00Z" level=error msg="sync failed" error="conflicting CRD owner in namespace"`:                                                                                                                                                                                               "olm-owner-conflict  ×1",
		`unsupported bundle: webhookDefinitions are not supported: certificate provider is nil`:                                                                                                                                                                                                              "olm-unsupported  ×1",
		`message: 'error for resolved bundle "w.v1" with version "1.0.0": unsupported bundle: apiServiceDefintions are not supported'`:                                                                                                                                                                       "olm-unsupported  ×1",
		`Retrying  reconcile error: webhookDefinitions are not supported`:                                                                                                                                                                                                                                    "olm-unsupported  ×1",
		`CustomResourceDefinition 'carts.shop.example.com' already exists in namespace '' and cannot be managed by operator-controller`:                                                                                                                                                                      "two-owners crd carts.shop.example.com ×1",
		`ValidatingWebhookConfiguration 'w.example.com' already exists in namespace 'a' and cannot be managed by operator-controller`:                                                                                                                                                                        "two-owners validatingwebhookconfiguration w.example.com ×1",
		`Deployment 'w' already exists in namespace 'a' and cannot be managed by operator-controller`:                                                                                                                                                                                                        "",
		"status:\n  typeChecking:\n    expressionWarnings:\n    - fieldRef: spec.validations[0].expression\n      warning: |-\n        apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n         | object.replicas > 1\n         | ......^":                                         "type-warning  ×1",
		`{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'"}]}`:                                                                                                                                        "type-warning  ×1",
		"Type Checking:\n    Expression Warnings:\n      Field Ref:  spec.variables[1].expression\n      Warning:    apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'":                                                                                                               "type-warning  ×1",
		"Warning: apps/v1, Kind=ReplicaSet: ERROR: <input>:1:7: undefined field 'replicas'":                                                                                                                                                                                                                  "type-warning  ×1",
		"Message: The conversion webhook CABundle is invalid: unable to load root certificates":                                                                                                                                                                                                              "ca-bundle-invalid  ×1",
		`failed to install CRD crds/cart.yaml: 1 error occurred: * customresourcedefinitions.apiextensions.k8s.io "carts.shop.example.com" already exists`:                                                                                                                                                   "two-owners crd carts.shop.example.com ×1",
		"Resource admissionregistration.k8s.io/MutatingWebhookConfiguration//inject appeared 2 times among application resources.":                                                                                                                                                                           "two-owners mutatingwebhookconfiguration inject ×1",
		`APIServer panic'd: reflect.Set: value of type *structpb.Struct is not assignable to type *structpb.Value`:                                                                                                                                                                                           "api-server-panic  ×1",
		"Error from server: error when creating \"pod.yaml\": stream error: stream ID 5; INTERNAL_ERROR; received from peer":                                                                                                                                                                                 "api-server-panic  ×1",
		gate + "stream error: stream ID 5; INTERNAL_ERROR; received from peer":                                                                                                                                                                                                                               "cut-off w.example.com ×1",
		"Resource kind shop.example.com/v1, Kind=Cart not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.":                                                                                                                                       "kind-too-new objects of shop.example.com/v1, Kind=Cart ×1",
	})
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
