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
