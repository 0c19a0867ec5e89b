package arguments

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// shortNames are those of the built-in resources. Source: the ShortNames of
// k8s.io/kubernetes/pkg/registry; those of CRDs come with them.
var shortNames = map[string]inventory.Resource{
	"cj":     {Group: "batch", Name: "cronjobs"},
	"cm":     {Name: "configmaps"},
	"crd":    {Group: "apiextensions.k8s.io", Name: "customresourcedefinitions"},
	"crds":   {Group: "apiextensions.k8s.io", Name: "customresourcedefinitions"},
	"cs":     {Name: "componentstatuses"},
	"csr":    {Group: "certificates.k8s.io", Name: "certificatesigningrequests"},
	"deploy": {Group: "apps", Name: "deployments"},
	"ds":     {Group: "apps", Name: "daemonsets"},
	"ep":     {Name: "endpoints"},
	"ev":     {Name: "events"},
	"hpa":    {Group: "autoscaling", Name: "horizontalpodautoscalers"},
	"ing":    {Group: "networking.k8s.io", Name: "ingresses"},
	"limits": {Name: "limitranges"},
	"netpol": {Group: "networking.k8s.io", Name: "networkpolicies"},
	"no":     {Name: "nodes"},
	"ns":     {Name: "namespaces"},
	"pc":     {Group: "scheduling.k8s.io", Name: "priorityclasses"},
	"pdb":    {Group: "policy", Name: "poddisruptionbudgets"},
	"po":     {Name: "pods"},
	"pv":     {Name: "persistentvolumes"},
	"pvc":    {Name: "persistentvolumeclaims"},
	"quota":  {Name: "resourcequotas"},
	"rc":     {Name: "replicationcontrollers"},
	"rs":     {Group: "apps", Name: "replicasets"},
	"sa":     {Name: "serviceaccounts"},
	"sc":     {Group: "storage.k8s.io", Name: "storageclasses"},
	"sts":    {Group: "apps", Name: "statefulsets"},
	"svc":    {Name: "services"},
}

// resourceNames are the names that kubectl takes for the served resources:
// plural, singular, kind and short names.
type resourceNames struct {
	// parents are the resources that are no subresources, and subresources the
	// others, as the Snapshot has them.
	parents, subresources []inventory.Resource
	byName                map[string][]inventory.Resource
	// presumed are those that rules alone name.
	presumed map[inventory.Resource]bool
	// notServed is what follows where there is none of a name in the group.
	notServed func(group string) string
}

func newResourceNames(s *inventory.Snapshot) resourceNames {
	n := resourceNames{
		byName: map[string][]inventory.Resource{}, presumed: map[inventory.Resource]bool{}, notServed: s.NotServed,
	}
	found := map[inventory.Resource]bool{}
	for _, served := range s.Served {
		r := served.Resource
		switch {
		case found[r]:
		case r.Subresource != "":
			n.subresources = append(n.subresources, r)
		default:
			n.parents = append(n.parents, r)
			n.presumed[r] = served.Presumed()
			n.add(r, r.Name)
			if !served.Presumed() {
				n.add(r, strings.ToLower(served.Kind))
			}
			if crd := s.CRDs[r.Name+"."+r.Group]; crd != nil {
				n.add(r, crd.Aliases...)
			}
		}
		found[r] = true
	}
	for name, r := range shortNames {
		if found[r] {
			n.add(r, name)
		}
	}
	for _, all := range n.byName { // the one that kubectl takes comes first
		slices.SortStableFunc(all, func(a, b inventory.Resource) int {
			return cmp.Or(cmp.Compare(precedence(a), precedence(b)), a.Compare(b))
		})
	}
	return n
}

func (n resourceNames) add(r inventory.Resource, names ...string) {
	for _, name := range names {
		if !slices.Contains(n.byName[name], r) {
			n.byName[name] = append(n.byName[name], r)
		}
	}
}

// precedence sorts the core group first, then Kubernetes' own groups, as
// discovery lists them.
func precedence(r inventory.Resource) int {
	switch {
	case r.Group == "":
		return 0
	case !strings.Contains(r.Group, ".") || strings.HasSuffix(r.Group, ".k8s.io"):
		return 1
	}
	return 2
}

// NotServedError is about a resource that the cluster does not have, as opposed to a
// command line that no cluster understands.
type NotServedError struct{ error }

// resolve finds the resource that a user of kubectl means: RESOURCE or
// RESOURCE.GROUP, with /SUBRESOURCE. The note lists others of that name.
func (n resourceNames) resolve(typed string) (r inventory.Resource, note string, err error) {
	main, sub, _ := strings.Cut(strings.TrimSpace(typed), "/")
	name, group, qualified := strings.Cut(main, ".")
	name = strings.ToLower(name)
	found := slices.Clone(n.byName[name])
	if len(found) == 0 { // of a resource that rules alone name, the kind is unknown
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: name})
		found = slices.Clone(n.byName[plural.Resource])
	}
	switch {
	case qualified:
		found = slices.DeleteFunc(found, func(r inventory.Resource) bool { return r.Group != group })
	case slices.ContainsFunc(found, func(r inventory.Resource) bool { return !n.presumed[r] }):
		found = slices.DeleteFunc(found, func(r inventory.Resource) bool { return n.presumed[r] })
	}
	if len(found) == 0 {
		if !qualified {
			group = "*" // any may be meant
		}
		return inventory.Resource{}, "",
			NotServedError{fmt.Errorf("reading resource %q: %s%s", typed, n.notServed(group), Suggested(n.similar(main)))}
	}
	r = inventory.Resource{Group: found[0].Group, Name: found[0].Name, Subresource: sub}
	if sub != "" && !slices.Contains(n.subresources, r) {
		return inventory.Resource{}, "", NotServedError{fmt.Errorf("reading resource %q: %s has no subresource %s%s; a name is an argument of its own: %s %s",
			typed, found[0], sub, Suggested(n.subresourcesOf(found[0])), found[0], sub)}
	}
	return r, ambiguous(main, found), nil
}

func (n resourceNames) subresourcesOf(parent inventory.Resource) []string {
	var out []string
	for _, r := range n.subresources {
		if r.Parent() == parent {
			out = append(out, r.String())
		}
	}
	return out
}

// ambiguous names the other resources of a name, "" if there are none.
func ambiguous(typed string, found []inventory.Resource) string {
	if len(found) == 1 {
		return ""
	}
	others := lists.Map(found[1:], inventory.Resource.String)
	return fmt.Sprintf("%s is taken to be %s; there is also %s", typed, found[0], strings.Join(others, ", "))
}

func Operations() []string {
	return []string{"create", "update", "patch", "apply", "scale", "delete", "connect"}
}

var operationsByName = map[string]admission.Operation{
	"create": admission.Create, "update": admission.Update, "patch": admission.Update, "apply": admission.Update, "scale": admission.Update,
	"delete": admission.Delete, "connect": admission.Connect,
}

// resolveOperation finds the operation that a user means. The API server admits
// every request to some subresources as CONNECT, which the note says.
func resolveOperation(typed string, served []admission.Operation,
	r inventory.Resource,
) (op admission.Operation, note string, err error) {
	op, ok := operationsByName[strings.ToLower(typed)]
	isRead := slices.Contains(reads, strings.ToLower(typed))
	connects := slices.Equal(served, []admission.Operation{admission.Connect})
	switch {
	case connects && op == admission.Connect:
		return op, "", nil
	case connects && (ok || isRead):
		return admission.Connect, fmt.Sprintf("admission sees every request to %s as CONNECT", r), nil
	case isRead:
		return "", "", fmt.Errorf("reading operation %q: no webhook is ever called for reading: must be one of %s", typed, strings.Join(Operations(), ", "))
	case !ok:
		return "", "", fmt.Errorf("reading operation %q: must be one of %s", typed, strings.Join(Operations(), ", "))
	}
	return op, "", nil
}

// CheckOperation refuses what is no operation, before anything is read.
func CheckOperation(typed string) error {
	name := strings.ToLower(typed)
	if _, ok := operationsByName[name]; ok || slices.Contains(reads, name) {
		return nil
	}
	return fmt.Errorf("reading operation %q: must be one of %s%s", typed, strings.Join(Operations(), ", "), Suggested(Like(name, Operations())))
}

// versioned is a resource as kubectl takes it with a version: NAME.VERSION.GROUP.
var versioned = regexp.MustCompile(`^([^./]+)\.(v\d+(?:(?:alpha|beta)\d+)?)\.(.+)$`)

// reads are the verbs that meet no admission.
var reads = []string{"get", "list", "watch"}

// Request is the request that a user of kubectl means. A resource that the API server does
// not serve is a NotServedError.
func Request(m *admission.Matcher, operation, resource string, subject admission.Subject) (admission.Request, error) {
	operation = strings.ToLower(operation)
	if operation == "scale" && !strings.Contains(resource, "/") {
		resource += "/scale"
	}
	if m := versioned.FindStringSubmatch(resource); m != nil {
		if version := strings.TrimPrefix(subject.Version, m[3]+"/"); version != "" && version != m[2] {
			return admission.Request{}, fmt.Errorf("reading resource %q: it is of version %s, not %s: the version must be given once", resource, m[2], version)
		}
		resource, subject.Version = m[1]+"."+m[3], m[2]
	}
	r, other, err := newResourceNames(m.Snapshot).resolve(resource)
	if err != nil {
		parent, sub, _ := strings.Cut(resource, "/")
		name, group, _ := strings.Cut(parent, ".")
		if s := m.Snapshot.Presume(inventory.Resource{Group: group, Name: name, Subresource: sub}); s != nil {
			m = m.Next(s)
			r, other, err = newResourceNames(s).resolve(resource)
		}
	}
	if err != nil {
		return admission.Request{}, err
	}
	op, connect, err := resolveOperation(operation, m.Operations(r), r)
	if err != nil {
		return admission.Request{}, err
	}
	subject.Patch = slices.Contains([]string{"patch", "apply", "scale"}, operation)
	request, err := m.OpenRequest(op, r, subject)
	if err != nil {
		return admission.Request{}, err
	}
	request.Notes = slices.DeleteFunc(append([]string{other, connect}, request.Notes...),
		func(s string) bool { return s == "" })
	return request, nil
}
