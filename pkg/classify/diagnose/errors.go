package diagnose

import (
	"cmp"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// APIServerError is what an API server reported about a webhook or policy, in an error that a
// user pasted: from kubectl, an Event, a condition or the log of a controller.
type APIServerError struct {
	// Webhook is the name of an admission webhook, or of several, with commas; "" where the
	// error does not name it, and for a conversion.
	Webhook string
	// Policy is that of an admission policy, "" where the error names none, and Binding
	// that by which it applied, "" where it is the policy that is wrong.
	Policy  inventory.Ref
	Binding string
	// Group, Version and Kind are what a conversion was asked for.
	Group, Version, Kind string
	// Expression is that of a matchCondition that failed.
	Expression string
	// Object is the registration that the API server refused, as TYPE NAME.
	Object string
	// Plugin is the admission plugin whose webhooks together took too long.
	Plugin string
	// URL is what was called, "" where the error does not name it.
	URL   string
	Cause Cause
	// Detail is the error behind the cause, as it was printed.
	Detail string
	// Count is how often the text has the error.
	Count int
	// WentOn says that the API server logged that the request went on.
	WentOn bool
	// setting is that of the request, nil where the text shows none.
	setting *setting
}

// MaxErrors bounds the errors made of one text, maxDetail what is kept of an error: webhooks
// write essays. maxShown bounds what a terminal shows, whose lines it may have broken: more is a log.
const (
	MaxErrors = 20
	maxDetail = 1000
	maxShown  = 256 << 10
)

// errorPattern is a form in which an API server names a webhook.
type errorPattern struct {
	*regexp.Regexp
	// read fills in what the groups of the expression hold.
	read func(c *APIServerError, groups []string)
	// causes are those that the rest of the error is searched for, fallback
	// the cause where none is found.
	causes   []cause
	fallback Cause
}

// sought is an errorPattern and what a text needs for it.
type sought struct {
	errorPattern
	needed needed
}

func seek(patterns ...errorPattern) []sought {
	return lists.Map(patterns, func(p errorPattern) sought { return sought{p, neededFor(p.Regexp)} })
}

// patterns are all forms, and where the source has them: k8s.io/apiserver
// pkg/util/webhook/error.go, pkg/admission/plugin/webhook/errors, the
// dispatchers beside it, pkg/admission/plugin/policy, pkg/admission/plugin/cel, gopkg.in/evanphx/json-patch.v4, and
// k8s.io/apiextensions-apiserver pkg/apiserver/conversion.
var patterns = func() []sought {
	nothing := func(*APIServerError, []string) {}
	named := func(c *APIServerError, groups []string) { c.Webhook = groups[1] }
	converting := func(c *APIServerError, groups []string) {
		c.Group, c.Version, c.Kind = groups[1], groups[2],
			groups[3]
	}
	whole := func(c *APIServerError, groups []string) { c.Detail = groups[0] + c.Detail }
	refused := func(c *APIServerError, groups []string) {
		c.Object = strings.TrimSpace(strings.ToLower(groups[1]) + " " + groups[2])
	}
	refusedConversion := func(c *APIServerError, groups []string) {
		c.Object, c.Detail = "crd "+groups[1], groups[2]+c.Detail
	}
	conflicting := func(c *APIServerError, groups []string) {
		c.Webhook, c.Detail = groups[1], groups[0]+c.Detail
		for _, field := range fieldsInConflict.FindAllStringSubmatch(c.Detail, -1) {
			if !slices.Contains(c.names(), field[1]) {
				c.Webhook += ", " + field[1]
			}
		}
	}
	traced := func(c *APIServerError, groups []string) {
		c.Webhook = groups[1]
		if m := trace.FindStringSubmatch(groups[0] + c.Detail); m != nil {
			c.Detail = tracedCall(m)
		}
	}
	twoOwners := func(c *APIServerError, groups []string) {
		kind := strings.TrimPrefix(strings.ToLower(groups[1]), "customresourcedefinition")
		c.Object, c.Detail = cmp.Or(strings.TrimSuffix(kind, "s"), "crd")+" "+groups[2], groups[0]+c.Detail
	}
	nameFirst := func(c *APIServerError, groups []string) { twoOwners(c, []string{groups[0], groups[2], groups[1]}) }
	ofCRD := func(c *APIServerError, groups []string) {
		c.Object, c.Detail = strings.TrimSpace("crd "+groups[1]), groups[0]+c.Detail
	}
	unreadable := func(c *APIServerError, groups []string) {
		c.Object, c.Detail = "objects of "+groups[1], groups[0]+c.Detail
	}
	notServed := func(c *APIServerError, groups []string) {
		kinds := slices.DeleteFunc(groups[1:], func(s string) bool { return strings.Contains(s, "/") })
		c.Object, c.Detail = strings.ToLower(kinds[0]), groups[0]+c.Detail
	}
	ofLinkerd := func(c *APIServerError, groups []string) {
		c.Webhook, c.Detail = "linkerd-"+groups[1]+".linkerd.io", groups[0]+" "+c.Detail
	}
	analyzed := func(c *APIServerError, groups []string) {
		c.Object, c.Detail = strings.ToLower(groups[1])+" "+groups[2], groups[0]+c.Detail
	}
	invalid := func(c *APIServerError, groups []string) {
		c.Object, c.Detail = strings.ToLower(groups[1]), groups[0]+c.Detail
	}
	plugin := func(c *APIServerError, groups []string) { c.Plugin, c.Detail = groups[1], groups[0] }
	failing := func(c *APIServerError, groups []string) { c.Expression = groups[1] }
	validates := func(c *APIServerError, groups []string) { c.setPolicy(inventory.ValidatingPolicy, groups) }
	annotates := func(c *APIServerError, groups []string) {
		if strings.Contains(groups[4], "Deny") {
			c.Cause = causePolicyDenied
		}
		c.setPolicy(inventory.ValidatingPolicy, []string{"", groups[2], groups[3], ""})
		if m := failingExpressions.FindStringSubmatch(groups[1]); m != nil {
			c.setPolicy(inventory.ValidatingPolicy, []string{"", groups[2], groups[3], m[1]})
		}
		c.Detail = groups[1]
	}
	mutates := func(c *APIServerError, groups []string) { c.setPolicy(inventory.MutatingPolicy, groups) }
	return seek([]errorPattern{
		{regexp.MustCompile(`Validation failed for ValidatingAdmissionPolicy '([^']+)' with binding '([^']+)':` + failingExpression), validates, nil, causePolicyWarned},
		{failureAnnotation, annotates, nil, causePolicyWarned},
		{regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '([^']+)')? denied request:` + failingExpression), validates, policyCauses, causePolicyDenied},
		{regexp.MustCompile(`\bpolicy ['"]([^'"]+)['"](?: with binding ['"]([^'"]+)['"])? denied request:` + failingExpression), mutates, policyCauses, "policy-failed"},
		{regexp.MustCompile(`a mirror pod may not (?:reference|use) |node "[^"]+" can (?:not create pods that reference|only create mirror pods|only create pods with) `), whole, nil, "mirror-pod"},
		{ownPatch, nothing, nil, ""},
		{regexp.MustCompile(`\bThe request is invalid: `), nothing, nil, "denied-unnamed"},
		{regexp.MustCompile(`not yet ready to handle request`), nothing, nil, "not-ready"},
		{regexp.MustCompile(`[×‼] ([\w-]+) webhook has valid cert`), ofLinkerd, linkerdCauses, causeCertificate},
		{regexp.MustCompile(`[×‼] ([\w-]+) cert is valid for at least \d+ days`), ofLinkerd, nil, "certificate-expiring"},
		{regexp.MustCompile(`\((MutatingWebhookConfiguration) ([^ )]+)[^)]*\) Injector refers to a control plane service that does not exist`), analyzed, nil, "service-missing"},
		{regexp.MustCompile(`\((MutatingWebhookConfiguration) ([^ )]+)[^)]*\) Webhook overlaps with others`), analyzed, nil, "injectors-overlap"},
		{regexp.MustCompile(`missing ((?:Mutating|Validating)WebhookConfiguration)s: ([^ ,]+)`), analyzed, nil, "configuration-missing"},
		{regexp.MustCompile(`\b((?i:(?:mutating|validating)webhookconfiguration))s?\.admissionregistration\.k8s\.io "([^"]+)" not found`), analyzed, nil, "configuration-missing"},
		{regexp.MustCompile(`(?:Internal error occurred: )?(?:failed )?calling (?:admission )?webhook "([^"]+)"[:;]?`), named, callCauses, causeOther},
		{regexp.MustCompile(`admission webhook "([^"]+)" denied the request:?`), named, deniedCauses, causeDenied},
		{regexp.MustCompile(`admission plugin "(\w+)" failed to complete (?:mutation|validation) in [\w.]+`), plugin, nil, "plugin-timeout"},
		{regexp.MustCompile(`"Call (?:mutating|validating) webhook" configuration:[^,]*,webhook:([^, ]+)`), traced, nil, "slow-call"},
		{regexp.MustCompile(`"Call conversion webhook" custom-resource-definition:[^, ]+`), whole, nil, "slow-call"},
		{regexp.MustCompile(`\b(?:The )?((?:Validating|Mutating)(?:WebhookConfiguration|AdmissionPolicy(?:Binding)?))(?:\.\w+\.k8s\.io)? "([^"]+)" is invalid:`), refused, refusedCauses, "refused-by-api"},
		{regexp.MustCompile(`\b(?:The )?((?:Validating|Mutating)(?:WebhookConfiguration|AdmissionPolicy(?:Binding)?))(?:()) in version "[^"]+" cannot be handled as a \w+:`), refused, nil, "refused-by-api"},
		{regexp.MustCompile(`\b(?:The )?CustomResourceDefinition(?:\.\w+\.k8s\.io)? "([^"]+)" is invalid: .*?(spec\.conversion)`), refusedConversion, refusedCauses, "refused-by-api"},
		{regexp.MustCompile(`\b` + registeredKind + ` "([^"]+)" in namespace "[^"]*" exists and cannot be imported into the current release`), twoOwners, ownerCauses, causeTwoOwners},
		{regexp.MustCompile(`\b` + registeredKind + `/(\S+) is part of applications `), twoOwners, nil, causeTwoOwners},
		{regexp.MustCompile(`may not add resource with an already registered id: ` + registeredKind + `\.v\w+\.[a-z0-9.]+/([^ "\[]*[^ "\[.])`), twoOwners, nil, causeTwoOwners},
		{regexp.MustCompile(`\b((?:validating|mutating)(?:webhookconfigurations|admissionpolic(?:ies|ybindings))|customresourcedefinitions)\.(?:admissionregistration|apiextensions)\.k8s\.io "([^"]+)" already exists`), twoOwners, nil, causeTwoOwners},
		{regexp.MustCompile(`\b` + registeredKind + ` '([^']+)' already exists in namespace '[^']*' and cannot be managed by operator-controller`), twoOwners, nil, causeTwoOwners},
		{regexp.MustCompile(`existing resource conflict: kind: ` + registeredKind + `, namespace: [^,]*, name: ([^, "]+)`), twoOwners, nil, causeTwoOwners},
		{regexp.MustCompile(`existing resource conflict: namespace: [^,]*, name: ([^,]+), existing_kind: \S+ Kind=` + registeredKind), nameFirst, nil, causeTwoOwners},
		{regexp.MustCompile(`Resource '(?i:` + registeredKind + `)/(\S+) [^']*' is already associated with a different app`), twoOwners, nil, causeTwoOwners},
		{regexp.MustCompile(`\(\S*/([^/; ]+); \S+ Kind=` + registeredKind + `\)(?: to smd typed)?: `), nameFirst, nil, "refused-by-api"},
		{regexp.MustCompile(`Resource [\w.]+/` + registeredKind + `/[^/ ]*/(\S+) appeared \d+ times among application resources`), twoOwners, nil, causeTwoOwners},
		{regexp.MustCompile(`with the same name and GroupKind: "` + registeredKind + `\.[\w.]+" named "([^"]+)"`), twoOwners, nil, causeTwoOwners},
		{regexp.MustCompile(`(?:ValidationError\(|unknown object type "nil" in )` + registeredKind), invalid, nil, "refused-by-api"},
		{regexp.MustCompile(`custom resource "([^"]+)" isn't configured for webhook conversion`), ofCRD, nil, "conversion-not-set"},
		{regexp.MustCompile(`conversion-webhook\b.{0,40}failed to convert`), whole, nil, "conversion-refused"},
		{regexp.MustCompile(`Internal error occurred: (?:invalid character |unexpected end of JSON input)`), whole, nil, "patch-failed"},
		{regexp.MustCompile(`no matches for kind "` + registeredKind + `" in version "` + registeredVersion + `"`), notServed, nil, causeNotServed},
		{regexp.MustCompile(`could not find (?:version "[^"]+" of )?(?:admissionregistration|apiextensions)\.k8s\.io/` + registeredKind + ` for requested resource`), notServed, nil, causeNotServed},
		{regexp.MustCompile(`[Ff]ailed to list \*v\w+\.` + registeredKind + `: the server could not find the requested resource`), notServed, nil, causeNotServed},
		{regexp.MustCompile(registeredVersion + ` ` + registeredKind + ` is deprecated in v[\d.]+\+, unavailable in v[\d.]+\+`), notServed, nil, causeNotServed},
		{regexp.MustCompile(`panic'd: reflect\.Set: value of type \*structpb\.Struct`), whole, nil, causePanic},
		{regexp.MustCompile(`Resource kind (\S+, Kind=\w+) not found\. There can be a delay between when CustomResourceDefinitions are created`), unreadable, nil, "kind-too-new"},
		{regexp.MustCompile(`\S+ is excluded from admission webhooks; this rule will have no effect`), whole, nil, "rule-without-effect"},
		{regexp.MustCompile(`failed to connect to webhook "([^"]+)" via service "([^"]+)"(?: with caBundle set automatically from kube-root-ca\.crt)?:`), func(c *APIServerError, groups []string) {
			c.Webhook, c.URL = groups[1], "https://"+groups[2]
		}, callCauses, causeOther},
		{regexp.MustCompile(`Internal error occurred: error resolving resource ?`), whole, nil, causeUnserved},
		{regexp.MustCompile(`garbage controller monitor not yet synced: ([^/ ]+)/\w+, Resource=(\w+)`), func(c *APIServerError, groups []string) {
			c.Object, c.Detail = "crd "+groups[2]+"."+groups[1], groups[0]
		}, nil, "unlisted-objects"},
		{regexp.MustCompile(`unable to sync caches for (?:garbage collector|resource quota) ?|timed out waiting for (?:dependency graph builder|quota monitor) sync ?`), whole, nil, "unlisted-objects"},
		{regexp.MustCompile(`[Tt]he conversion webhook CABundle is invalid|InvalidCABundle`), whole, nil, "ca-bundle-invalid"},
		{regexp.MustCompile(`invalid certificate detected connecting to "([^"]+)":`), func(c *APIServerError, groups []string) {
			c.URL, c.Detail = "https://"+groups[1], groups[0]+" "+c.Detail
		}, callCauses, causeCertificate},
		{unservedCertificate, whole, nil, "unserved-certificate"},
		{regexp.MustCompile(`the cert-manager webhook (?:service is not created|deployment is not ready|CA bundle is not injected) yet`), whole, checkedCauses, "ca-not-injected"},
		{regexp.MustCompile(`unable to fetch associated (?:secret|certificate)\b|unable to fetch certificate that owns the secret|refusing to inject CA|could not find any ca data in data source for target`), whole, nil, "ca-not-injected"},
		{regexp.MustCompile(`CRD with webhook conversion strategy without having a TLS bundle|waiting for package runtime controller to set |cannot get webhook tls secret`), whole, nil, "crossplane-certificate"},
		{regexp.MustCompile(`cannot establish control of object: (?:Object )?(\S+) is (?:already|not) controlled by `), ofCRD, nil, "two-packages"},
		{regexp.MustCompile(`(?:http: )?TLS handshake error from \S+: `), whole, handshakeCauses, "handshake-closed"},
		{regexp.MustCompile(`\b(?:The )?CustomResourceDefinition(?:\.\w+\.k8s\.io)? "([^"]+)" is invalid: [^"]*status\.storedVersions`), ofCRD, nil, "stored-version"},
		{regexp.MustCompile(`CustomResourceDefinition (\S+) failed upgrade safety validation.*?stored version "[^"]+" removed`), ofCRD, nil, "stored-version"},
		{regexp.MustCompile(`(?i:risk of data loss updating) "?([a-z0-9.-]+)"?: new CRD removes version`), ofCRD, nil, "stored-version"},
		{regexp.MustCompile(`request to convert CR (?:from|to) an invalid group/version: (\S+)`), unreadable, nil, "stored-version"},
		{regexp.MustCompile(`error validating existing CRs against new CRD's schema for "([^"]+)": error validating `), ofCRD, nil, "stricter-schema"},
		{regexp.MustCompile(`(?i:webhook rules cannot include) (?:all groups|the OLM group|\w+WebhookConfiguration)`), whole, nil, "olm-rules"},
		{regexp.MustCompile(`unable to manager? conversion webhook:|csv \S+ does not own CRD |unable to get CRD \S+ specified in Conversion Webhook|crd\.Spec\.PreserveUnknownFields must be false`), whole, nil, "olm-conversion"},
		{regexp.MustCompile(`(?i)\b(?:InterOperatorGroup)?OwnerConflict\b|owner conflict: |conflicting CRD owner in namespace|intersecting operatorgroups provide the same apis|unable to adopt APIService`), whole, nil, "olm-owner-conflict"},
		{regexp.MustCompile(`unsupported bundle: \w+ are not supported|\bwebhookDefinitions are not supported`), whole, nil, "olm-unsupported"},
		{regexp.MustCompile(`(?i:field ?ref)"?: ?"?spec\.[\w.\[\]]+"?,? ?"?(?i:warning)"?: |[^ ,]+, Kind=\w+: ERROR: <input>:\d+:\d+: `), whole, nil, "type-warning"},
		{regexp.MustCompile(`conversionWebhook not ready`), whole, nil, "olm-conversion-lost"},
		{regexp.MustCompile(`Apply failed with \d+ conflicts?:.*?` + webhookField), conflicting, conflictCauses, "apply-conflict"},
		{regexp.MustCompile(`Apply failed with \d+ conflicts?:.*?\.spec\.conversion`), whole, conflictCauses, "apply-conflict"},
		{regexp.MustCompile(`admission webhook "([^"]+)" does not support dry run`), named, nil, "dry-run"},
		{regexp.MustCompile(`admission webhook "([^"]+)" attempted to modify the object`), named, nil, "patch"},
		{regexp.MustCompile(`(?:Validating|Mutating)AdmissionWebhook/(\S+) has panicked:?`), named, nil, "api-server"},
		{regexp.MustCompile(`conversion webhook for ([^ ,/]*)/([^ ,/]+), Kind=([^ ,:]+) failed[:,]?`), converting, callCauses, causeConversionRefused},
		{regexp.MustCompile(`conversion (?:webhook )?for ([^ ,/]*)/([^ ,/]+), Kind=([^ ,:]+) returned`), converting, nil, "invalid-answer"},
		{regexp.MustCompile(`expression '(.+?)' resulted in error:`), failing, nil, "match-condition"},
		{regexp.MustCompile(`conversion webhook for &\{map\[apiVersion:([^ /\]]+)/([^ \]]+) .*?kind:(\w+).* failed[:,]?`), converting, callCauses, causeConversionRefused},
		{regexp.MustCompile(`request did not complete within (?:(?:requested|the allotted) timeout|allowed duration)`), nothing, nil, "request-timeout"},
		{regexp.MustCompile(`(?:^(?:Error from server(?: \(InternalError\))?: )?(?:error when \w+ \S+: )?|Internal error occurred: )(?:jsonpatch )?(?:(?:add|remove|replace|move|copy|test) operation |operation,? missing |error in (?:add|remove|replace|move|copy|test) for |testing value \S+ failed|Unexpected kind: |strict decoding error: |json: cannot unmarshal |illegal base64 data |no kind "\w+" is registered for version )`), whole, nil, "patch-failed"},
	}...)
}()

// unnamed are what is read where no pattern is found: an error that was cut before the name,
// and what a client sees of a panic.
var unnamed = seek([]errorPattern{
	{regexp.MustCompile(`Post "?https://[^\s"?]+\?timeout=\d+m?s"?: `), func(c *APIServerError, groups []string) {
		c.URL, c.Detail = calledURL(groups[0]), groups[0]+c.Detail
	}, callCauses, causeOther},
	{regexp.MustCompile(`(?i:failed to (?:update|renew) (?:the )?(?:lock|(?:node )?lease))\b.*?(?:Client\.Timeout exceeded|context deadline exceeded|timed out waiting for the condition)`), func(c *APIServerError, groups []string) { c.Detail = groups[0] + " " + c.Detail }, nil, "lease-timeout"},
	{regexp.MustCompile(`PostStartHook "[^"]+" failed:`), func(c *APIServerError, groups []string) { c.Detail = groups[0] + " " + c.Detail }, nil, "start-hook"},
	{regexp.MustCompile(`stream error: stream ID \d+; INTERNAL_ERROR; received from peer`), func(c *APIServerError, groups []string) { c.Detail = groups[0] }, nil, causePanic},
}...)

// Parse returns the errors in a text that name a webhook or policy, each once with its
// Count, in the order of the text.
func Parse(content string) []APIServerError {
	content = unstamped(content)
	if len(content) > maxShown {
		return readErrors(content)
	}
	joined, isCertain := rejoined(content)
	readings := []string{content, joined}
	if isCertain {
		readings = []string{joined, content}
	}
	out := readErrors(readings[0])
	if joined != content && !isClear(out) {
		if other := readErrors(readings[1]); len(out) == 0 || isClear(other) {
			return other
		}
	}
	return out
}

// isClear reports whether no word of the errors seems to be broken.
func isClear(errors []APIServerError) bool {
	return len(errors) > 0 && !slices.ContainsFunc(errors, func(c APIServerError) bool {
		return c.Cause == causeOther || c.Cause == causeCertificate || c.Cause == causeConversionRefused ||
			strings.Contains(strings.ReplaceAll(c.Webhook, ", ", "")+c.Policy.Name+c.Binding, " ")
	})
}

func readErrors(content string) []APIServerError {
	var out []APIServerError
	for _, m := range messages(message{content, 1}, 0) {
		for _, c := range parsed(unwrapped(m.text)) {
			c.Count = m.times
			if i := slices.IndexFunc(out, c.same); i >= 0 {
				out[i].Count += c.Count
				out[i].WentOn = out[i].WentOn || c.WentOn
			} else if len(out) < MaxErrors {
				out = append(out, c)
			}
		}
	}
	return out
}

// afterMutation is of what the API server looks at once mutating webhooks have changed it.
const afterMutation = ". What mutating webhooks add counts: webhook-auditor explain create pods"

// otherRefusals are the texts in which other parts of the API server refuse a request, or other
// webhooks than those of admission fail.
var otherRefusals = []struct {
	*regexp.Regexp
	says string
}{
	{regexp.MustCompile(`[Ff]ailed to make webhook auth\w+ request`), "the check who asks, or what they may do, failed (TokenReview, SubjectAccessReview); no admission webhook did"},
	{regexp.MustCompile(`audit plugin 'webhook'|audit webhook`), "the API server could not send its audit events (--audit-webhook-config-file); no admission webhook failed"},
	{regexp.MustCompile(`rejected by webhook backend|ImagePolicyWebhook`), "the built-in plugin ImagePolicyWebhook refused the request. Its backend is in the API server's own configuration, in no webhook configuration"},
	{regexp.MustCompile(`unable to return a response in the time allotted`), "the request got no answer in time, and no webhook is named. Those that hang do that: webhook-auditor explain OPERATION RESOURCE"},
	{regexp.MustCompile(`\((?:get|post|put|patch|delete) [\w-]+(?:\.[\w-]+)+\)|list of server APIs: |get resource list for |available_controller|failing or missing response from`), "the API server does not serve this API, or what serves it for it does not answer; no webhook is named: kubectl get apiservices"},
	{ownPatch, "the client's own patch does not fit the object; no webhook refused the request"},
	{regexp.MustCompile(`dummy invalid config not rejected`), "this is istiod's own log: the API server does not call its validating webhook, or cannot. Until it does, failurePolicy stays Ignore: webhook-auditor audit --probe=tls"},
	{regexp.MustCompile(`webhooks\[\d+\]\.[\w.\[\]]+: (?:Invalid|Required|Unsupported|Duplicate) value`), "the API server does not accept a webhook configuration, for the fields in the text. Before the next apply: webhook-auditor audit PATH"},
	{regexp.MustCompile(`broken webhook application|K8S_ADMISSION_WEBHOOK_`), "the provider found a webhook that fails or is unsafe, and does not name it here: webhook-auditor audit"},
	{regexp.MustCompile(`degraded_webhook\.go`), "OpenShift's operator could not dial a webhook that it checks, from its own Pod; no request failed by that"},
	{regexp.MustCompile(`violate the pod's disruption budget|blocked by pdb`), "a PodDisruptionBudget refused the eviction, no webhook did"},
	{regexp.MustCompile(`the object has been modified; please apply`), "another writer changed the object in between: try again; no webhook refused it"},
	{regexp.MustCompile(`violates PodSecurity`), "Pod Security admission refused the request, no webhook did" + afterMutation},
	{regexp.MustCompile(`exceeded quota|failed quota|must specify \S+ for`), "a ResourceQuota refused the request, no webhook did" + afterMutation},
	{regexp.MustCompile(`(?:maximum|minimum) \S+ usage per|limit to request ratio per`), "a LimitRange refused the request, no webhook did" + afterMutation},
	{regexp.MustCompile(`is forbidden: User "`), "RBAC refused the request, no webhook did"},
	{regexp.MustCompile(`is forbidden\b|\(Forbidden\)`), "RBAC or a built-in admission plugin refused the request, no webhook did"},
	{regexp.MustCompile(`\bis invalid: `), "validation refused the object: the API server's own, of what mutating webhooks made of it, or a webhook's, which kubectl does not name where its reason is Invalid: webhook-auditor explain OPERATION RESOURCE"},
}

// unservedCertificate is in logs of a webhook's software, and events of its Pods, without the
// certificate that it is to serve. Source: sigs.k8s.io/controller-runtime,
// github.com/open-policy-agent/cert-controller, knative.dev/pkg, the kubelet.
var unservedCertificate = regexp.MustCompile(`open \S*(?:webhook|serving-certs)\S*\.(?:crt|pem|key): no such file or directory|` +
	`kubebuilder\.webhook.{0,99}open \S+: no such file or directory|` +
	`MountVolume\.SetUp failed for volume [^:]*: \w+ \S*(?:webhook[\w.-]*(?:cert|tls)|(?:cert|tls)[\w.-]*webhook)\S* not (?:found|registered)|` +
	`not well-formed, cannot update webhook configurations|could not refresh CA and server certs|` +
	`secret "[\w.-]+" is missing "(?:server|ca)-(?:cert|key)\.pem" key`)

// ownPatch is in errors of a patch of the client's own. Webhooks are called for no webhook
// configuration, so theirs do not patch one.
var ownPatch = regexp.MustCompile(`The request is invalid: (?:the server rejected our request|patch: Invalid value: )|^[^"]*operation does not apply: doc is missing \w+: "?/webhooks/\d+/clientConfig`)

// namesWebhook is in errors in which a webhook or policy has part, whatever else is called so.
var namesWebhook = regexp.MustCompile(`(?:admission|calling|conversion) webhook (?:"|for )|denied (?:the )?request|resulted in error`)

// NotRecognized begins the answer to a text of which nothing is known.
const NotRecognized = "no webhook error recognized"

// Unrecognized says what is known of a text in which Parse finds nothing: at most
// the words of a cause, which requests fail of that call no webhook as well. Of a log, that is
// its beginning.
func Unrecognized(message string) string {
	message = unwrapped(message[:min(len(message), maxShown)])
	for _, r := range otherRefusals {
		if r.MatchString(message) && !namesWebhook.MatchString(message) {
			return r.says
		}
	}
	for _, cause := range callCauses {
		if words := cause.FindString(message); words != "" {
			return fmt.Sprintf("%s, only %q, which names no webhook (where one is called: %s)", NotRecognized, text.Shorten(words, maxDetail), cause.Cause)
		}
	}
	return NotRecognized
}

// same reports whether two parsed differ in their words alone.
func (c APIServerError) same(o APIServerError) bool {
	c.Detail, o.Detail, c.Count, o.Count, c.WentOn, o.WentOn = "", "", 0, 0, false, false
	return c == o
}

// parsed reads one record: each error ends where the next one begins. A log has the words
// of one error twice, where it shows what wraps what.
func parsed(content string) []APIServerError {
	lower := strings.ToLower(content)
	if out := parsedBy(patterns, content, lower); len(out) > 0 {
		return out
	}
	return parsedBy(unnamed, content, lower)
}

func parsedBy(patterns []sought, content, lower string) []APIServerError {
	type match struct {
		errorPattern
		begin, end int
	}
	var matches []match
	for _, s := range patterns {
		if !s.needed.areIn(lower) {
			continue
		}
		for _, position := range s.FindAllStringIndex(content, -1) {
			matches = append(matches, match{s.errorPattern, position[0], position[1]})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(a.begin, b.begin) })
	end, quoting := 0, false
	matches = slices.DeleteFunc(matches, func(m match) bool { // an expression, or an error of a webhook that the message of a denial quotes
		denies := m.fallback == causePolicyDenied || m.fallback == causePolicyWarned || m.fallback == causeDenied
		isQuoted := m.begin < end || quoting && !denies
		end, quoting = max(end, m.end), quoting || denies
		return isQuoted
	})
	var out []APIServerError
	for i, m := range matches {
		end := len(content)
		if i+1 < len(matches) {
			end = max(m.end, matches[i+1].begin)
		}
		c := m.parse(content[m.begin:m.end], content[m.end:end])
		before := content[max(0, m.begin-maxWrapped):m.begin]
		c.setting = settingOf(before + content[end:min(len(content), end+maxWrapped)])
		switch framed := frameOf(before); {
		case framed.Cause == causeFailingOpen:
			c.WentOn = true
		case framed.Cause != "" && (c.Cause == causeDenied || c.Cause == causePolicyDenied):
			c.Cause = framed.Cause
		}
		if c.Cause != "" && !slices.ContainsFunc(out, c.same) {
			out = append(out, c)
		}
	}
	return out
}

// registeredKind is a kind that registers webhooks or is of policies.
const registeredKind = `((?:Validating|Mutating)(?:WebhookConfiguration|AdmissionPolicy(?:Binding)?)|CustomResourceDefinition)`

// registeredVersion is a group of such a kind, with a version.
const registeredVersion = `((?:admissionregistration|apiextensions)\.k8s\.io/v\w+)`

// webhookField is the path of a field of a webhook, as server-side apply writes it.
const webhookField = `\.webhooks\[name="([^"]+)"\]`

// fieldsInConflict are those of an apply that ended in a conflict.
var fieldsInConflict = regexp.MustCompile(`\B` + webhookField)

// names are those of the webhooks.
func (c APIServerError) names() []string { return strings.Split(c.Webhook, ", ") }

// shows reports whether a name in a text, which a page or a chat may have cut, is that of an object.
func shows(inText, name string) bool {
	before, after, isCut := strings.Cut(strings.ReplaceAll(inText, "...", "…"), "…")
	return inText == name || isCut && before+after != "" && len(name) >= len(before+after) &&
		strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// trace is how an API server logs a slow call: its configuration, group, resource,
// subresource, operation and duration.
var trace = regexp.MustCompile(`configuration:([^,]*),webhook:[^, ]+,resource:([^,/]*)/[^,]*, Resource=([\w.-]+)(?:,subresource:([\w-]*),operation:(\w*))?.*?(?:total time: | )([\d.]+m?s)\b`)

// tracedCall is a slow call in words, as "CREATE jobs.batch: 4.7 s, configuration c".
func tracedCall(m []string) string {
	what := strings.TrimSpace(m[5] + " " + inventory.Resource{Group: m[2], Name: m[3], Subresource: m[4]}.String())
	took, err := time.ParseDuration(m[6])
	if err != nil {
		return what + ", configuration " + m[1]
	}
	return fmt.Sprintf("%s: %.1f s, configuration %s", what, took.Seconds(), m[1])
}

// after is what klog and clients of other languages print of a Status after its message, what
// Terraform adds, and the next Pod of a drain.
var after = regexp.MustCompile(`(?:",? Reason:"[^"]*", Details:|",? ?"(?:reason|code|details|metadata|field)":| \(ErrorResponse \{|\. Received status: Status\(` +
	`| with [a-z]\w+\.[^ ]+, on \S+ line \d|[,;] (?:error when evicting|cannot evict) pod` +
	`| && cannot (?:create|patch) "|\. Retrying attempt #\d| \(retried \d+ times\)).*$`)

// quotings are quotes and links that chats, tables, YAML and browsers make of an API
// server's, and what that printed.
var quotings = []struct {
	*regexp.Regexp
	printed string
}{
	{regexp.MustCompile(`\[([^\]\s]+)\]\(https?://[^)\s]*\)`), "$1"},
	{regexp.MustCompile(`""([^\s"][^"]*)""`), `"$1"`},
	{regexp.MustCompile(`''([^\s'][^']*)''`), `'$1'`},
	{regexp.MustCompile("(webhook) [\"'`]{0,2} ?([\\w-]+\\.[\\w.-]*\\w) ?[\"'`]{0,2}(:|;| denied| does not| attempted)"), `$1 "$2"$3`},
	{regexp.MustCompile("(services?) [\"'`]?([\\w.-]*\\w)[\"'`]?( not found|$)"), `$1 "$2"$3`},
	{regexp.MustCompile("(endpoints) [\"'`]?([\\w.-]*\\w)[\"'`]?( not found)"), `$1 "$2"$3`},
}

// escapedCharacter is one as JSON has it for browsers, or a URL.
var escapedCharacter = regexp.MustCompile(`(?:\\u00|%)[2-7][0-9a-fA-F]`)

// unwrapped undoes what carries errors about: quotes in quotes of logs, lines
// that a terminal broke, quotes that a chat made pretty.
func unwrapped(content string) string {
	for strings.Contains(content, `\\`) {
		content = strings.ReplaceAll(content, `\\`, `\`)
	}
	if strings.Contains(content, "%22") && !strings.Contains(content, " ") { // of a query
		content = strings.ReplaceAll(content, "+", " ")
	}
	content = escapedCharacter.ReplaceAllStringFunc(content, func(s string) string {
		n, _ := strconv.ParseUint(s[len(s)-2:], 16, 8)
		return string(rune(n))
	})
	content = strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\n`, " ", `\t`, " ", "“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`, "‹", `"`, "›", `"`, "「", `"`, "」", `"`, "『", `"`, "』", `"`, "‘", `'`, "’", `'`).
		Replace(html.UnescapeString(html.UnescapeString(content)))
	content = strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Cf, r):
			return -1
		case unicode.IsSpace(r) || !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, content)
	content = strings.Join(strings.Fields(content), " ")
	for _, q := range quotings {
		content = q.ReplaceAllString(content, q.printed)
	}
	return content
}

// parse reads one match: what the errorPattern covers, and what follows.
func (s errorPattern) parse(match, rest string) APIServerError {
	rest = strings.TrimSpace(rest)
	c := APIServerError{Cause: s.fallback, URL: calledURL(rest), Detail: rest, Count: 1}
	s.read(&c, s.FindStringSubmatch(match))
	c.Cause = causeIn(s.causes, c.Detail, c.Cause)
	isOpen := slices.Contains([]Cause{s.fallback, causeCertificate, causeTLS}, c.Cause)
	if whole := completed(rest); isOpen && whole != rest {
		c.Cause = causeIn(s.causes, whole, c.Cause)
	}
	switch {
	case c.Cause == causeName && otherServer(rest):
		c.Cause = causeOtherServer
	case c.Kind != "" && (ownCall.MatchString(rest) || strings.Contains(rest, `no kind "`+c.Kind+`"`)): // of the backend
		c.Cause = s.fallback
	case c.Cause == causeConversionRefused && strings.HasPrefix(rest, "Post "): // no answer has the URL
		c.Cause = causeOther
	}
	c.Detail = text.Shorten(unquoted(strings.TrimLeft(after.ReplaceAllString(c.Detail, ""), ",")), maxDetail)
	return c
}

// causeIn is the first of the causes that the text shows.
func causeIn(causes []cause, words string, fallback Cause) Cause {
	if i := slices.IndexFunc(causes, func(c cause) bool { return c.MatchString(words) }); i >= 0 {
		return causes[i].Cause
	}
	return fallback
}

// cutWords are the ends of errors that Events and pages cut off.
var cutWords = []string{
	"certificate has expired", "certificate is valid for", "certificate signed by unknown authority", "connection refused",
	"connection reset by peer", "context deadline exceeded", "i/o timeout", "no endpoints available for service", "no route to host",
	"no such host", "TLS handshake timeout", `service "s" not found`,
}

// completed is the text with the words that were cut off at its end: where they are certain, and
// more than the first of them is left, which errors that are whole end with, too.
func completed(s string) string {
	const least = 6 // letters that stay
	cut := strings.TrimRight(s, `.…"' `)
	var wholes []string
	for _, words := range cutWords {
		for n := len(words) - 1; n >= max(least, strings.Index(words, " ")+2); n-- {
			if begin, ends := strings.CutSuffix(cut, words[:n]); ends {
				wholes = append(wholes, begin+words)
				break
			}
		}
	}
	if len(wholes) != 1 {
		return s
	}
	return wholes[0]
}

// unquoted is the text without a quote that ends the text around it.
func unquoted(s string) string {
	for _, quote := range []string{`"`, `'`} {
		if strings.Count(s, quote)%2 != 0 {
			s = strings.TrimSuffix(s, quote)
		}
	}
	return s
}

// ownCall is in errors of a backend's own calls to the API server.
var ownCall = regexp.MustCompile(`\b(?:Get|Put|Patch|Delete) "?https?://`)

var posted = regexp.MustCompile(`Post "?(https?://[^\s"?]+)`)

// calledURL is what the API server called, without the query.
func calledURL(rest string) string {
	m := posted.FindStringSubmatch(rest)
	if m == nil {
		return ""
	}
	return strings.TrimRight(m[1], ":")
}

// service returns the Service of a URL that was called, "" for another host.
func (c APIServerError) service() (namespace, name string, port int32) {
	m := regexp.MustCompile(`^https://([^./]+)\.([^./]+)\.svc(?::(\d+))?(?:/|$)`).FindStringSubmatch(c.URL)
	if m == nil {
		return "", "", 0
	}
	number, err := strconv.ParseInt(cmp.Or(m[3], "443"), 10, 32)
	if err != nil {
		return "", "", 0
	}
	return m[2], m[1], int32(number)
}
