package inventory

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// Exclusion is a rule by which an API server of EKS or EKS Anywhere keeps a request from
// webhooks, and from 1.33 on from policies. All its fields must match; "*" is any
// version, name or user, and "" the namespace of what is cluster-scoped. A subresource
// counts by the kind of its body. Source: EKS-PATCH-admission-webhook-exclusion-from-file.patch in
// github.com/aws/eks-distro.
type Exclusion struct {
	APIGroup   string   `json:"apiGroup"`
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace"`
	Names      []string `json:"name"`
	Username   string   `json:"username"`
}

// Any is what an Exclusion has for any version, name or user.
const Any = "*"

// eksExclusions are the rules of EKS Anywhere, which are public. Those of EKS are not.
// Source: github.com/aws/eks-anywhere
// pkg/providers/common/config/admission-plugin-exclusion-rules.json.
//
//go:embed exclusions_eks.json
var eksExclusions []byte

// presumedExclusions are eksExclusions, read once.
var presumedExclusions = sync.OnceValue(func() []Exclusion {
	var out []Exclusion
	if err := json.Unmarshal(eksExclusions, &out); err != nil {
		panic(err) // a mistake in the file beside this one
	}
	return out
})

// Platform is who runs the API servers, as far as that changes what they send to
// webhooks or what they report; "" is unknown, or a cluster like any other.
type Platform string

// The platforms that are recognized.
const (
	PlatformAKS       Platform = "aks"
	PlatformEKS       Platform = "eks"
	PlatformGKE       Platform = "gke"
	PlatformOpenShift Platform = "openshift"
)

// aksSelector is the label by which AKS's admissions enforcer keeps each webhook from its
// own namespaces. Source: AKS issues 1771 and 4002.
const aksSelector = "kubernetes.azure.com/managedby"

// Platform recognizes EKS and GKE by the version of the API server, as "v1.33.1-eks-1fbb135"
// and "v1.33.5-gke.1308000", GKE also by its API groups where no server states its whole
// version, and AKS by what it adds to registrations.
func (s *Snapshot) Platform() Platform {
	switch {
	case s.OpenShift:
		return PlatformOpenShift
	case s.Server.IsEKS():
		return PlatformEKS
	case strings.Contains(s.Server.Git, "-gke."), strings.Count(s.Server.Git, ".") < 2 && s.hasGroupsOfGKE():
		return PlatformGKE
	}
	for _, w := range s.Webhooks {
		if w.NamespaceSelector.reads(aksSelector) {
			return PlatformAKS
		}
	}
	return ""
}

// hasGroupsOfGKE reports whether CRDs, or objects to apply, are of the API groups of GKE.
// Those of Config Sync are on other platforms, too.
func (s *Snapshot) hasGroupsOfGKE() bool {
	ofGKE := func(group string) bool {
		return group == "cloud.google.com" || strings.HasSuffix(group, ".gke.io") && !strings.HasPrefix(group, "config")
	}
	for _, crd := range s.CRDs {
		if ofGKE(crd.Resource.Group) {
			return true
		}
	}
	return slices.ContainsFunc(s.Manifests, func(m Manifest) bool { return ofGKE(m.Group) })
}

// exclusions are those that EKS Anywhere publishes where the version says EKS: EKS keeps
// its own secret.
func (o Objects) exclusions() []Exclusion {
	if o.Server.IsEKS() {
		return presumedExclusions()
	}
	return nil
}
