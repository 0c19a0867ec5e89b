package inventory

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Exclusion is a rule by which an API server of EKS or EKS Anywhere keeps a request from
// webhooks, and from 1.33 on from policies. All its fields must match; "*" is any
// version, namespace, name or user. A subresource counts by the kind of its body.
// Source: EKS-PATCH-admission-webhook-exclusion-from-file.patch in
// github.com/aws/eks-distro.
type Exclusion struct {
	APIGroup   string   `json:"apiGroup"`
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Scope      string   `json:"scope"`
	Namespace  string   `json:"namespace,omitempty"`
	Names      []string `json:"name"`
	Username   string   `json:"username"`
}

// Exclusions are the rules of an API server.
type Exclusions struct {
	Rules []Exclusion
	// Presumed says that they are public ones, in place of the platform's own, which are secret.
	Presumed bool
}

// The scopes of an Exclusion. Namespaces are cluster-scoped.
const (
	ClusterScope   = "Cluster"
	NamespaceScope = "Namespaced"
)

// Any is what an Exclusion has for any name, user, version or namespace.
const Any = "*"

// eksExclusions are the rules of EKS Anywhere, which are public. Those of EKS are not.
// Source: github.com/aws/eks-anywhere
// pkg/providers/common/config/admission-plugin-exclusion-rules.json.
//
//go:embed exclusions_eks.json
var eksExclusions []byte

// knownEKSExclusions are eksExclusions, read once.
var knownEKSExclusions = func() []Exclusion {
	out, err := ParseExclusions(eksExclusions)
	if err != nil {
		panic(err) // a mistake in the file beside this one
	}
	return out
}()

// ParseExclusions reads the file that EKS_PATCH_EXCLUSION_RULES_FILE names. An error
// names the rule and what it must have.
func ParseExclusions(text []byte) ([]Exclusion, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var out []Exclusion
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("must be a JSON list of exclusion rules: %w", err)
	}
	for i, e := range out {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("exclusion rule %d: %w", i+1, err)
		}
	}
	return out, nil
}

// Validate says what an API server drops the rule for.
func (e Exclusion) Validate() error {
	switch {
	case e.Kind == "" || e.Kind == Any || e.APIGroup == Any:
		return fmt.Errorf("must name one apiGroup and one kind, not %q and %q", e.APIGroup, e.Kind)
	case e.Scope != ClusterScope && e.Scope != NamespaceScope:
		return fmt.Errorf("scope must be %s or %s, not %q", ClusterScope, NamespaceScope, e.Scope)
	case (e.Scope == NamespaceScope) == (e.Namespace == ""):
		return fmt.Errorf("must have a namespace if its scope is %s, and none otherwise", NamespaceScope)
	case e.APIVersion == "" || len(e.Names) == 0 || e.Username == "":
		return errors.New(`must have an apiVersion, a list of names and a username, each of which may be "*"`)
	}
	return nil
}

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
// and "v1.33.5-gke.1308000", and AKS by what it adds to registrations.
func (s *Snapshot) Platform() Platform {
	switch {
	case s.OpenShift:
		return PlatformOpenShift
	case s.Server.IsEKS():
		return PlatformEKS
	case strings.Contains(s.Server.Git, "-gke."):
		return PlatformGKE
	}
	for _, w := range s.Webhooks {
		if w.NamespaceSelector.reads(aksSelector) {
			return PlatformAKS
		}
	}
	return ""
}

// exclusions are the rules of the input, else those that EKS Anywhere publishes where the
// version says EKS.
func (o Objects) exclusions() Exclusions {
	if o.Exclusions == nil && o.Server.IsEKS() {
		return Exclusions{knownEKSExclusions, true}
	}
	return Exclusions{o.Exclusions, false}
}
