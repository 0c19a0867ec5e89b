package diagnose

import (
	"net"
	"regexp"
	"strings"
)

// Cause is why an API server complained of a webhook.
type Cause string

// The causes that more than the tables here know. Those of the backend have the names of
// the checks that look for them.
const (
	causeNoEndpoints      Cause = "no-ready-endpoints"
	causeName             Cause = "certificate-name"
	causeCertificate      Cause = "certificate-invalid"
	causeTLS              Cause = "tls"
	causeRefused          Cause = "connection-refused"
	causeServerError      Cause = "server-error"
	causeDenied           Cause = "denied"
	causeOther            Cause = "other"
	causePolicyDenied     Cause = "policy-denied"
	causePolicyWarned     Cause = "policy-warned"
	causePolicyExpression Cause = "policy-expression"
	// The same where the binding does not deny: the request went on.
	causePolicyExpressionWarned Cause = "policy-expression-warned"
	causeOtherServer            Cause = "other-server"
	causeMirrorPod              Cause = "mirror-pod-denied"
	causeEvictionDenied         Cause = "eviction-denied"
	causeTwoOwners              Cause = "two-owners"
	causeNotServed              Cause = "version-not-served"
	causePanic                  Cause = "api-server-panic"
	causeConversionRefused      Cause = "conversion-refused"
	// causeUnserved is of a CRD of which nothing is served.
	causeUnserved Cause = "crd-unserved"
	// causeFailingOpen is of the words around an error, and none of its own.
	causeFailingOpen Cause = "failing-open"
)

// cause is how the API server's error shows a Cause.
type cause struct {
	*regexp.Regexp
	Cause
}

// callCauses are the causes of a call that failed, the most specific first: an
// error names several.
var callCauses = func() []cause {
	var out []cause
	for _, c := range []struct {
		expression string
		cause      Cause
	}{
		{`services? "[^"]+" not found`, "service-missing"},
		{`no service port \S+ found for service`, "service-port-missing"},
		// Until 1.33 API servers with --enable-aggregator-routing look for an Endpoints
		// object (k8s.io/apiserver pkg/util/proxy), which may be missing where slices are not.
		{`no endpoints available for service|endpoints "[^"]+" not found`, causeNoEndpoints},
		{`cannot route to service with ClusterIP|unsupported service type`, "service-unroutable"},
		{`unable to load root certificates|unable to parse bytes as PEM block`, "ca-bundle-invalid"},
		// k8s.io/apiserver pkg/server/egressselector and konnectivity-client pkg/client.
		{`(?i)proxy error from \S+ while dialing|from CONNECT to \S+ via proxy|no agent available|no backend available|konnectivity|tunnel-uds|dial timeout, (?:backstop|context)|\bdial closed|tunnel (?:is )?closed|error dialing backend|SSH tunnel not found|rpc error: `, "tunnel"},
		// What net/http makes of a proxy that refuses CONNECT: the reason phrase alone.
		{`proxyconnect |socks connect |Proxy Authentication Required|Post "?https?://\S+: (?:Bad Gateway|No such domain|Service Unavailable|Forbidden|Gateway Time-?[Oo]ut|Method Not Allowed|Not Found|Bad Request|Internal Server Error|Access Denied)`, "proxy"},
		{`upstream connect error or disconnect/reset|no healthy upstream|upstream request timeout|delayed connect error|RBAC: access denied|fault filter abort`, "envoy"},
		{`(?i)<html|<!doctype|invalid character '<'`, "html-page"},
		// What follows is of the way to the backend. Within an answer of it, it is of its own calls.
		{`an error on the server \("404 page`, "not-found"},
		{`an error on the server \("`, causeServerError},
		{`insecure algorithm|an insecure SHA-1 signature|certificate containing RSA key`, causeCertificate},
		{`signed by unknown authority|certificate is not trusted`, "unknown-authority"},
		{`certificate has expired|certificate is not yet valid|is not yet valid|certificate is expired`, "certificate-expired"},
		{`incompatible key usage`, "key-usage"},
		{`negative serial number`, "serial-number"},
		{`not valid for any names`, "mesh"},
		{`certificate is valid for|doesn't contain any IP SANs|relies on (?:a )?legacy Common Name|cannot validate certificate for`, causeName},
		{`HTTP response to HTTPS client|does not look like a TLS handshake`, "no-tls"},
		{`TLS handshake timeout`, "connect-timeout"},
		{`remote error: tls: (?:unrecognized name|internal error)`, "no-certificate"},
		{`x509: `, causeCertificate},
		{`remote error: tls|tls: `, causeTLS},
		{`no such host|server misbehaving|\blookup \S+(?: on \S+)?: |Temporary failure in name resolution`, "dns"},
		{`[Cc]onnection refused|actively refused`, causeRefused},
		{`Address is not allowed`, "overlay-network"},
		{`no route to host|network is unreachable|host is unreachable|host is down`, "no-route"},
		{`dial tcp(?:: | [^ ]+ )(?:connect: )?(?:i/o timeout|operation timed out|connection timed out)|(?:connect: (?:connection|operation)|\([Cc]onnection) timed out|while waiting for connection|connect: (?:operation not permitted|permission denied)|connectex: `, "connect-timeout"},
		{`cannot assign requested address|too many open files`, "api-server"},
		{`context deadline exceeded|Client\.Timeout|request canceled|timeout awaiting response headers|i/o timeout|unable to return a response in the time allotted|Gateway Timeout`, "timeout"},
		{`context canceled|operation was canceled`, "client-gone"},
		{`invalid webhook response|expected webhook response of|expected response\.uid|response was absent|undecodable patch|response\.patchType|unsupported patch type|couldn't get version/kind|invalid character|no response provided|no objects returned|unrecognized response type|unexpected type|0-length response|converting \(\S+\) to \(v\w+\.(?:Admission|Conversion)Review\)|no kind "\w+" is registered for version|Go struct field (?:Admission|Conversion)|stopped after \d+ redirects|malformed HTTP (?:response|status|version)|illegal base64 data|readObjectStart|'Kind' is missing`, "invalid-answer"},
		{`SideEffects is nil|must have either service or URL|Unparsable URL|could not get REST client|does not accept known AdmissionReview versions|no supported conversion review versions`, "invalid-registration"},
		{`could not find the requested resource|404 page not found|does not allow this method`, "not-found"},
		{`asked for the client to provide credentials|Unauthorized|[Ff]orbidden`, "unauthorized"},
		{`[Ee]ntity [Tt]oo [Ll]arge|request is too large|status code 413`, "too-large"},
		{`connection reset by peer|(?:read|write): connection timed out|EOF|broken pipe|http2: |stream error: |transport connection broken|use of closed network connection|forcibly closed|server closed idle`, "cut-off"},
		{`server rejected our request`, "bad-request"},
		{`an error on the server|Internal Server Error|currently unable to handle the request|Service Unavailable|Bad Gateway|too many requests|responded with the status code|server reported a conflict|^failed to call webhook:$|unknown format|content type that the client supports`, causeServerError},
		// The reason phrase of a proxy is its own.
		{`Post "?https?://\S+: (?:unknown status code|[A-Z][a-z]+(?: [A-Za-z]+){0,4})[.'")]*$`, "proxy"},
	} {
		out = append(out, cause{regexp.MustCompile(c.expression), c.cause})
	}
	return out
}()

// deniedCauses are denials that are none of a policy's: of Google's own webhooks
// (they are in no configuration).
var deniedCauses = []cause{
	{regexp.MustCompile(`pairs are not allowed in webhook rules`), "gke-rules"},
	{regexp.MustCompile(`GKE (?:Warden|Policy Controller)|[Aa]utogke|GKE Autopilot`), "gke-autopilot"},
}

// refusedCauses are why the API server refuses a registration. Source:
// k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation,
// k8s.io/kubernetes pkg/apis/admissionregistration/validation.
var refusedCauses = []cause{
	{regexp.MustCompile(`(?i)caBundle: Invalid value`), "refused-ca-bundle"},
	{regexp.MustCompile(`spec\.preserveUnknownFields`), "preserved-fields"},
	{regexp.MustCompile(`conversion\.(?:strategy: Required|\w+: Forbidden)|exactly one of url or service`), "half-merged"},
	{regexp.MustCompile(`unexpected failed resolution of 'kubernetes\.variables'`), "refused-at-first"},
	{regexp.MustCompile(`compilation failed|ERROR: <input>|must evaluate to `), "refused-expression"},
}

// ownerCauses are why Helm does not take an object of another owner. Source: helm.sh/helm
// pkg/action/validate.go.
var ownerCauses = []cause{
	{regexp.MustCompile(`must equal "`), causeTwoOwners},
	{regexp.MustCompile(`missing key "`), "unowned-object"},
}

// handshakeCauses are what a webhook's own log has on the TLS of its callers. Source:
// crypto/tls, net/http.
var handshakeCauses = []cause{
	{regexp.MustCompile(`local error: tls: bad record MAC|remote error: tls: (?:bad certificate|unknown certificate|expired certificate|unsupported certificate)`), "certificate-refused"},
	{regexp.MustCompile(`(?i)no certificates? (?:available|configured|found)|no such file|not found|PEM`), "no-certificate"},
	{regexp.MustCompile(`client didn't provide a certificate|failed to verify certificate|unsupported versions|no cipher suite|protocol version`), causeTLS},
}

// checkedCauses are what cmctl check api finds. Source: cert-manager/cmctl, pkg/util/cmapichecker.
var checkedCauses = []cause{
	{regexp.MustCompile(`service is not`), "service-missing"},
	{regexp.MustCompile(`deployment is not`), causeNoEndpoints},
}

// linkerdCauses are what linkerd check finds wrong with the certificate of a webhook.
var linkerdCauses = append([]cause{
	{regexp.MustCompile(`secrets? "[^"]+" not found|needs to exist in secret`), "no-certificate"},
	{regexp.MustCompile(`expected \d+ webhooks|Failed to find any PEM|no PEM`), "ca-bundle-invalid"},
}, callCauses...)

// conflictCauses are the fields, and their owners, on which a server-side apply ends in a
// conflict.
var conflictCauses = []cause{
	{regexp.MustCompile(`"admissionsenforcer"`), "aks-enforcer"},
	{regexp.MustCompile(`caBundle`), "ca-bundle-conflict"},
}

// certifiedNames are the names of a certificate, and the host that was called.
var certifiedNames = regexp.MustCompile(`certificate is valid for (.+?), not ([\w*-]+(?:\.[\w*-]+)*)`)

// otherServer reports whether no name in the certificate is one that the backend would
// have: a kubelet's, an ingress's, the API server's or that of another Service's.
func otherServer(detail string) bool {
	m := certifiedNames.FindStringSubmatch(detail)
	if m == nil {
		return false
	}
	own := false
	for name := range strings.SplitSeq(strings.ReplaceAll(m[1], ".cluster.local", ""), ", ") {
		named := isOwnName(name, m[2])
		if !named && strings.HasSuffix(name, ".svc") {
			return true
		}
		own = own || named
	}
	return !own
}

// isOwnName reports whether a backend that is called by the host may have a certificate for
// the name: one by hand, of a Service that was renamed or moved, of the same domain.
func isOwnName(name, host string) bool {
	service, isService := strings.CutSuffix(host, ".svc")
	first, rest, hasDots := strings.Cut(service, ".")
	labels := strings.Split(strings.TrimSuffix(name, ".svc"), ".")
	switch {
	case name == "localhost", net.ParseIP(name) != nil && net.ParseIP(host) != nil:
		return true
	case !isService: // a URL: the domain above the host
		return hasDots && strings.Contains(rest, ".") && strings.HasSuffix(name, "."+rest)
	case len(labels) == 1:
		return strings.Contains(name, first) || strings.Contains(name, "webhook")
	}
	return labels[0] == first || labels[len(labels)-1] == rest
}

// framed are causes of a denial that the words of the client around it show.
var framed = []cause{
	{regexp.MustCompile(`failing open`), causeFailingOpen},
	{regexp.MustCompile(`(?i)failed (?:creating|deleting) a mirror pod`), causeMirrorPod},
	{regexp.MustCompile(`(?i)\b(?:evict(?:ing)? (?:the )?pods?|eviction (?:of|for) (?:the )?pods?|pods? evictions?)\b`), causeEvictionDenied},
}

// frameOf is that of the words before an error, without a Cause where they show none.
func frameOf(before string) cause {
	for _, f := range framed {
		if f.MatchString(before) {
			return f
		}
	}
	return cause{}
}

// setting is what the words around an error say of who makes the request.
type setting struct {
	*regexp.Regexp
	// Note is a whole sentence, Fix the way out in this setting, of a CRD Conversion; "" where
	// that of the Cause is. Causes are those with the Fix, all where there are none.
	Note, Fix, Conversion string
	Causes                []Cause
}

// settings are those that make another way out of a dead webhook. Source: pkg/controller/namespace
// of kubernetes, pkg/controller/operators/catalog of OLM, start hooks of k8s.io/apiserver, pkg/restore of
// Velero, pkg/operator/webhooksupportabilitycontroller of OpenShift's cluster-kube-apiserver-operator.
var settings = []setting{
	{
		Regexp:     regexp.MustCompile(`NamespaceDeletionContentFailure|Failed to delete all resource types|[Dd]eletion of namespace \S+ failed`),
		Note:       "The deletion of a namespace waits for it.",
		Fix:        "keep a copy of the configuration that names the Service, then delete that: a namespace that is being deleted takes no new backend",
		Conversion: "where the versions differ in name only, keep a copy of the CRD, then set its spec.conversion.strategy to None. Else bring its Service back, in a namespace that stays: one that is being deleted takes no new backend. Never delete the CRD: all its objects go with it",
		Causes:     []Cause{"service-missing", causeNoEndpoints},
	},
	{
		Regexp: regexp.MustCompile(`(?i)\bPostStartHook\b|\b(?:client_ca_hook|storage_rbac|storage_scheduling)\.go\b`),
		Note:   "The API server makes this request as it starts, and ends where it does not succeed.",
		Fix:    "keep a copy of the configuration that names the webhook, then delete that: an API server takes requests before it is ready. Have the webhook leave out what API servers write: webhook-auditor explain control-plane-path",
	},
	{
		Regexp: regexp.MustCompile(`(?i)\b(?:clear|remov|delet|updat|patch|strip|drop)\w* (?:the )?(?:[\w./-]+ )?finalizers?\b`),
		Note:   "The object is being deleted: to take a finalizer off is an update, which the webhook checks as any other.",
		Fix:    "give the object what the words after the colon ask for. Or have the webhook leave out objects that are being deleted, by a matchCondition: object == null || !has(object.metadata.deletionTimestamp)",
		Causes: []Cause{causeDenied},
	},
	{
		Regexp: regexp.MustCompile(`\berror restoring \S+: `),
		Note:   "Velero waits for no Pod before it restores the objects that webhooks are called for.",
		Fix:    "restore again once the Pods behind the webhook are ready: what is there already stays as it is. Or leave the registrations out of the first restore: --exclude-resources validatingwebhookconfigurations,mutatingwebhookconfigurations",
		Causes: []Cause{"service-missing", causeNoEndpoints, causeRefused},
	},
	{
		Regexp: regexp.MustCompile(`\bdegraded_webhook\.go`),
		Note:   "OpenShift's operator made this call, from its own Pod and with the caBundle of the registration: no request failed by it.",
	},
	{
		Regexp:     regexp.MustCompile(`existing CRs against new CRD's schema`),
		Note:       "The Operator Lifecycle Manager installs nothing as long as it cannot list the objects of the CRD.",
		Conversion: "where the versions differ in name only, keep a copy of the CRD, then set its spec.conversion.strategy to None, and delete the failed InstallPlan, so that it is made anew. Else bring its Service back first. Never delete the CRD: all its objects go with it",
		Causes:     []Cause{"service-missing", causeNoEndpoints},
	},
}

// settingOf is that of the words around an error, nil where they show none.
func settingOf(around string) *setting {
	for i, s := range settings {
		if s.MatchString(around) {
			return &settings[i]
		}
	}
	return nil
}

// ofMissing are words of an object that another one names: the backend works that looked for it.
var ofMissing = regexp.MustCompile(`(?i)\b(?:not found|does not exist)\b`)

// ownFailure are words by which a backend denies requests as it failed itself.
var ownFailure = regexp.MustCompile(`(?i)\bfrom (?:\w+ )?cache\b|\b(?:caches?|informers?)\b.*sync|\bcaches? (?:is |are |was )?not\b|\bnot cached\b|unsupported (?:webhook )?operation|(?:failed to|could not|unable to) (?:get|list|fetch|retrieve|reach|connect)|error to get|error (?:getting|listing|fetching|retrieving|looking up)|cannot (?:get|list|watch) resource "|could not find the requested resource|shutting down|context deadline exceeded|connection refused|no such host|too many requests|unexpected end of JSON|signal: killed|no kind "\w+" is registered|unable to decode|nil pointer|\bpanic\b|failed calling webhook|conversion webhook for|i/o timeout|TLS handshake|rate limiter`)

// advice is what a Cause means, and the way out of it where no finding has
// a better one.
type advice struct {
	Meaning, Fix string
	// Look is a command that shows the backend, without its namespace; "" for classify.LookAtBackend,
	// where the Cause is one of the backend.
	Look string
	// Conversion is the Fix where the webhook converts: the CRD registers it, and all objects
	// go with that.
	Conversion string
	// Checks are the names of those whose findings explain the Cause, the likeliest
	// first: their fix is the way out.
	Checks []string
	// Related are the names of those that make the Cause likelier; their fix is
	// another one's.
	Related []string
}

// advices say it in words. Meanings are sentences without an end; fixes too.
var advices = map[Cause]advice{
	"service-missing": {
		Meaning: "the Service that the webhook calls does not exist",
		Fix:     "install what the Service belongs to again. If its software is gone for good, keep a copy of the configuration that names the Service, then delete that",
		Conversion: "install what the Service belongs to again. If its software is gone for good and the versions differ in name only, keep a copy of the CRD, then set its spec.conversion.strategy to None. " +
			"Never delete the CRD: all its objects go with it",
		Checks: []string{"service-missing", "service-elsewhere", "orphaned-configuration"},
	},
	"service-port-missing": {
		Meaning: "the Service exists, but has no port of the number in clientConfig.service.port (443 by default)",
		Fix:     "give the Service that port, or set clientConfig.service.port to a port of the Service",
		Checks:  []string{"service-port-missing"},
	},
	"no-ready-endpoints": {
		Meaning: "the Service exists, but no Pod behind its port is ready",
		Fix:     "bring the Pods back, and see whether the webhook refuses its own. Before Kubernetes 1.34 the Service needs an Endpoints object too",
		Look:    "kubectl get endpointslices,pods",
		Checks:  []string{"no-ready-endpoints"},
		Related: []string{"bootstrap-deadlock", "install-order", "single-endpoint"},
	},
	"service-unroutable": {
		Meaning: "the API server cannot call a Service of this type in its mode of routing (--enable-aggregator-routing)",
		Fix:     "give the Service a cluster IP, or endpoints in place of an external name",
		Checks:  []string{"service-unroutable"},
	},
	"ca-bundle-invalid": {
		Meaning: "the caBundle holds no readable certificate, so the API server makes no call",
		Fix:     "put the CA that signed the serving certificate into caBundle: PEM, encoded in base64 once",
		Checks:  []string{"ca-bundle-invalid", "ca-bundle-missing"},
	},
	"unknown-authority": {
		Meaning: "no CA in caBundle signed the backend's certificate. One of the two was renewed alone, or the bundle was never injected or was reverted",
		Fix:     "have the Pods serve the certificate that belongs to the bundle (restart them), or put the CA that signed it into caBundle. See that no GitOps tool writes the field",
		Checks:  []string{"ca-bundle-missing", "ca-bundle-invalid", "issued-certificate", "serving-certificate", "backend-selector", "host-port"},
	},
	"certificate-expired": {
		Meaning: "the backend's certificate or its CA has expired or is not valid yet, or the clock of the API server's host is wrong",
		Fix:     "renew the certificate and restart the Pods that serve the old one",
		Checks:  []string{"serving-certificate", "ca-bundle-invalid"},
		Related: []string{"ca-bundle-expiring"},
	},
	"certificate-expiring": {
		Meaning: "the certificate of a webhook of Linkerd expires within the time that linkerd check asks for. No request fails by it yet",
		Fix:     "nothing, where cert-manager renews it in time. Else renew it and the caBundle, then restart the Pods that serve it",
		Checks:  []string{"serving-certificate"},
		Related: []string{"ca-bundle-expiring"},
	},
	"configuration-missing": {
		Meaning: "a controller is to fill in or read a webhook configuration that is not there. None of its webhooks is called, so that nothing is checked or changed by them",
		Fix:     "nothing, where its webhooks are turned off on purpose. Else apply the manifests of the controller's own release again: most write the CA and the rules into a configuration, and none makes it. See that no GitOps tool prunes it",
	},
	"injectors-overlap": {
		Meaning: "two injectors of Istio select the same Pods, so that both are called and the sidecar may be injected twice. Most often an older revision is still installed",
		Fix:     "remove the revision that is no longer used (istioctl uninstall --revision NAME). Else give each namespace the label of one revision alone",
	},
	"certificate-name": {
		Meaning: "the backend's certificate is not for the name that is called: SERVICE.NAMESPACE.svc, or the host of the URL. Only subjectAltNames count, no common name",
		Fix:     "issue the backend a certificate with the DNS name SERVICE.NAMESPACE.svc. Where a URL is called, with the host of that as its DNS name or IP address",
		Checks:  []string{"serving-certificate", "backend-selector", "host-port", "issued-certificate"},
	},
	"mesh": {
		Meaning: "the certificate has no DNS name. It is that of a service mesh's sidecar, which took the connection, or was made without subjectAltNames",
		Fix:     "take the port of the webhook out of the mesh (traffic.sidecar.istio.io/excludeInboundPorts, config.linkerd.io/skip-inbound-ports). Without a mesh, issue the certificate with the DNS name SERVICE.NAMESPACE.svc",
		Checks:  []string{"mesh-strict", "serving-certificate"},
	},
	"no-certificate": {
		Meaning: "the backend ended the TLS handshake: it has no certificate yet for the name that is called",
		Fix:     "look at the log of the backend and at the Secret that it serves from. Its owner (cert-manager, a Job, the backend itself) did not fill it, or the Pods did not read it",
		Checks:  []string{"serving-certificate"},
	},
	"no-tls": {
		Meaning: "a server answers at the port, but without TLS",
		Fix:     "point the targetPort of the Service to the HTTPS listener of the backend",
		Checks:  []string{"serving-certificate", "backend-selector", "host-port"},
	},
	"tls": {
		Meaning: "the TLS handshake failed: no common version or cipher, or the backend demands a client certificate. API servers send one only with --admission-control-config-file",
		Fix:     "look at the log of the backend for its side of the handshake",
		Checks:  []string{"serving-certificate"},
	},
	"proxy": {
		Meaning: "the API server called the webhook through an HTTP proxy (HTTPS_PROXY of its process), which refused the call. The error does not name the proxy",
		Fix:     "add .svc, the Service network and the Pod network to NO_PROXY of the API server, in the manifest of each",
	},
	"tunnel": {
		Meaning: "the tunnel from the API server to the cluster's network (konnectivity, a VPN, k3s) is down, or its end does not reach the Pod. Where it is down, no webhook in the cluster can be called",
		Fix:     "bring the agents of the tunnel back, and see that their node reaches the Pod, which a NetworkPolicy may close: kubectl get pods -n kube-system -l k8s-app=konnectivity-agent",
	},
	"connection-refused": {
		Meaning: "no process listens on the port: the Pod is gone or not up yet, or the targetPort is wrong",
		Fix:     "see that the Pods run and listen on the targetPort of the Service, that their readinessProbe asks the webhook's own port, and that the webhook does not refuse its own Pods",
		Checks:  []string{"no-ready-endpoints", "backend-selector", "host-port", "cluster-url", "backend-unreachable"},
		Related: []string{"bootstrap-deadlock", "single-endpoint"},
	},
	"no-route": {
		Meaning: "the API server has no route to the address of the Pod or Service: the node is gone, or the network between them",
		Fix:     "see that the node of the Pod is up and that the hosts of the control plane reach the Pod network",
		Checks:  []string{"no-ready-endpoints", "network-policy", "same-node-service", "platform-limits", "cluster-url", "backend-unreachable"},
	},
	"overlay-network": {
		Meaning: "a managed control plane (EKS) dials no address outside its own network. The Pods have addresses of an overlay network or of another range",
		Fix:     "run the Pods of the webhook with hostNetwork and dnsPolicy ClusterFirstWithHostNet, on a free port of the nodes. Or give them addresses of the VPC",
		Checks:  []string{"backend-unreachable"},
	},
	"dns": {
		Meaning: "the API server's host cannot resolve the name. Its DNS does not know the cluster's own names",
		Fix:     "use clientConfig.service in place of a URL that ends with .svc. Else have the DNS of the control plane resolve the host",
		Checks:  []string{"cluster-url", "backend-unreachable"},
	},
	"connect-timeout": {
		Meaning: "no connection was made in time. A firewall, a network policy or a security group drops packets, or the Pod's node is gone",
		Fix:     "allow the hosts of the control plane to reach the port of the Pod, on all nodes. The Service's port, 443, is not enough",
		Checks:  []string{"no-ready-endpoints", "network-policy", "same-node-service", "platform-limits", "cluster-url", "backend-unreachable"},
	},
	"timeout": {
		Meaning: "the webhook did not answer within its timeoutSeconds. It is slow or hangs, or packets to it are dropped",
		Fix:     "look at the load of the backend, its log and its own calls to the API server. Where it never answered, open the port of its Pods to the control plane (firewall, NetworkPolicy). Lower timeoutSeconds, so that requests wait less",
		Checks:  []string{"service-missing", "no-ready-endpoints", "network-policy", "same-node-service", "platform-limits", "backend-unreachable"},
		Related: []string{"long-timeout", "budget-exceeded"},
	},
	"cut-off": {
		Meaning: "the connection was closed during the call. The backend crashed or stopped without draining, or a mesh or load balancer closed it",
		Fix:     "look for restarts of the Pods. Have them drain before they stop (preStop), and exempt them from the mutual TLS of a mesh",
		Checks:  []string{"no-ready-endpoints", "mesh-strict", "backend-unreachable"},
		Related: []string{"single-endpoint"},
	},
	"not-found": {
		Meaning: "a server answered that does not know the path. clientConfig.service.path is wrong, or another server listens at the port",
		Fix:     "set clientConfig.service.path to the path that the backend serves. An upgrade of the backend may have changed it",
		Checks:  []string{"backend-selector", "host-port"},
	},
	"unauthorized": {
		Meaning: "the backend demands credentials. The API server calls webhooks without, unless its --admission-control-config-file has them",
		Fix:     "have the backend accept calls without credentials, or configure them on the API server",
	},
	"too-large": {
		Meaning: "the object is larger than the backend accepts",
		Fix:     "raise the limit of the backend for requests: objects have up to 3 MiB, and an update carries two",
	},
	"server-error": {
		Meaning: "the backend answered with an error of its own",
		Fix:     "look at the log of the backend",
	},
	"invalid-answer": {
		Meaning: "the backend answered, but not with a review that the API server understands",
		Fix:     "look at the log and version of the backend. It must answer in the version of the review that was sent, with the same uid",
		Conversion: "look at the log and version of the backend. It must answer with all objects that it was given, in their order, with their metadata. " +
			"Server-side apply sends objects that lack fields, which it must convert too",
		Checks: []string{"review-version"},
	},
	"bad-request": {
		Meaning: "the backend answered 400: it could not read the review, or serves something else at the path. Most often it is of another release than the registration",
		Fix:     "see that the registration and the Pods are of one release. One that the new release no longer has stays registered until it is deleted: keep a copy",
		Checks:  []string{"backend-selector"},
	},
	"html-page": {
		Meaning: "an HTML page came back. A proxy, a load balancer or an ingress on the way answered, not the webhook",
		Fix:     "see who answers at the URL or the Service's endpoints, and point the registration at the webhook itself",
		Checks:  []string{"backend-selector", "host-port"},
	},
	"invalid-registration": {
		Meaning: "the API server cannot use the registration itself",
		Fix:     "correct the configuration: one of clientConfig.url and .service, sideEffects None or NoneOnDryRun, admissionReviewVersions with v1",
		Checks:  []string{"review-version"},
	},
	"client-gone": {
		Meaning: "the client gave up or ended while the webhook was called. The webhook is slow rather than broken",
		Fix:     "see how long the chain of the request may take: webhook-auditor explain OPERATION RESOURCE",
		Checks:  []string{"no-ready-endpoints", "network-policy", "same-node-service", "backend-unreachable"},
		Related: []string{"long-timeout", "budget-exceeded"},
	},
	"denied": {
		Meaning: "the webhook works: it was called and denied the request, by its own rules",
		Fix:     "change the object, or the policy behind the webhook. The words after the colon are the webhook's own",
	},
	"denied-unnamed": {
		Meaning: "a webhook denied the request with the reason Invalid, of which kubectl prints the causes alone, without the name of the webhook",
		Fix:     "change the object as the words after the colon say. See which webhooks it meets: webhook-auditor explain OPERATION RESOURCE",
	},
	"mirror-pod-denied": {
		Meaning: "a webhook or policy denied the mirror Pod by which a kubelet shows a static Pod. The static Pod runs all the same, the API server does not show how",
		Fix:     "leave mirror Pods out by a matchCondition: !has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)",
		Checks:  []string{"mirror-pods"},
	},
	"eviction-denied": {
		Meaning: "the webhook or policy is asked about evictions and refused this one. Those of operators do so on purpose: they move the Pod themselves, and the drain has to try again",
		Fix:     "drain again once the Pod has moved. AKS ends a node upgrade at the first refusal: restart the workload first, so that its Pods leave the node",
	},
	"dry-run": {
		Meaning: "the request was a dry run (kubectl diff, --dry-run=server). The webhook does not declare that it has no side effects, so it was not called",
		Fix:     "set sideEffects of the webhook to None, or NoneOnDryRun",
	},
	"patch": {
		Meaning: "the mutating webhook answered with a patch where the request has no object to change (DELETE, CONNECT)",
		Fix:     "correct the backend, or take the operation out of the rules of the webhook",
	},
	"patch-failed": {
		Meaning: "the JSON patch of a mutating webhook or policy is none, or does not fit the object. The request is refused whatever the failurePolicy, and the error names neither",
		Fix:     "see which mutating webhooks the request meets; a JSON patch of the client's own gives the same error: webhook-auditor explain OPERATION RESOURCE",
	},
	"match-condition": {
		Meaning: "a matchCondition could not be evaluated on the object. With failurePolicy Fail that refuses the request; the webhook was not called",
		Fix:     "write the expression for objects that lack the field: has(object.spec.x) && …, or object.?spec.x.orValue(…)",
		Checks:  []string{"failing-match-condition"},
	},
	causeConversionRefused: {
		Meaning: "the conversion webhook was called and could not convert the object. The words after the colon are its own",
		Fix:     "look at the log of the backend. Never force-delete the objects: they are healthy, only unreadable",
		Checks:  []string{"conversion-unneeded"},
	},
	"request-timeout": {
		Meaning: "the request took longer than the API server allows: 34 s for a write, or its --request-timeout. A chain of slow webhooks does that, whatever their failurePolicy",
		Fix:     "see which webhooks it meets: webhook-auditor explain OPERATION RESOURCE",
		Checks:  []string{"chain-outlasts-request"},
	},
	"api-server": {
		Meaning: "the API server itself failed at calling the webhook",
		Fix:     "report it to those who run the API server, with its log",
	},
	"policy-denied": {
		Meaning: "the policy works: it was evaluated and denied the request. The words after the colon are its message, or the expression that is false",
		Fix:     "change the object, or the policy. Only the first validation that fails is reported",
	},
	"policy-warned": {
		Meaning: "the policy finds the object at fault. The request went on: validationActions of the binding is Warn or Audit",
		Fix:     "change the object before the binding is set to Deny",
	},
	"policy-failed": {
		Meaning: "the mutation of a policy failed, and with failurePolicy Fail that refuses the request",
		Fix:     "correct the policy. An ApplyConfiguration cannot change atomic lists, maps and structs; a JSONPatch needs the path that it changes",
		Checks:  []string{"policy-expression"},
	},
	"apply-without-type": {
		Meaning: "the API server has no type to apply the policy's applyConfiguration to: the request carries a Scale, an Eviction, a TokenRequest or options of CONNECT",
		Fix:     "leave the subresources out of the policy by excludeResourceRules, or write it as a JSONPatch",
		Checks:  []string{"apply-without-type"},
	},
	"policy-expression": {
		Meaning: "an expression of the policy could not be evaluated on the object, or cost too much. With failurePolicy Fail that refuses the request",
		Fix:     "write the expression for objects that lack the field: has(object.spec.x) && …, or object.?spec.x.orValue(…). request.name, request.subResource and params may be missing as well",
		Checks:  []string{"policy-expression"},
	},
	"policy-expression-warned": {
		Meaning: "an expression of the policy could not be evaluated on the object. The request went on: validationActions of the binding is Warn or Audit",
		Fix:     "write the expression for objects that lack the field: has(object.spec.x) && …, or object.?spec.x.orValue(…). With Deny the policy would refuse the request",
		Checks:  []string{"policy-expression"},
	},
	"mirror-pod": {
		Meaning: "the API server refused the Pod by which the kubelet shows a static Pod. Most often a mutating webhook or policy added a ServiceAccount, a Secret or a ConfigMap to it",
		Fix:     "see which it meets: webhook-auditor explain create pods -n kube-system. Then leave Pods with the annotation kubernetes.io/config.mirror out by a matchCondition",
		Checks:  []string{"mirror-pods"},
	},
	"params-missing": {
		Meaning: "the params of the binding do not exist, and its parameterNotFoundAction is Deny. All that the policy matches is refused, whatever validationActions are",
		Fix:     "create the params, or set paramRef.parameterNotFoundAction of the binding to Allow",
		Checks:  []string{"param-kind-missing"},
	},
	"policy-configuration": {
		Meaning: "the policy or its binding is wrong, no expression was evaluated. All that the policy matches is refused, whatever validationActions and matchConditions are",
		Fix:     "correct in the policy or its binding what the words after the colon name",
		Checks:  []string{"refused-by-api"},
	},
	"param-kind": {
		Meaning: "the API server does not serve the kind of the policy's params, or not yet. All that the policy matches is refused, whatever its bindings and matchConditions say",
		Fix:     "create the CRD and wait 30 s, or set failurePolicy of the policy to Ignore",
		Checks:  []string{"param-kind-missing"},
	},
	"params-unsynced": {
		Meaning: "the API server has just started and had not read the policy's params yet",
		Fix:     "try again. If it lasts, look at the API server's log for the kind of the params",
	},
	"param-namespace": {
		Meaning: "the params are in namespaces, the binding names none, and the request has no namespace. It is refused, whatever validationActions are",
		Fix:     "set paramRef.namespace of the binding, or take cluster-scoped resources out of its rules",
	},
	"not-ready": {
		Meaning: "the API server had not read its webhook configurations or admission policies within 10 s. It has just started, or cannot list them",
		Fix:     "try again. If it lasts, look at the API server's log",
	},
	"param-scope": {
		Meaning: "the params are cluster-scoped, and the binding names a namespace for them. All that the policy matches is refused, whatever validationActions are",
		Fix:     "take paramRef.namespace out of the binding",
	},
	"key-usage": {
		Meaning: "the backend's certificate lacks the extended key usage serverAuth, so the API server does not accept it",
		Fix:     "issue the certificate with the extended key usage serverAuth (cert-manager: usages: [server auth])",
		Checks:  []string{"serving-certificate"},
	},
	"serial-number": {
		Meaning: "the backend's certificate has a negative serial number, which API servers built with Go 1.23 or newer refuse",
		Fix:     "issue the certificate again, with a positive serial number",
		Checks:  []string{"serving-certificate"},
	},
	causeCertificate: {
		Meaning: "the API server does not accept the backend's certificate, or a CA above it, as the words after x509 say",
		Fix:     "issue the certificates anew without what they name, and put the CA into caBundle",
		Checks:  []string{"serving-certificate"},
	},
	"other-server": {
		Meaning: "another server answered with its own certificate: a kubelet, an ingress, the API server or another Service's backend. This one was not reached",
		Fix:     "with hostNetwork, choose a port that is free on the nodes (10250 is the kubelet's). Else see who listens at the targetPort on the Pod's address",
		Look:    "kubectl get endpointslices,pods -o wide",
		Checks:  []string{"host-port", "backend-selector"},
	},
	"envoy": {
		Meaning: "an Envoy proxy of a mesh or gateway answered in place of the backend, which may not have seen the call",
		Fix:     "take the port of the webhook out of the mesh. Or see in the log of the proxy why it does not reach the backend",
		Look:    "kubectl get pods",
		Checks:  []string{"no-ready-endpoints", "mesh-strict"},
	},
	"slow-call": {
		Meaning: "the call was slow, and the API server logged how long it took. The request was not refused for it",
		Fix:     "look at the load and the log of the backend. See how long its calls take: webhook-auditor top",
		Checks:  []string{"no-ready-endpoints", "network-policy", "same-node-service", "backend-unreachable"},
		Related: []string{"long-timeout", "budget-exceeded"},
	},
	"plugin-timeout": {
		Meaning: "OpenShift ends an admission plugin after 13 s, whatever the failurePolicy of its webhooks. It took longer; the error names no webhook",
		Fix:     "lower timeoutSeconds until a request takes less than 13 s (webhook-auditor explain OPERATION RESOURCE). See which of them are slow: webhook-auditor top",
		Checks:  []string{"no-ready-endpoints", "network-policy", "same-node-service", "backend-unreachable", "budget-exceeded", "long-timeout"},
	},
	"gke-rules": {
		Meaning: "a webhook of GKE itself refused a registration with rules for everything. Google's own webhooks are in no configuration",
		Fix:     "name the API groups and resources in the rules of the registration, in place of *",
	},
	"gke-autopilot": {
		Meaning: "GKE itself refused the object by the constraints of Autopilot. They are Google's, and in no configuration",
		Fix:     "change the object as the words after the colon say. No user of the cluster can change the constraint",
	},
	"refused-by-api": {
		Meaning: "the API server does not accept the object. The fields that are wrong follow",
		Fix:     "correct these fields. Before the next apply: webhook-auditor audit PATH. What a field takes: kubectl explain KIND.FIELD",
		Checks:  []string{"refused-by-api"},
	},
	"refused-ca-bundle": {
		Meaning: "the caBundle holds no certificate, most likely a placeholder (Cg== is an empty line). For CRDs API servers refuse it from v1.31 on",
		Fix:     "leave caBundle out of the manifest where an injector fills it. Else put the CA certificate into it: PEM, encoded in base64 once",
		Checks:  []string{"refused-by-api", "ca-bundle-invalid"},
	},
	causeUnserved: {
		Meaning: "the API server cannot serve the CRD, in any version. Most often the caBundle of its conversion webhook holds no certificate (Cg== is an empty line)",
		Fix:     "put the CA of the serving certificate into spec.conversion.webhook.clientConfig.caBundle of the CRD, or see why its injector does not. The API server's log has the reason",
		Checks:  []string{"ca-bundle-invalid", "ca-bundle-missing"},
	},
	"unlisted-objects": {
		Meaning: "the garbage collector or quota waits for objects that it cannot list. Before v1.32 nothing that has an owner is removed meanwhile, in the whole cluster",
		Fix:     "see whose conversion webhook fails: webhook-auditor audit. Else see which APIService does not answer: kubectl get apiservices",
		Checks:  []string{"ca-bundle-invalid", "ca-bundle-missing", "service-missing", "no-ready-endpoints", "service-elsewhere", "service-port-missing"},
	},
	"half-merged": {
		Meaning: "a part that another writer owns stays beside what the manifest has: the caBundle of a conversion that is gone, or a url beside a service",
		Fix:     "replace the object by a manifest that has all of it (kubectl replace). For a CRD that converts no more: strategy None, without an injector's annotation",
		Checks:  []string{"refused-by-api"},
	},
	"preserved-fields": {
		Meaning: "a CRD whose spec.preserveUnknownFields is true cannot be converted by a webhook. One that was written as v1beta1 keeps it until a manifest says false",
		Fix:     "set spec.preserveUnknownFields to false in the manifest of the CRD",
		Checks:  []string{"refused-by-api"},
	},
	"conversion-not-set": {
		Meaning: "a controller would put its caBundle into the CRD, which no webhook converts. The CRD is of another release, or another tool took spec.conversion out",
		Fix:     "apply the CRDs of the controller's own release; Helm leaves those in a chart's crds/ as they are. Then restart the controller",
	},
	"refused-at-first": {
		Meaning: "API servers before v1.37 may not compile a policy with matchConditions and variables the first time. Its expressions are right",
		Fix:     "apply it again: the next apply is accepted. Source: kubernetes/kubernetes#134808",
	},
	"lease-timeout": {
		Meaning: "a client gave up on its lease before the API server answered: that or etcd is slow, or a webhook on leases hangs. Leaders end for it, and nodes become NotReady",
		Fix:     "see which webhooks the lease meets, even those with failurePolicy Ignore: webhook-auditor explain update leases.coordination.k8s.io -n kube-system (kube-node-lease of nodes)",
		Checks:  []string{"control-plane-path"},
	},
	"refused-expression": {
		Meaning: "a CEL expression of the object does not compile, so the API server does not accept the object",
		Fix:     "correct the expression at the line and column of the error. Before the next apply: webhook-auditor audit PATH",
		Checks:  []string{"refused-by-api"},
	},
	causeTwoOwners: {
		Meaning: "an object of this name is there already, and belongs to another release, application or file. A cluster keeps one of the two",
		Fix:     "give one of the two a name of its own: fullnameOverride of most charts, namePrefix of a kustomization. Where both are the same software: helm upgrade --take-ownership",
		Checks:  []string{"two-owners"},
	},
	"unowned-object": {
		Meaning: "an object of this name is there already, and no Helm release owns it: kubectl, another tool or the crds folder of a chart made it",
		Fix:     "have the release take it over: helm upgrade --take-ownership. Or delete the object first, but never a CRD: all its objects go with it",
		Checks:  []string{"two-owners"},
	},
	"start-hook": {
		Meaning: "the API server ended, as a write of its own was refused or got no answer while it started. Webhooks that are called for it do that, and the error names none",
		Fix:     "see which webhooks can: webhook-auditor audit PATH, of the registrations (an API server answers before it is ready). The log has the refusals before this line",
		Checks:  []string{"control-plane-path"},
	},
	causeNotServed: {
		Meaning: "the API server does not serve this version, or will not for long. It is gone in its release, or comes with a later one",
		Fix:     "write the version that the API server has: kubectl api-versions. Before the next apply: webhook-auditor audit PATH --server-version VERSION",
		Checks:  []string{"refused-by-api"},
	},
	causePanic: {
		Meaning: "the API server panicked in the request. Before v1.37 it does so at a JSONPatch of a MutatingAdmissionPolicy with an Object in a list or map, whatever failurePolicy says",
		Fix:     "write maps in place of Object{…} in lists and maps; the check policy-expression names the policy: webhook-auditor audit. If there is none, look at the API server's log",
		Checks:  []string{"policy-expression"},
	},
	"kind-too-new": {
		Meaning: "the CRD is younger than the API server's copy of the schemas, which a MutatingAdmissionPolicy needs. Such requests are refused for some 5 s, whatever failurePolicy says",
		Fix:     "try again. An installation waits for its CRDs (kubectl wait --for=condition=Established crd/NAME), then some seconds more",
	},
	"rule-without-effect": {
		Meaning: "the rule names reviews of authentication or authorization, which API servers from v1.37 on send to no webhook. The object was written all the same",
		Fix:     "take the resource out of the rules",
		Checks:  []string{"dead-rule"},
	},
	"certificate-refused": {
		Meaning: "this is the webhook's own log: a caller does not accept its certificate. If that is an API server, the CA in caBundle, the name or the dates do not fit",
		Fix:     "see which of them it is by the error of a request that fails, or on the backend: webhook-auditor audit --probe=tls",
		Checks:  []string{"serving-certificate", "ca-bundle-invalid", "ca-bundle-missing"},
	},
	"unserved-certificate": {
		Meaning: "this is of the webhook's own server: it has no certificate yet. It does not start, or calls of it fail, until the Secret with the certificate is there",
		Fix:     "nothing, where it is there in a minute. Else look at what is to make the Secret: cert-manager (is it installed, is the Certificate ready), OLM, a Job, the software itself (its rights)",
		Checks:  []string{"issued-certificate", "serving-certificate"},
	},
	"ca-not-injected": {
		Meaning: "cert-manager has not filled a caBundle: the Certificate or Secret that the annotation names is not there, or the Secret does not allow it. Until then calls fail",
		Fix:     "nothing, where the Certificate is ready in a minute (kubectl get certificates.cert-manager.io --all-namespaces). Else correct the annotation; a Secret needs cert-manager.io/allow-direct-injection: \"true\"",
		Checks:  []string{"issued-certificate", "ca-bundle-missing"},
	},
	"crossplane-certificate": {
		Meaning: "Crossplane installs no CRD with a conversion webhook before it has made the Secret with the certificate of the package. No webhook refused anything",
		Fix:     "nothing, where it is there in a minute. Else see why it is not made: kubectl describe providerrevisions.pkg.crossplane.io. Crossplane needs its webhooks turned on (webhooks.enabled of its chart)",
	},
	"two-packages": {
		Meaning: "two packages of Crossplane, or another owner and a package, have this object. The one that controls it keeps it, the other one is not installed",
		Fix:     "see who controls it, in its metadata.ownerReferences (kubectl get crd NAME -o yaml), then keep one of the two. Never delete the CRD: all its objects go with it",
	},
	"handshake-closed": {
		Meaning: "this is the webhook's own log: a caller opened a connection and did not go on with TLS. Probes and load balancers do so; no request needs to have failed",
		Fix:     "nothing, where requests succeed. Else see whether API servers reach the webhook: webhook-auditor audit --probe=tls",
	},
	"stored-version": {
		Meaning: "objects are, or may be, stored in a version that the CRD no longer has. Without it they cannot be read",
		Fix:     "keep the version in spec.versions, with served: false. Write all objects anew, then take it out of status.storedVersions, then out of the CRD",
	},
	"stricter-schema": {
		Meaning: "the Operator Lifecycle Manager does not install a CRD whose schema refuses objects that exist. No webhook refused anything",
		Fix:     "change the objects that the error names, or widen the schema; then delete the failed InstallPlan, so that it is made anew",
	},
	"olm-rules": {
		Meaning: "the Operator Lifecycle Manager takes no webhook with rules for all API groups, its own, or the webhook configurations",
		Fix:     "name the API groups and resources in spec.webhookdefinitions of the ClusterServiceVersion, in place of *",
	},
	"olm-conversion": {
		Meaning: "the Operator Lifecycle Manager writes a conversion only into a CRD that the ClusterServiceVersion owns, without preserveUnknownFields, of an operator for all namespaces",
		Fix:     "list the CRD in spec.customresourcedefinitions.owned, and AllNamespaces as the only installMode that is supported",
	},
	"olm-owner-conflict": {
		Meaning: "the Operator Lifecycle Manager does not install a second ClusterServiceVersion that owns the same CRD or API. No webhook refused anything",
		Fix:     "delete one of the two Subscriptions and its ClusterServiceVersion; the CRD and its objects stay: kubectl get csv --all-namespaces",
	},
	"olm-unsupported": {
		Meaning: "operator-controller (OLM v1) installs no bundle with webhooks unless a feature gate has their certificates issued, and none with APIServices",
		Fix:     "start operator-controller with --feature-gates=WebhookProviderCertManager=true, where cert-manager is installed. Else install the operator by OLM v0",
	},
	"type-warning": {
		Meaning: "kube-controller-manager found by type checking that an expression does not fit a kind the policy matches. For that kind it fails each time it reads the field",
		Fix:     "correct the expression, or narrow the rules to the kinds that have the field",
		Checks:  []string{"policy-expression"},
	},
	"olm-conversion-lost": {
		Meaning: "the Operator Lifecycle Manager finds no conversion by a webhook with a caBundle in the CRD, though it wrote one. Another tool wrote the CRD after it",
		Fix:     "see who writes spec.conversion, and have it leave the field out: kubectl get crd NAME -o yaml --show-managed-fields",
	},
	"apply-conflict": {
		Meaning: "a server-side apply (Helm 4, Fleet, kubectl) changes a field that another manager owns",
		Fix:     "leave the field out of the manifest, or take it over with --force-conflicts",
	},
	"aks-enforcer": {
		Meaning: "the admissions enforcer of AKS owns the namespaceSelector of each admission webhook, and writes it again. To force the conflict starts a fight",
		Fix:     "keep its expressions on control-plane and kubernetes.azure.com/managedby in the manifest, or label the configuration admissions.enforcer/disabled: \"true\"",
		Checks:  []string{"configuration-churn"},
	},
	"ca-bundle-conflict": {
		Meaning: "a server-side apply (Helm 4, Fleet, kubectl) sets caBundle, which an injector owns and has filled",
		Fix:     "leave caBundle out of the manifest. Or take the field over with --force-conflicts; the injector then writes it again",
		Checks:  []string{"bundle-conflict"},
	},
	"other": {
		Meaning: "the call of the webhook failed, in words that are not in our list",
		Fix:     "look at the log of the backend and of the API server",
	},
}
