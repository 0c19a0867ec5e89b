package inventory

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// The built-in resources of each release, recorded by the end-to-end tests from
// a real API server, and before 1.34 from what the sources of Kubernetes hold:
// one line "GROUP/VERSION RESOURCE KIND SCOPE VERBS".
//
//go:embed served/*.txt
var recordings embed.FS

// Newest is the newest release that this binary knows; files without a
// version are taken to be meant for it.
var Newest = Version{Major: 1, Minor: 37}

var Oldest = Version{Major: 1, Minor: 30}

// Recorded returns the nearest release whose resources are recorded.
func (v Version) Recorded() Version {
	switch {
	case !v.Known(), v.AtLeast(Newest.Major, Newest.Minor):
		return Newest
	case !v.AtLeast(Oldest.Major, Oldest.Minor):
		return Oldest
	}
	return Version{Major: v.Major, Minor: v.Minor}
}

// Builtins returns the resources that a stock API server of the version
// serves, the nearest recorded one in place of others, and OpenShift's
// where asked.
func Builtins(v Version, openshift bool) []Served {
	out := recorded()[v.Recorded().String()]
	if openshift {
		out = slices.Concat(out, recorded()["openshift"])
	}
	return out
}

var recorded = sync.OnceValue(func() map[string][]Served {
	out := map[string][]Served{}
	names := []string{"openshift"}
	for minor := Oldest.Minor; minor <= Newest.Minor; minor++ {
		names = append(names, fmt.Sprintf("v1.%d", minor))
	}
	for _, name := range names {
		b, err := recordings.ReadFile("served/" + name + ".txt")
		utilruntime.Must(err)
		out[name] = parseServed(string(b))
	}
	return out
})

// parseServed reads lines "GROUP/VERSION RESOURCE KIND namespaced|cluster
// VERB,VERB"; empty lines and those that start with # are left out.
func parseServed(text string) []Served {
	var out []Served
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			out = append(out, servedFromFields(fields))
		}
	}
	return out
}

func servedFromFields(f []string) Served {
	group, version, grouped := strings.Cut(f[0], "/")
	if !grouped {
		group, version = "", f[0]
	}
	name, sub, _ := strings.Cut(f[1], "/")
	return Served{
		Resource:   Resource{Group: group, Name: name, Subresource: sub},
		Version:    version,
		Kind:       f[2],
		Namespaced: f[3] == "namespaced",
		Verbs:      strings.Split(f[4], ","),
	}
}
