// Package reporttest has the reports that tests render.
package reporttest

import (
	"bytes"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var (
	Taken = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

	NoEndpoints = &classify.Check{
		Name:      "no-ready-endpoints",
		Summary:   "The Service that the API server calls has no ready endpoint.",
		Severity:  classify.Critical,
		Condition: map[inventory.Type]string{inventory.Validating: "ValidatingAdmissionWebhookConfigurationError"},
		Reason:    "WebhookServiceNoEndpoints",
		Alerts: map[classify.Severity]string{
			classify.Critical: "WebhookBackendDown",
			classify.Warning:  "WebhookBackendDownWarning",
		},
		For: 5 * time.Minute,
	}
	CriticalResource = &classify.Check{
		Name:     "critical-resource",
		Summary:  "A third party intercepts a resource that the cluster cannot work without.",
		Severity: classify.Info,
	}
	BudgetExceeded = &classify.Check{
		Name:     "budget-exceeded",
		Summary:  "The webhooks of a resource take longer than its budget | allows.",
		Severity: classify.Warning,
	}
)

func Webhook(ref inventory.Ref, b inventory.Backend) *inventory.Webhook {
	w := &inventory.Webhook{
		Registration: inventory.Registration{
			Ref:            ref,
			FailurePolicy:  admissionv1.Fail,
			MatchResources: inventory.MatchResources{MatchPolicy: admissionv1.Equivalent},
		},
		Backend: b,
		Timeout: 10 * time.Second,
	}
	if ref.Type == inventory.Conversion {
		w.MatchPolicy, w.Timeout = "", 30*time.Second
	}
	return w
}

func Service(namespace, name string) inventory.Backend {
	return inventory.Backend{
		Kind:    inventory.BackendService,
		Service: inventory.ServiceRef{Key: inventory.Key{Namespace: namespace, Name: name}, Port: 443, Path: "/"},
	}
}

var (
	podsPolicy  = inventory.Ref{Type: inventory.Validating, Configuration: "policy", Name: "pods.policy.example.com"}
	quotaPolicy = inventory.Ref{Type: inventory.Validating, Configuration: "policy", Name: "quota.policy.example.com"}
	injector    = inventory.Ref{Type: inventory.Mutating, Configuration: "injector", Name: "inject.mesh.example.com"}
	widgets     = inventory.Ref{Type: inventory.Conversion, Configuration: "widgets.example.com", Name: "widgets.example.com"}
)

// limits is an admission policy with a binding.
func limits() *inventory.AdmissionPolicy {
	ref := inventory.Ref{Type: inventory.ValidatingPolicy, Configuration: "limits.example.com", Name: "limits.example.com"}
	return &inventory.AdmissionPolicy{
		Registration: inventory.Registration{
			Ref: ref, Object: inventory.Object{Kind: inventory.KindValidatingPolicy, Name: ref.Name},
			FailurePolicy: admissionv1.Fail,
		},
		ParamKind: &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
		Bindings: []*inventory.PolicyBinding{{Object: inventory.Object{
			Kind: inventory.KindValidatingPolicyBinding, Name: "limits",
		}, Policy: ref}},
	}
}

// Report is a handful of webhooks and one finding of each kind.
func Report() *classify.Report {
	pods, deployments := inventory.Resource{Name: "pods"}, inventory.Resource{Group: "apps", Name: "deployments"}
	source := inventory.Source{File: "deploy/policy.yaml", Line: 7}
	inject := Webhook(injector, inventory.Backend{Kind: inventory.BackendURL, URL: "https://mesh.example.com/inject", BareURL: "https://mesh.example.com/inject"})
	inject.FailurePolicy = admissionv1.Ignore
	policy := Webhook(podsPolicy, Service("policy", "policy"))
	policy.Object = inventory.Object{
		Owner:       inventory.Owner{Tool: "helm", Name: "policy"},
		LastChanged: Taken.Add(-time.Hour),
		Source:      source,
	}
	lookAtPolicy := "kubectl get validatingwebhookconfiguration policy -o yaml"
	return &classify.Report{
		Snapshot: &inventory.Snapshot{Cluster: inventory.Cluster{Server: inventory.Version{
			Major: 1, Minor: 37, Git: "v1.37.1",
		}}, Taken: Taken, Probes: probes(), Policies: []*inventory.AdmissionPolicy{limits()}},
		Profiles: []*classify.Profile{
			{
				Webhook: inject, Threshold: 0.5,
				ByClass: map[classify.Class][]inventory.Resource{
					classify.ClassCritical: {pods}, classify.ClassCore: {pods},
				},
			},
			{Webhook: Webhook(widgets, Service("widgets", "convert")), Threshold: 1, State: inventory.BackendState{Known: true}},
			{
				Webhook: policy, Threshold: 0.5,
				State: inventory.BackendState{Known: true, Fault: inventory.NoReadyEndpoints}, Approved: true,
				ByClass: map[classify.Class][]inventory.Resource{
					classify.ClassCritical: {pods},
					classify.ClassCore:     {pods, deployments},
				},
			},
			{Webhook: Webhook(quotaPolicy, Service("policy", "policy")), Threshold: 1},
		},
		Costs: []classify.Cost{
			{
				Resource: pods, Operation: admission.Create,
				Budget: admission.Budget{Mutating: 10 * time.Second, Validating: 10 * time.Second, Webhooks: 2},
			},
			{Resource: pods, Operation: admission.Delete},
		},
		Findings: []*classify.Finding{
			{Check: NoEndpoints, Webhook: podsPolicy, Source: source, Look: lookAtPolicy, Problem: classify.Problem{
				Severity: classify.Critical,
				Message:  "calls Service policy/policy, which has no ready endpoint, for pods, deployments.apps, statefulsets.apps, daemonsets.apps, jobs.batch, cronjobs.batch, services, secrets, configmaps, serviceaccounts, endpoints and leases.coordination.k8s.io",
				Fix:      "Scale the workload behind the Service up. Until then requests are refused; to let them through: kubectl delete validatingwebhookconfiguration policy; else:\n    kubectl -n policy scale deployment policy --replicas=2",
			}},
			{Check: NoEndpoints, Webhook: widgets, Look: "kubectl get crd widgets.example.com -o yaml", Problem: classify.Problem{
				Severity: classify.Critical,
				Message:  "calls Service widgets/convert, which has no ready endpoint",
				Fix:      "Scale the workload behind the Service up.",
			}},
			{Check: BudgetExceeded, Webhook: quotaPolicy, Look: lookAtPolicy, Problem: classify.Problem{
				Severity: classify.Warning,
				Resource: inventory.Resource{Group: "apps", Name: "deployments"},
				Message:  "is the last straw: a request may take 31 s | 2 webhooks, the budget is 30 s",
				Fix:      "Lower a timeout of the chain.",
			}},
			{Check: CriticalResource, Webhook: injector, Look: "kubectl get mutatingwebhookconfiguration injector -o yaml", Problem: classify.Problem{
				Severity: classify.Info,
				Message:  "is called for pods",
				Fix:      "Have it approved: set the annotation webhook-approved.openshift.io to the URL of the pull request.",
			}},
			{Check: CriticalResource, Webhook: quotaPolicy, Look: lookAtPolicy, Problem: classify.Problem{
				Severity: classify.Info,
				Message:  "is called for resourcequotas",
				Fix:      "Have it approved: set the annotation webhook-approved.openshift.io to the URL of the pull request.",
			}},
			{
				Check: CriticalResource, Webhook: podsPolicy, Source: source, Acknowledged: true, Look: lookAtPolicy,
				Problem: classify.Problem{
					Severity: classify.Info,
					Message:  "is called for pods",
					Fix:      "Have it approved.",
				},
			},
		},
	}
}

// Blind adds errors to a report.
func Blind(r *classify.Report) *classify.Report {
	r.Errors = []inventory.Error{
		{Source: inventory.Source{File: "x.yaml", Line: 3}, Object: "ValidatingWebhookConfiguration/broken", Message: "reading namespaceSelector: unknown operator \"Like\""},
		{Object: "customresourcedefinitions.apiextensions.k8s.io", Message: "listing is forbidden: grant the verb list"},
	}
	return r
}

// Gathered adds to a report what it was read from.
func Gathered(r *classify.Report) *classify.Report {
	r.Snapshot.Inputs = []inventory.Input{
		{Path: "must-gather.tar.gz", Kind: "must-gather (archive)", Taken: Taken, Objects: 214, Skipped: 1},
		{Path: "missing.yaml"},
		{Path: "-", Kind: "manifests", Objects: 1, Lacks: []string{"no Services: backends are unknown", "no Pods or \x1b[31mworkloads"}},
	}
	return r
}

// Healthy is a report without findings.
func Healthy() *classify.Report {
	r := Report()
	r.Findings = nil
	return r
}

// Rendered returns what a writer writes.
func Rendered(t *testing.T, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Succeed(t, write(&b))
	return b.Bytes()
}

// Evaluated returns the Report of the default Policy on a Snapshot.
func Evaluated(t testing.TB, s *inventory.Snapshot) *classify.Report {
	t.Helper()
	return must.Get(classify.DefaultPolicy().Evaluate(t.Context(), s))(t)
}

// probes are what dialing the backends of the report showed.
func probes() map[inventory.Ref]inventory.Probe {
	serving := func(left time.Duration) *inventory.ServingCertificate {
		return &inventory.ServingCertificate{NotBefore: Taken.Add(-24 * time.Hour), NotAfter: Taken.Add(left)}
	}
	return map[inventory.Ref]inventory.Probe{
		widgets:     {Answer: inventory.AnswerTLS, Took: 12 * time.Millisecond, Certificate: serving(time.Hour)},
		podsPolicy:  {Answer: inventory.AnswerTLS, Took: 15 * time.Millisecond, Certificate: serving(-time.Minute)},
		quotaPolicy: {Answer: inventory.AnswerUnreachable, Took: time.Millisecond},
		injector:    {Error: "i/o timeout", Took: 5 * time.Second},
	}
}
