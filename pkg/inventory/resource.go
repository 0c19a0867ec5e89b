package inventory

import (
	"cmp"
	"fmt"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

// Resource is a resource or subresource of an API group, in all its versions.
type Resource struct {
	Group       string
	Name        string
	Subresource string
}

// String writes the resource as kubectl does: pods, pods/exec,
// leases.coordination.k8s.io, deployments.apps/scale.
func (r Resource) String() string {
	s := r.Name
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	return s
}

// Path returns the resource and subresource as rules and metrics write them:
// "pods", "pods/exec".
func (r Resource) Path() string {
	if r.Subresource == "" {
		return r.Name
	}
	return r.Name + "/" + r.Subresource
}

func (r Resource) Parent() Resource { return Resource{Group: r.Group, Name: r.Name} }

func (r Resource) IsNamespaces() bool { return r.Group == "" && r.Name == "namespaces" }

func (r Resource) Compare(o Resource) int {
	return cmp.Or(cmp.Compare(r.Group, o.Group), cmp.Compare(r.Name, o.Name), cmp.Compare(r.Subresource, o.Subresource))
}

func (r Resource) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText writes. The group is all that follows the
// first dot, as for kubectl.
func (r *Resource) UnmarshalText(b []byte) error {
	s, sub, _ := strings.Cut(string(b), "/")
	name, group, _ := strings.Cut(s, ".")
	*r = Resource{Group: group, Name: name, Subresource: sub}
	if name == "" || strings.ContainsAny(string(b), " \t") {
		return fmt.Errorf("reading resource %q: must be as kubectl writes it, as in deployments.apps or pods/exec", b)
	}
	return nil
}

// ResourceNamed is the resource of a constant name, as kubectl writes it.
func ResourceNamed(name string) (r Resource) {
	utilruntime.Must(r.UnmarshalText([]byte(name)))
	return r
}

func ResourcesNamed(names string) []Resource { return lists.Map(strings.Fields(names), ResourceNamed) }

// Served is one version of a resource that the server serves.
type Served struct {
	Resource
	Version    string
	Kind       string
	Namespaced bool
	// Verbs as discovery lists them.
	Verbs []string
}
