package inventory

import (
	"slices"
	"strings"
)

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
