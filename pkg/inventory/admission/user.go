package admission

import (
	"slices"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

type User struct {
	Name string
	// Groups are all groups of the user; nil where they are unknown.
	Groups []string
}

// NewUser returns the user with the groups that the API server adds; nil where no
// name is given. Without groups, those of a service account alone are known. Source:
// WithImpersonation in k8s.io/apiserver/pkg/endpoints/filters/impersonation.
func NewUser(name string, groups []string) *User {
	if name == "" {
		return nil
	}
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil && len(groups) == 0 {
		groups = serviceaccount.MakeGroupNames(namespace)
	}
	all := slices.Clone(groups)
	switch {
	case name == user.Anonymous && !slices.Contains(all, user.AllUnauthenticated):
		all = append(all, user.AllUnauthenticated)
	case name != user.Anonymous && len(all) > 0 && !slices.Contains(all, user.AllAuthenticated) &&
		!slices.Contains(all, user.AllUnauthenticated):
		all = append(all, user.AllAuthenticated)
	}
	return &User{Name: name, Groups: all}
}
