package classify

// PolicyKey documents a key of the Policy file.
type PolicyKey struct {
	// Path is the key with those above it; "[]" stands for the elements of a
	// list.
	Path string
	// Text is Markdown.
	Text string
}

// PolicyKeys documents each key of the Policy file, in the order of the fields.
var PolicyKeys = []PolicyKey{
	{"classes", "Members of the classes `critical`, `virtual` and `sensitive`, written as `pods`, `deployments.apps` or `pods/exec`. A class that is given has these members alone; the others keep the default."},
	{"coreGroups", "API groups of the class `core`; `\"\"` is the group of pods. CRDs annotated `api-approved.openshift.io` belong to the class as well."},
	{"platformNamespaces", "Globs of the namespaces of the platform: [critical-resource](critical-resource.md) is about webhooks whose Service is in another one."},
	{"platformWebhooks", "Globs of the names of webhooks, or of their configurations, that belong to the platform: checks of what a webhook intercepts leave them out. What OpenShift and EKS register themselves is known besides, by name, backend and rules."},
	{"runLevelLabel", "Label that puts a namespace on a run level; `\"\"` is none."},
	{"runLevelZero", "Globs of the namespaces that are on run level 0 without the label."},
	{"controlPlane", "Resources that nodes need to join, a control plane to recover and leaders to stay leaders ([control-plane-path](control-plane-path.md)), by namespace; `\"\"` is for those without a namespace. A namespace that is given has these resources alone; the others keep the default."},
	{"auditorNamespaces", "Namespaces in which webhook-auditor may be installed ([blocks-auditor](blocks-auditor.md))."},
	{"latencyThresholds", "Latency in seconds above which a webhook is slow, by the webhook's name: 0.1, 0.5, 1, 2.5 or 10, the bucket edges of the API server's histogram. Without an entry it is 0.5 for a webhook on resources of the class `critical`, else 1."},
	{"longTimeoutSeconds", "Longest timeout in seconds that is not reported by [long-timeout](long-timeout.md)."},
	{"controlPlaneTimeoutSeconds", "Longest timeout in seconds, with failurePolicy Ignore, that the clients of the control plane tolerate: they give up after 30 s ([control-plane-path](control-plane-path.md))."},
	{"leaseTimeoutSeconds", "Longest timeout in seconds, with failurePolicy Ignore, that leaders tolerate: they renew their leases within 10 s ([control-plane-path](control-plane-path.md))."},
	{"caExpiryDays", "Days before its end from which an expiring certificate is reported ([ca-bundle-expiring](ca-bundle-expiring.md), [serving-certificate](serving-certificate.md))."},
	{"injectionGraceSeconds", "Seconds that a CA injector may take to fill in a CA bundle ([ca-bundle-missing](ca-bundle-missing.md))."},
	{"checks", "Opt-in checks to run, by name: they are off by default."},
	{"budgets", "Bounds on what the webhooks of one resource may cost together ([budget-exceeded](budget-exceeded.md))."},
	{"budgets[].resource", "Resource that the budget is for. Required."},
	{"budgets[].seconds", "Longest worst case of a request, in seconds: all timeouts in the order of the calls. 0 is no bound."},
	{"budgets[].webhooks", "Most webhooks that a request may meet. 0 is no bound. Required are `seconds`, `webhooks` or both."},
	{"acknowledgements", "Findings that the cluster's owner knows of, of any severity: they stay in reports, marked, and leave alerts and conditions. One that matches no finding is reported ([stale-acknowledgement](stale-acknowledgement.md))."},
	{"acknowledgements[].check", "Glob of the check's name; empty matches all."},
	{"acknowledgements[].configuration", "Glob of the name of the webhook's configuration (of a conversion: of the CRD); empty matches all."},
	{"acknowledgements[].name", "Glob of the webhook's name; empty matches all."},
	{"acknowledgements[].reason", "Why the findings are accepted. Required."},
	{"acknowledgements[].until", "Last day, UTC, as `\"2027-01-31\"`; empty is without end."},
}

// policyExample is a use of the Policy file.
type policyExample struct{ Title, Text, YAML string }

// PolicyExamples has an example of each use.
var PolicyExamples = []policyExample{
	{
		"Acknowledge a critical finding",
		"An annotation on the webhook's configuration covers findings of severity info and warning; a critical one is acknowledged here alone. With `until`, the finding comes back on that day.",
		`acknowledgements:
- check: no-ready-endpoints
  configuration: legacy-operator
  reason: scaled down until the migration is done, OPS-1234
  until: "2027-01-31"
`,
	},
	{
		"Acknowledge what a policy engine is for",
		"A glob matches several webhooks at once; what it does not name stays open.",
		`acknowledgements:
- check: critical-resource
  configuration: "gatekeeper-*"
  reason: reviewed by the security team
- check: over-broad
  name: "*.gatekeeper.sh"
  reason: a policy engine is called for everything, and fails open
`,
	},
	{
		"Budgets",
		"No resource has a budget by default.",
		`budgets:
- resource: pods
  seconds: 20
  webhooks: 5
- resource: leases.coordination.k8s.io
  webhooks: 1
`,
	},
	{
		"Classes",
		"A cluster that is not OpenShift adds the rollouts of Argo to the class `critical`: the list replaces the default, so it repeats those to keep. The class `core` is here the groups of workloads alone.",
		`classes:
  critical:
  - endpoints
  - endpointslices.discovery.k8s.io
  - events
  - events.events.k8s.io
  - pods
  - resourcequotas
  - rollouts.argoproj.io
coreGroups: ["", apps, batch, autoscaling, policy]
`,
	},
	{
		"Namespaces",
		"The platform team runs webhooks of its own, and what this cluster cannot start without is in more namespaces than usual.",
		`platformNamespaces: [kube-system, "platform-*"]
platformWebhooks: ["*.platform.example.com"]
runLevelLabel: example.com/run-level
runLevelZero: [kube-system, cilium]
controlPlane:
  cilium:
  - pods
  - daemonsets.apps
  - leases.coordination.k8s.io
auditorNamespaces: [monitoring]
`,
	},
	{
		"Opt-in checks",
		"Which users may take their requests out of a policy, and which webhooks any Pod may call.",
		`checks: [label-opt-out, any-pod-may-call]
`,
	},
	{
		"Thresholds",
		"A scanner may take longer than other webhooks; certificates are renewed by hand, so there is more notice.",
		`latencyThresholds:
  scan.images.example.com: 2.5
longTimeoutSeconds: 10
controlPlaneTimeoutSeconds: 10
leaseTimeoutSeconds: 2
caExpiryDays: 60
injectionGraceSeconds: 600
`,
	},
}
