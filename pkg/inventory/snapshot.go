package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

// Snapshot is all that was read of a cluster at one time. It is never
// written to after it was made.
type Snapshot struct {
	// Taken is the only clock that checks and exporters may read.
	Taken time.Time
	Cluster
	// ReviewsExcluded says that the server never sends the six authentication
	// and authorization reviews to webhooks (Kubernetes 1.37 by default).
	ReviewsExcluded bool

	// Webhooks are sorted by type, configuration and place in it, which is the
	// order in which the API server calls the mutating ones. Several Snapshots
	// share those of a configuration that did not change.
	Webhooks []*Webhook
	// Policies are the admission policies with their bindings, sorted by type and name:
	// the API server has no order among them. Unbound are the bindings of policies that
	// the input does not hold.
	Policies []*AdmissionPolicy
	Unbound  []*PolicyBinding
	// Served are the resources that the server serves, each version once.
	Served []Served

	Namespaces  map[string]Namespace
	Services    map[Key]Service
	CRDs        map[string]*CRD
	APIServices map[string]APIService
	// Workloads are sorted by namespace, kind and name.
	Workloads []Workload
	// DisruptionBudgets are sorted by namespace and name.
	DisruptionBudgets []DisruptionBudget
	// NetworkPolicies are those that isolate Pods for ingress, sorted by namespace and
	// name.
	NetworkPolicies []NetworkPolicy
	// PeerAuthentications and AuthorizationPolicies are Istio's, LinkerdPolicies Linkerd's, of files alone.
	PeerAuthentications   []*PeerAuthentication
	AuthorizationPolicies []*AuthorizationPolicy
	LinkerdPolicies       []*LinkerdPolicy
	// IssuedCertificates are cert-manager's, of files alone.
	IssuedCertificates []*IssuedCertificate
	// Probes are what dialing the backends showed, where that was done.
	Probes map[Ref]Probe
	// Observed is what API servers measured; nil where no source was read.
	Observed *Observation
	// AuditLog is what audit logs record; nil where none was read.
	AuditLog *AuditLog

	Errors []Error

	placement *placement
}

// Cluster has the facts about a cluster as a whole, and how much of it the input covers.
type Cluster struct {
	Server Version
	// OpenShift says that the input shows OpenShift's APIs.
	OpenShift bool
	// Upgrading says that the cluster's version is being changed, so that
	// backends come and go.
	Upgrading bool
	Routing   Routing
	// Nodes are the names of the cluster's nodes; none where they are unknown.
	Nodes []string

	// Inputs are the paths that were read; nil for a cluster.
	Inputs []Input
	// Manifests are the objects that are still to be applied, in the order of the
	// inputs; nil where these are of a cluster.
	Manifests []Manifest

	// What the input does not cover is unknown, never missing.
	// ResourcesKnown says that the CRDs, or the resources that are served, are all there are.
	ResourcesKnown   bool
	NamespacesKnown  bool
	APIServicesKnown bool
	// PoliciesKnown says that the policies and bindings are all there are.
	PoliciesKnown  bool
	ServicesKnown  Coverage
	EndpointsKnown Coverage
	// Covered are the namespaces of which files hold all objects of a resource, by GROUP/RESOURCE;
	// "" is all of them.
	Covered map[string]map[string]bool

	// Current is the time at which everything that was read was last known to be
	// current; it does not advance while a watch is broken. Zero for files.
	Current time.Time
	// Outdated are the resources that a broken watch keeps from being current, with
	// the last time at which they were.
	Outdated map[Resource]time.Time
	// WatchErrors counts the failed calls of the watches since the start, by
	// resource.
	WatchErrors map[Resource]int64
	// Regressions counts how often, since the start, the API server's resource
	// version went back, as after a restore of etcd from a backup.
	Regressions int64
}

// Error is something that cannot be read. It is never a finding.
type Error struct {
	Source Source
	// Object names what could not be read, as "Kind/name" or a path.
	Object    string
	Message   string
	Forbidden bool
	// Resources are those of which it keeps objects from being read, as RESOURCE.GROUP and
	// separated by commas; AnyResource where it may be any, "" where it is none. Name is
	// that of the object, "" where it may be any.
	Resources, Name string
	// Stale says that they were read before, and are as they were then, Uncompared that they
	// were read, and are too many to be compared.
	Stale, Uncompared bool
}

// AnyResource stands for all resources: a file that cannot be read may hold any.
const AnyResource = "*"

// Concerns reports whether objects of the resource, as RESOURCE.GROUP, may be among those
// that cannot be read.
func (e Error) Concerns(resource string) bool {
	return e.Resources == AnyResource || slices.Contains(strings.Split(e.Resources, ","), resource)
}

// Error returns the place, the object and the reason on one line.
func (e Error) Error() string {
	var b strings.Builder
	if e.Source.File != "" {
		fmt.Fprintf(&b, "%s:", e.Source.File)
		if e.Source.Line > 0 {
			fmt.Fprintf(&b, "%d:", e.Source.Line)
		}
		b.WriteByte(' ')
	}
	if e.Object != "" {
		fmt.Fprintf(&b, "%s: ", e.Object)
	}
	b.WriteString(e.Message)
	return b.String()
}

// Unread reports whether the object that registers the webhook, or is the policy, may be
// there and was never read. A Ref without a configuration stands for all of its type.
func (s *Snapshot) Unread(r Ref) bool {
	resource := r.Type.Resource().GroupResource().String()
	return slices.ContainsFunc(s.Errors, func(e Error) bool {
		return !e.Stale && e.Concerns(resource) && (e.Name == "" || r.Configuration == "" || e.Name == r.Configuration)
	})
}

// Input is what one path was taken for.
type Input struct {
	Path    string    `json:"path"`
	Kind    string    `json:"kind" jsonschema:"Kind is what the path was taken for: \"manifests\", \"must-gather\"; \"\" where it could not be opened."`
	Taken   time.Time `json:"taken,omitzero" jsonschema:"Taken is when the input was recorded; absent where that is not known, as of manifests."`
	Objects int       `json:"objects" jsonschema:"Objects counts what was read of it, Skipped what was not: other kinds, and YAML that is no object of Kubernetes."`
	Skipped int       `json:"skipped"`
	Lacks   []string  `json:"lacks,omitempty" jsonschema:"Lacks are the facts that it does not hold, and what follows from that."`
}

func (i Input) Name() string {
	if i.Path == "-" {
		return "standard input"
	}
	return i.Path
}

// Coverage says which Services, or their endpoints, the input holds all of. A
// cluster is read Service by Service, an archive namespace by namespace.
type Coverage struct {
	All        bool
	Namespaces map[string]bool
	Services   map[Key]bool
}

// Has reports whether the Service, or its endpoints, are missing where they are
// absent, rather than unknown.
func (c Coverage) Has(service Key) bool {
	return c.All || c.Namespaces[service.Namespace] || c.Services[service]
}

// Routing says where the API server sends calls to Services.
type Routing string

// The routings of kube-apiserver's flag --enable-aggregator-routing.
const (
	RoutingUnknown   Routing = ""
	RoutingClusterIP Routing = "cluster-ip"
	RoutingEndpoints Routing = "endpoints"
)

// Version is the version of an API server, or of the version it emulates. The
// zero Version is unknown.
type Version struct {
	Major, Minor int
	// Git is the full version as the server reports it, "v1.37.1".
	Git string
}

// ParseVersion reads "v1.36", "1.36" or "v1.36.2+k3s1".
func ParseVersion(s string) (Version, error) {
	major, rest, ok := strings.Cut(strings.TrimPrefix(s, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	minor = strings.TrimRight(minor, "+-abcdefghijklmnopqrstuvwxyz")
	ma, err1 := strconv.Atoi(major)
	mi, err2 := strconv.Atoi(minor)
	if !ok || err1 != nil || err2 != nil {
		return Version{}, fmt.Errorf("reading server version %q: must be MAJOR.MINOR, as in v1.36", s)
	}
	return Version{Major: ma, Minor: mi, Git: "v" + strings.TrimPrefix(s, "v")}, nil
}

func (v Version) Known() bool { return v.Major != 0 }

// IsEKS reports whether it is that of an API server of EKS, as "v1.33.1-eks-1fbb135".
func (v Version) IsEKS() bool { return strings.Contains(v.Git, "-eks-") }

func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// String returns the version as the server reports it, with the one that it emulates
// first, or "unknown".
func (v Version) String() string {
	own, err := ParseVersion(v.Git)
	switch {
	case err == nil && (own.Major != v.Major || own.Minor != v.Minor):
		return fmt.Sprintf("v%d.%d, emulated by %s", v.Major, v.Minor, v.Git)
	case v.Git != "":
		return v.Git
	case v.Known():
		return fmt.Sprintf("v%d.%d", v.Major, v.Minor)
	}
	return "unknown"
}

type Namespace struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	Terminating bool
}

type Service struct {
	Key
	Type         corev1.ServiceType
	ClusterIP    string
	ClusterIPs   []string
	ExternalName string
	Ports        []corev1.ServicePort
	Selector     map[string]string
	Labels       map[string]string
	// PublishNotReady says that its endpoints count as ready while their Pods are not.
	PublishNotReady bool
	// SameNode says that its cluster IP leads to endpoints on the caller's node alone:
	// internalTrafficPolicy Local.
	SameNode bool
	// Endpoints are those of all its slices, nil where there is no slice.
	Endpoints []Endpoint
}

type Endpoint struct {
	// Ready is the API server's notion: the condition is true or absent.
	Ready bool
	// Draining says that it terminates and still answers: where none is ready, a cluster
	// IP leads to such endpoints.
	Draining bool
	// Address is one of the endpoint's addresses; "" where it has none.
	Address string
	// Ports are the numbers of the slice's ports by their names; "" is a name
	// like any other, and a port without a name is never used.
	Ports map[string]int32
	Node  string
	Zone  string
}

type APIService struct {
	Name, Group, Version string
	// Service is nil where the API server serves the group itself.
	Service *ServiceRef
}

type CRD struct {
	Object
	Resource   Resource
	CustomKind string
	// Aliases are the singular and the short names.
	Aliases        []string
	Namespaced     bool
	Versions       []CRDVersion
	StorageVersion string
	StoredVersions []string
	// SameSchemas says that all versions are known to have the same schema.
	SameSchemas bool
	// Established is false while the API server does not serve it; files that
	// carry no status count as established.
	Established bool
}

func (c *CRD) ServedVersions() []string {
	var out []string
	for _, v := range c.Versions {
		if v.Served {
			out = append(out, v.Name)
		}
	}
	return out
}

func (c *CRD) VersionNames() []string {
	return lists.Map(c.Versions, func(v CRDVersion) string { return v.Name })
}

type CRDVersion struct {
	Name   string
	Served bool
	// Resources are the custom resource and its subresources, as the API server
	// serves them where Served is set.
	Resources []Served
}

// NamespaceLabels are the labels that the input has of a namespace, and whether the
// Snapshot has it.
func (s *Snapshot) NamespaceLabels(name string) (labels map[string]string, exists bool) {
	if n, ok := s.Namespaces[name]; ok {
		return n.Labels, true
	}
	return map[string]string{corev1.LabelMetadataName: name}, false
}

// SameResources reports whether the API servers of two Snapshots of one Builder serve the
// same by the same rules: a webhook that is the same matches the same resources then.
func (s *Snapshot) SameResources(o *Snapshot) bool {
	return s.Server == o.Server &&
		s.OpenShift == o.OpenShift &&
		s.ReviewsExcluded == o.ReviewsExcluded &&
		s.ResourcesKnown == o.ResourcesKnown &&
		s.NamespacesKnown == o.NamespacesKnown &&
		maps.Equal(s.CRDs, o.CRDs) &&
		slices.EqualFunc(s.Served, o.Served, Served.equal)
}

func (s Served) equal(o Served) bool {
	return s.Resource == o.Resource && s.Version == o.Version && s.Kind == o.Kind && s.Namespaced == o.Namespaced &&
		slices.Equal(s.Verbs, o.Verbs)
}
