package inventory

import (
	"slices"
	"testing"
)

// TestBuiltinsOfEachRelease holds the recordings against what each release
// brought, dropped, or had turned off by default.
func TestBuiltinsOfEachRelease(t *testing.T) {
	for _, c := range []struct {
		resource    Resource
		version     string
		first, last int
	}{
		{Resource{Name: "pods"}, "v1", 30, 37},
		{Resource{Group: "authentication.k8s.io", Name: "tokenreviews"}, "v1", 30, 37},
		{Resource{Group: "flowcontrol.apiserver.k8s.io", Name: "flowschemas"}, "v1beta3", 30, 31},
		{Resource{Group: "networking.k8s.io", Name: "servicecidrs"}, "v1", 33, 37},
		{Resource{Name: "pods", Subresource: "resize"}, "v1", 33, 37},
		{Resource{Group: "resource.k8s.io", Name: "resourceclaims"}, "v1", 34, 37},
		{Resource{Group: "admissionregistration.k8s.io", Name: "mutatingadmissionpolicies"}, "v1", 36, 37},
		{Resource{Group: "storage.k8s.io", Name: "volumeattributesclasses"}, "v1beta1", 0, 0},
	} {
		for minor := 30; minor <= 37; minor++ {
			served := slices.ContainsFunc(Builtins(Version{Major: 1, Minor: minor}, false), func(s Served) bool {
				return s.Resource == c.resource && s.Version == c.version
			})
			if want := c.first <= minor && minor <= c.last; served != want {
				t.Errorf("v1.%d serves %s %s: %t, want %t", minor, c.version, c.resource, served, want)
			}
		}
	}
	for outside, nearest := range map[int]int{29: 30, 38: 37} {
		got, want := Builtins(Version{Major: 1, Minor: outside}, false), Builtins(Version{Major: 1, Minor: nearest}, false)
		if len(got) != len(want) {
			t.Errorf("v1.%d serves %d resources, want the %d of v1.%d", outside, len(got), len(want), nearest)
		}
	}
}
