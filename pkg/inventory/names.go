package inventory

import (
	"cmp"
	"slices"
	"strings"
)

// shortNames are those of the built-in resources. Source: the ShortNames of
// k8s.io/kubernetes/pkg/registry; those of CRDs come with them.
var shortNames = map[string]Resource{
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

// indexNames notes by which names each resource goes: plural, singular, kind and
// short names.
func (x *index) indexNames() {
	x.byName = map[string][]int{}
	for i, t := range x.targets {
		if t.Subresource != "" {
			continue
		}
		names := append([]string{t.Name}, t.aliases...)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			x.byName[name] = append(x.byName[name], i)
		}
	}
	for name, r := range shortNames {
		if i, served := x.at[r]; served && !slices.Contains(x.byName[name], i) {
			x.byName[name] = append(x.byName[name], i)
			slices.Sort(x.byName[name])
		}
	}
}

// named returns the resources that go by the name: the one that kubectl would
// take comes first.
func (x *index) named(name string) []Resource {
	var out []Resource
	for _, i := range x.byName[name] {
		out = append(out, x.targets[i].Resource)
	}
	slices.SortStableFunc(out, func(a, b Resource) int { return cmp.Compare(precedence(a), precedence(b)) })
	return out
}

// precedence sorts the core group first, then Kubernetes' own groups, as
// discovery lists them.
func precedence(r Resource) int {
	switch {
	case r.Group == "":
		return 0
	case !strings.Contains(r.Group, ".") || strings.HasSuffix(r.Group, ".k8s.io"):
		return 1
	}
	return 2
}

// maxSuggested bounds the names that an error suggests.
const maxSuggested = 5

// similar returns the names of resources that look like what was typed, the
// nearest first.
func (x *index) similar(typed string) []string {
	name, _, _ := strings.Cut(strings.ToLower(typed), ".")
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, t := range x.targets {
		if t.Subresource != "" {
			continue
		}
		d := distance(name, t.Name)
		if strings.Contains(t.Name, name) && len(name) > 2 {
			d = min(d, 1)
		}
		if d <= 1+len(name)/4 {
			near = append(near, candidate{t.Resource.String(), d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var out []string
	for _, c := range near[:min(len(near), maxSuggested)] {
		out = append(out, c.name)
	}
	return out
}

// subresources returns the resource's subresources, as they are typed.
func (x *index) subresources(parent Resource) []string {
	var out []string
	for _, t := range x.targets {
		if t.Subresource != "" && t.Parent() == parent {
			out = append(out, t.Resource.String())
		}
	}
	return out
}

// distance is Levenshtein's: how many letters to change, add or take away.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
