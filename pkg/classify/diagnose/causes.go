package diagnose

import "regexp"

// Cause is why an API server complained of a webhook.
type Cause string

// The causes. Those of the backend have the names of the checks that look for
// them.
const (
	causeServiceMissing Cause = "service-missing"
	causePortMissing    Cause = "service-port-missing"
	causeNoEndpoints    Cause = "no-ready-endpoints"
	causeUnroutable     Cause = "service-unroutable"
	causeBundle         Cause = "ca-bundle-invalid"
	causeAuthority      Cause = "unknown-authority"
	causeExpired        Cause = "certificate-expired"
	causeName           Cause = "certificate-name"
	causeMesh           Cause = "mesh"
	causeNoCertificate  Cause = "no-certificate"
	causeNoTLS          Cause = "no-tls"
	causeTLS            Cause = "tls"
	causeProxy          Cause = "proxy"
	causeTunnel         Cause = "tunnel"
	causeRefused        Cause = "connection-refused"
	causeNoRoute        Cause = "no-route"
	causeOverlay        Cause = "overlay-network"
	causeDNS            Cause = "dns"
	causeConnectTimeout Cause = "connect-timeout"
	causeTimeout        Cause = "timeout"
	causeCutOff         Cause = "cut-off"
	causeNotFound       Cause = "not-found"
	causeUnauthorized   Cause = "unauthorized"
	causeTooLarge       Cause = "too-large"
	causeServerError    Cause = "server-error"
	causeAnswer         Cause = "invalid-answer"
	causePage           Cause = "html-page"
	causeRegistration   Cause = "invalid-registration"
	causeClientGone     Cause = "client-gone"
	causeDenied         Cause = "denied"
	causeDryRun         Cause = "dry-run"
	causePatch          Cause = "patch"
	causePatchFailed    Cause = "patch-failed"
	causeCondition      Cause = "match-condition"
	causeConversion     Cause = "conversion-refused"
	causeRequestTimeout Cause = "request-timeout"
	causeAPIServer      Cause = "api-server"
	causeOther          Cause = "other"

	causePolicyDenied     Cause = "policy-denied"
	causePolicyWarned     Cause = "policy-warned"
	causePolicyFailed     Cause = "policy-failed"
	causePolicyExpression Cause = "policy-expression"
	causeParamsMissing    Cause = "params-missing"
	causeParamKind        Cause = "param-kind"
	causeParamsUnsynced   Cause = "params-unsynced"
	causeParamNamespace   Cause = "param-namespace"
	causeNotReady         Cause = "not-ready"
)

// cause is how the API server's error shows a Cause.
type cause struct {
	*regexp.Regexp
	Cause
}

// callCauses are the causes of a call that failed, the most specific first: an
// error names several.
func callCauses() []cause {
	var out []cause
	for _, c := range []struct {
		expression string
		cause      Cause
	}{
		{`services? "[^"]+" not found`, causeServiceMissing},
		{`no service port \S+ found for service`, causePortMissing},
		// Until 1.33 API servers with --enable-aggregator-routing look for an Endpoints
		// object (k8s.io/apiserver pkg/util/proxy), which may be missing where slices are not.
		{`no endpoints available for service|endpoints "[^"]+" not found`, causeNoEndpoints},
		{`cannot route to service with ClusterIP|unsupported service type`, causeUnroutable},
		{`unable to load root certificates|unable to parse bytes as PEM block`, causeBundle},
		// k8s.io/apiserver pkg/server/egressselector and konnectivity-client pkg/client.
		{`(?i)proxy error from \S+ while dialing|from CONNECT to \S+ via proxy|no agent available|no backend available|konnectivity|tunnel-uds|dial timeout, (?:backstop|context)|\bdial closed|tunnel (?:is )?closed|error dialing backend|SSH tunnel not found`, causeTunnel},
		// What net/http makes of a proxy that refuses CONNECT: the reason phrase alone.
		{`proxyconnect |Proxy Authentication Required|Post "?https?://\S+: (?:Bad Gateway|Service Unavailable|Forbidden|Gateway Time-?[Oo]ut|Method Not Allowed|Not Found|Bad Request|Internal Server Error|Access Denied)`, causeProxy},
		{`signed by unknown authority|certificate is not trusted`, causeAuthority},
		{`certificate has expired|certificate is not yet valid|is not yet valid`, causeExpired},
		{`not valid for any names`, causeMesh},
		{`certificate is valid for|doesn't contain any IP SANs|relies on legacy Common Name|cannot validate certificate for`, causeName},
		{`HTTP response to HTTPS client|does not look like a TLS handshake`, causeNoTLS},
		{`TLS handshake timeout`, causeConnectTimeout},
		{`remote error: tls: (?:unrecognized name|internal error)`, causeNoCertificate},
		{`remote error: tls|tls: |x509: `, causeTLS},
		{`[Cc]onnection refused`, causeRefused},
		{`Address is not allowed`, causeOverlay},
		{`no route to host|network is unreachable|host is unreachable|host is down`, causeNoRoute},
		{`no such host|server misbehaving|lookup \S+ on |Temporary failure in name resolution`, causeDNS},
		{`dial tcp [^ ]+ (?:connect: )?(?:i/o timeout|operation timed out|connection timed out)|(?:connect: (?:connection|operation)|\([Cc]onnection) timed out|while waiting for connection`, causeConnectTimeout},
		{`context deadline exceeded|Client\.Timeout|request canceled|timeout awaiting response headers|i/o timeout|unable to return a response in the time allotted|Gateway Timeout`, causeTimeout},
		{`context canceled`, causeClientGone},
		{`(?i)<html|<!doctype|invalid character '<'`, causePage},
		{`invalid webhook response|expected webhook response of|expected response\.uid|response was absent|undecodable patch|response\.patchType|unsupported patch type|couldn't get version/kind|invalid character|no response provided|no objects returned|unrecognized response type|unexpected type|0-length response|converting \(\S+\) to \(v\w+\.(?:Admission|Conversion)Review\)|no kind "\w+" is registered for version|Go struct field (?:Admission|Conversion)|stopped after \d+ redirects`, causeAnswer},
		{`SideEffects is nil|must have either service or URL|Unparsable URL|could not get REST client|does not accept known AdmissionReview versions|no supported conversion review versions`, causeRegistration},
		{`could not find the requested resource|404 page not found|does not allow this method`, causeNotFound},
		{`asked for the client to provide credentials|Unauthorized|[Ff]orbidden|RBAC: access denied`, causeUnauthorized},
		{`[Ee]ntity [Tt]oo [Ll]arge|request is too large|status code 413`, causeTooLarge},
		{`connection reset by peer|EOF|broken pipe|http2: |stream error: |transport connection broken|use of closed network connection`, causeCutOff},
		{`an error on the server|Internal Server Error|currently unable to handle the request|Service Unavailable|Bad Gateway|server rejected our request|unknown reason|too many requests|responded with the status code|server reported a conflict|^failed to call webhook:$|unknown format|content type that the client supports`, causeServerError},
	} {
		out = append(out, cause{regexp.MustCompile(c.expression), c.cause})
	}
	return out
}

// advice is what a Cause means, and the way out of it where no finding has
// a better one.
type advice struct {
	Meaning, Fix string
	// Checks are the names of those that look for the same.
	Checks []string
}

// advices say it in words. Meanings are sentences without an end; fixes too.
var advices = map[Cause]advice{
	causeServiceMissing: {
		"the API server looked the webhook's Service up and there is none of that name in the namespace",
		"install what the Service belongs to again; if it is gone for good, delete the configuration that still names it",
		[]string{"service-missing", "orphaned-configuration"},
	},
	causePortMissing: {
		"the Service is there, but has no port of the number that clientConfig.service.port names (443 if it names none)",
		"give the Service that port, or set clientConfig.service.port to one that it has",
		[]string{"service-port-missing"},
	},
	causeNoEndpoints: {
		"the Service is there, but no Pod behind the port is ready",
		"bring the Pods back: kubectl get endpointslices,pods " + ofTheService + "; look for Pods that the webhook itself refuses and, before Kubernetes 1.34, whether the Service has an Endpoints object",
		[]string{"no-ready-endpoints", "bootstrap-deadlock", "single-endpoint"},
	},
	causeUnroutable: {
		"the API server cannot call this type of Service in the way that it routes (--enable-aggregator-routing)",
		"give the Service a cluster IP, or endpoints in place of an external name",
		[]string{"service-unroutable"},
	},
	causeBundle: {
		"the caBundle holds no certificate that can be read, so that the API server makes no call at all",
		"put the CA that signed the serving certificate into caBundle: PEM, encoded in base64 once",
		[]string{"ca-bundle-invalid", "ca-bundle-missing"},
	},
	causeAuthority: {
		"the backend answered with a certificate that no CA of caBundle signed: one of the two was renewed without the other, or the bundle was never injected, or was reverted",
		"have the Pods serve the certificate that belongs to the bundle (restart them), or put the CA that signed it into caBundle; see that no GitOps tool writes the field",
		[]string{"serving-certificate", "ca-bundle-invalid", "ca-bundle-missing"},
	},
	causeExpired: {
		"the certificate of the backend, or its CA, is out of its time; or the clock of the API server's host is",
		"renew the certificate and restart the Pods that serve the old one",
		[]string{"serving-certificate", "ca-bundle-invalid", "ca-bundle-expiring"},
	},
	causeName: {
		"the certificate is not for the name that is called, SERVICE.NAMESPACE.svc; a common name does not count, only DNS names do",
		"issue the backend a certificate with the DNS name SERVICE.NAMESPACE.svc; after a move to another namespace, a new one",
		[]string{"serving-certificate"},
	},
	causeMesh: {
		"the certificate that was answered with has no DNS name at all: it is that of a service mesh's sidecar, which took the connection, or one that was made without subjectAltNames",
		"take the port of the webhook out of the mesh (traffic.sidecar.istio.io/excludeInboundPorts, config.linkerd.io/skip-inbound-ports, or no sidecar); without a mesh, issue the certificate with the DNS name SERVICE.NAMESPACE.svc",
		[]string{"serving-certificate"},
	},
	causeNoCertificate: {
		"the backend ended the TLS handshake: it has no certificate yet for the name that is called",
		"look at the log of the backend and at the Secret that it serves from: who fills it (cert-manager, a Job, the backend itself) did not, or the Pods did not read it",
		[]string{"serving-certificate"},
	},
	causeNoTLS: {
		"something answers at the port, but not with TLS",
		"point the targetPort of the Service to the HTTPS listener of the backend",
		[]string{"serving-certificate"},
	},
	causeTLS: {
		"the TLS handshake failed: the two sides have no version or cipher in common, or the backend demands a client certificate, which the API server sends only if its --admission-control-config-file has one",
		"look at the log of the backend for its side of the story",
		[]string{"serving-certificate"},
	},
	causeProxy: {
		"the API server called the webhook through an HTTP proxy (HTTPS_PROXY of its process), and that did not let it through; the error does not name the proxy",
		"add .svc, the Service network and the Pod network to NO_PROXY of the API server, in the manifest of each",
		nil,
	},
	causeTunnel: {
		"the API server reaches the cluster's network through a tunnel (konnectivity, a VPN, the remote dialer of k3s), and that found no way: where it is down, no webhook in the cluster can be called",
		"bring the agents of the tunnel back (kubectl get pods -n kube-system -l k8s-app=konnectivity-agent), and see that the node of the agent reaches the Pod: a NetworkPolicy may close it",
		nil,
	},
	causeRefused: {
		"the host answered that no process listens on the port: the Pod is gone or not up yet, or the targetPort is wrong",
		"see that the Pods run and listen on the targetPort of the Service, and that their readiness probe asks the webhook server itself",
		[]string{"backend-unreachable", "no-ready-endpoints", "single-endpoint"},
	},
	causeNoRoute: {
		"there is no way from the API server to the address of the Pod or the Service: the node is gone, or the network between them is",
		"see that the node of the Pod is up and that the hosts of the control plane reach the Pod network",
		[]string{"backend-unreachable"},
	},
	causeOverlay: {
		"a managed control plane (EKS) dials no address outside its own network: the Pods have addresses of an overlay network (Calico, Cilium, Weave), or of a range that is not the VPC's",
		"run the Pods of the webhook with hostNetwork and dnsPolicy ClusterFirstWithHostNet, on a port that is free on the nodes, or give them addresses of the VPC",
		[]string{"backend-unreachable"},
	},
	causeDNS: {
		"the API server's host cannot resolve the name: webhooks by URL and ExternalName need its DNS, which does not know the cluster's own names",
		"use clientConfig.service in place of a URL that ends with .svc; else have the DNS of the control plane resolve the host",
		[]string{"backend-unreachable"},
	},
	causeConnectTimeout: {
		"no connection came about in time: packets are dropped, by a firewall, a network policy or a security group between the API server and the nodes; or the Pod's node is gone",
		"allow the hosts of the control plane to reach the port that the Pod listens on (not only 443: that is the port of the Service), on all nodes",
		[]string{"backend-unreachable"},
	},
	causeTimeout: {
		"the webhook did not answer within its timeoutSeconds: it is slow or hangs, or packets to it are dropped",
		"look at the load of the backend, its log and its own calls to the API server; lower timeoutSeconds, so that it holds requests up for less",
		[]string{"long-timeout", "budget-exceeded", "control-plane-path"},
	},
	causeCutOff: {
		"the connection was closed in the middle of the call: the backend crashed or was stopped without draining, or it or a mesh in between demands a client certificate, or a load balancer did it",
		"look for restarts of the Pods; have them drain before they stop (preStop), and exempt them from the mutual TLS of a mesh",
		[]string{"single-endpoint", "no-ready-endpoints"},
	},
	causeNotFound: {
		"something answered that does not know the path: clientConfig.service.path is wrong, or another server listens at the port",
		"set clientConfig.service.path to the path that the backend serves; after an upgrade of the backend, that of the new version",
		nil,
	},
	causeUnauthorized: {
		"the backend wants to know who calls, and the API server calls webhooks anonymously unless its --admission-control-config-file says otherwise",
		"have the backend accept calls without credentials, or configure them on the API server",
		nil,
	},
	causeTooLarge: {
		"the object was larger than the backend accepts",
		"raise the limit of the backend for requests: objects have up to 3 MiB, and an update carries two",
		nil,
	},
	causeServerError: {
		"the backend answered with an error of its own",
		"look at the log of the backend",
		nil,
	},
	causeAnswer: {
		"the backend answered, but not with a review that the API server understands",
		"look at the log and version of the backend: it must answer in the version of the review that it was sent, with the same uid",
		[]string{"review-version"},
	},
	causePage: {
		"a page of HTML was answered: that is of a proxy, a load balancer or an ingress on the way, or of another site, not of the webhook",
		"see who answers at the URL or the Service's endpoints: point the registration at the webhook itself, and have what is in between reach it",
		nil,
	},
	causeRegistration: {
		"the API server cannot make sense of the registration itself",
		"correct the configuration: one of clientConfig.url and .service, sideEffects None or NoneOnDryRun, admissionReviewVersions with v1",
		[]string{"review-version"},
	},
	causeClientGone: {
		"the client gave up, or was ended, while the webhook was called: the webhook is slow rather than broken",
		"see how long the chain of the request may take: webhook-auditor explain OPERATION RESOURCE",
		[]string{"long-timeout", "budget-exceeded"},
	},
	causeDenied: {
		"the webhook works: it was called and denied the request, by its own rules",
		"change the object, or the policy behind the webhook; the words after the colon are those of the webhook",
		nil,
	},
	causeDryRun: {
		"the request was a dry run (kubectl diff, --dry-run=server), and the webhook does not declare that it has no side effects: it was not called",
		"set sideEffects of the webhook to None, or NoneOnDryRun",
		[]string{"reinvocation-order"},
	},
	causePatch: {
		"the mutating webhook answered a request with a patch where there is no object to change (DELETE, CONNECT)",
		"correct the backend, or take the operation out of the rules of the webhook",
		nil,
	},
	causePatchFailed: {
		"the answer of a mutating webhook is a JSON patch that does not fit the object, which refuses the request whatever its failurePolicy; the API server does not name the webhook",
		"see which mutating webhooks the request meets: webhook-auditor explain OPERATION RESOURCE; where the client sent a JSON patch of its own, it may be that one",
		nil,
	},
	causeCondition: {
		"a matchCondition could not be evaluated on the object, and with failurePolicy Fail that refuses the request: the webhook was not called",
		"write the expression for objects that lack the field: has(object.spec.x) && …, or object.?spec.x.orValue(…)",
		nil,
	},
	causeConversion: {
		"the conversion webhook was called and could not convert the object: the words after the colon are its own",
		"look at the log of the backend; never force-delete the objects: they are healthy, only unreadable",
		[]string{"conversion-unneeded"},
	},
	causeRequestTimeout: {
		"the request took longer than the API server allows in all (34 s for a write, or --request-timeout, or the ?timeout= of the client), most likely in a chain of slow webhooks, of which failurePolicy Ignore does not save it",
		"see which webhooks it meets: webhook-auditor explain OPERATION RESOURCE",
		[]string{"budget-exceeded", "long-timeout"},
	},
	causeAPIServer: {
		"the API server itself failed at calling the webhook",
		"report it to those who run the API server, with its log",
		nil,
	},
	causePolicyDenied: {
		"the policy works: it was evaluated and denied the request; the words after the colon are its message, or the expression that is false",
		"change the object, or the policy; only the first validation that fails is reported",
		nil,
	},
	causePolicyWarned: {
		"the policy finds the object at fault, and the request went on: validationActions of the binding is Warn",
		"change the object before the binding is set to Deny",
		nil,
	},
	causePolicyFailed: {
		"the mutation of a policy failed, and with failurePolicy Fail that refuses the request",
		"correct the policy: an ApplyConfiguration cannot change atomic lists and maps, a JSONPatch needs the path that it changes",
		nil,
	},
	causePolicyExpression: {
		"an expression of the policy could not be evaluated on the object, or cost more than the API server allows, and with failurePolicy Fail that refuses the request",
		"write the expression for objects that lack the field: has(object.spec.x) && …, or object.?spec.x.orValue(…); request.name, request.subResource and params may be missing as well",
		nil,
	},
	causeParamsMissing: {
		"no params exist that the binding asks for, and its parameterNotFoundAction is Deny: everything that the policy matches is refused, whatever validationActions are",
		"create the params, or set paramRef.parameterNotFoundAction of the binding to Allow",
		nil,
	},
	causeParamKind: {
		"the API server does not serve the kind of the policy's params, or not yet (it takes up to 30 s after the CRD was created): everything that the policy matches is refused, whatever its bindings say",
		"create the CRD and wait 30 s, or set failurePolicy of the policy to Ignore",
		nil,
	},
	causeParamsUnsynced: {
		"the API server has just started and had not read the policy's params yet",
		"try again; if it lasts, look at the API server's log for the kind of the params",
		nil,
	},
	causeParamNamespace: {
		"the params are in namespaces, the binding names none, and the request is about something outside namespaces: it is refused, whatever validationActions are",
		"set paramRef.namespace of the binding, or take cluster-scoped resources out of what it matches",
		nil,
	},
	causeNotReady: {
		"the API server had not read its webhook configurations, or its admission policies, within 10 s: it has just started, or cannot list them",
		"try again; if it lasts, look at the API server's log",
		nil,
	},
	causeOther: {
		"the call of the webhook failed, in words that are not known here",
		"look at the log of the backend and of the API server",
		nil,
	},
}
