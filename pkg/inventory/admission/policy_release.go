package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// apiLife are the minor releases in which API servers serve a version: from Since on, and
// not from Gone on; 0 is never.
type apiLife struct{ since, removed int }

// policyLives are those of admission policies and their bindings. A test compares them with
// k8s.io/api admissionregistration, zz_generated.prerelease-lifecycle.go.
var policyLives = map[inventory.Type]map[string]apiLife{
	inventory.ValidatingPolicy: {"v1alpha1": {26, 32}, "v1beta1": {28, 34}, "v1": {30, 0}},
	inventory.MutatingPolicy:   {"v1alpha1": {32, 38}, "v1beta1": {34, 40}, "v1": {36, 0}},
}

// served refuses the apiVersion of a policy or binding of the type which API servers of the
// release do not serve. Versions before v1 are off by default.
func (v *validator) served(t inventory.Type, gv schema.GroupVersion, server inventory.Version) {
	version, apiVersion := gv.Version, gv.String()
	life, ok := policyLives[t][version]
	fault := ""
	switch write := "write " + admissionv1.SchemeGroupVersion.String(); {
	case !server.Known() || !ok || server.Major != 1:
	case server.Minor < life.since:
		fault = fmt.Sprintf("served from v1.%d on", life.since)
	case life.removed > 0 && server.Minor >= life.removed:
		fault = fmt.Sprintf("not served from v1.%d on: %s", life.removed, write)
	case version != "v1" && server.Minor >= policyLives[t]["v1"].since:
		fault = fmt.Sprintf("off by default (--runtime-config=%s=true), and gone from v1.%d on: %s", apiVersion, life.removed, write)
	case version != "v1":
		fault = fmt.Sprintf("off by default (--runtime-config=%s=true)", apiVersion)
	}
	if fault != "" {
		v.errors = append(v.errors, field.Forbidden(field.NewPath("apiVersion"), apiVersion+" is "+fault))
	}
}

// PolicyReleases says, as a sentence, which releases serve which versions of policies or
// bindings of the kind; "" for another kind.
func PolicyReleases(kind string) string {
	kind = strings.TrimSuffix(strings.ToLower(kind), "binding")
	for t, lives := range policyLives {
		if kind != strings.ToLower(t.RegisteredBy().Kind) {
			continue
		}
		out := []string{fmt.Sprintf("API servers serve v1 of it from v1.%d on, by default", lives["v1"].since)}
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			out = append(out, fmt.Sprintf("%s from v1.%d to v1.%d", version, lives[version].since, lives[version].removed-1))
		}
		return strings.Join(out, ", ") + " with --runtime-config."
	}
	return ""
}

// PanicsBefore is the minor release before which API servers panic at an Object in a list
// or map that a JSON patch sets, whatever the failurePolicy. Patch releases of v1.35 and
// v1.36 from August 2026 on have it as well. Source: kubernetes/kubernetes#142181, #139032.
const PanicsBefore = 37

// ObjectsInLists are the indices of the policy's mutations that set a list or map with an
// Object in it by a JSON patch. Variables have none: an API server compiles these without the
// types of mutations.
func ObjectsInLists(p *inventory.AdmissionPolicy) []int {
	var out []int
	for i, m := range p.Mutations {
		if m.JSONPatch != nil && slices.ContainsFunc(structsIn(m.JSONPatch.Expression), isInListOfValue) {
			out = append(out, i)
		}
	}
	return out
}

// isInListOfValue reports whether an Object stands in a list or map of the value of a JSONPatch.
func isInListOfValue(e ast.NavigableExpr) bool {
	inList := false
	for up, ok := e.Parent(); ok; up, ok = up.Parent() {
		switch up.Kind() {
		case ast.ListKind, ast.MapKind:
			inList = true
		case ast.StructKind: // what is in an Object is converted otherwise
			return inList && up.AsStruct().TypeName() == "JSONPatch"
		}
	}
	return false
}

// structsIn are the structs that an expression makes; none of one that does not parse, which is
// refused.
func structsIn(expression string) []ast.NavigableExpr {
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.EnableMacroCallTracking())
	utilruntime.Must(err) // its options are constants
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil
	}
	return ast.MatchDescendants(ast.NavigateAST(parsed.NativeRep()), ast.KindMatcher(ast.StructKind))
}

// atomicFields are the lists, maps and structs of the kinds of the groups "", apps and batch that
// are one value to a server-side apply, by the field that they are in. Source: the schema of
// k8s.io/client-go/applyconfigurations; validatePatch in k8s.io/apiserver
// pkg/admission/plugin/policy/mutating/patch. TestAtomicFields of e2e/suites/explain holds them.
var atomicFields = map[string]string{
	"Object":                    "imagePullSecrets involvedObject related subsets",
	"capabilities":              "add drop",
	"cephfs":                    "monitors secretRef",
	"cinder":                    "secretRef",
	"configMap":                 "items",
	"containers":                "args command envFrom resizePolicy restartPolicyRules",
	"csi":                       "controllerExpandSecretRef controllerPublishSecretRef nodeExpandSecretRef nodePublishSecretRef nodeStageSecretRef",
	"dnsConfig":                 "nameservers options searches",
	"downwardAPI":               "items",
	"ephemeralContainers":       "args command envFrom resizePolicy restartPolicyRules",
	"exec":                      "command",
	"fc":                        "targetWWNs wwids",
	"flexVolume":                "secretRef",
	"hostAliases":               "hostnames",
	"httpGet":                   "httpHeaders",
	"initContainers":            "args command envFrom resizePolicy restartPolicyRules",
	"iscsi":                     "portals secretRef",
	"nodeAffinity":              "preferredDuringSchedulingIgnoredDuringExecution required requiredDuringSchedulingIgnoredDuringExecution",
	"podAffinity":               "preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution",
	"podAntiAffinity":           "preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution",
	"podFailurePolicy":          "rules",
	"projected":                 "sources",
	"rbd":                       "monitors secretRef",
	"scaleIO":                   "secretRef",
	"schedulingConstraints":     "topology",
	"secret":                    "items",
	"securityContext":           "supplementalGroups sysctls",
	"spec":                      "accessModes clusterIPs dataSource externalIPs finalizers ipFamilies limits loadBalancerSourceRanges mountOptions nodeSelector readinessGates scopeSelector scopes selector taints tolerations volumeClaimTemplates",
	"storageos":                 "secretRef",
	"successPolicy":             "rules",
	"topologySpreadConstraints": "labelSelector matchLabelKeys",
	"valueFrom":                 "configMapKeyRef fieldRef fileKeyRef resourceFieldRef secretKeyRef",
}

// AtomicFields are those that the policy's applyConfigurations set, each with its mutation: an API
// server refuses that. Other fields are not known, nor are custom resources.
func AtomicFields(p *inventory.AdmissionPolicy) []string {
	isCustom := func(r admissionv1.RuleWithOperations) bool {
		return !sets.New("", "apps", "batch").HasAll(r.APIGroups...)
	}
	if slices.ContainsFunc(p.Rules, isCustom) {
		return nil
	}
	var out []string
	for i, m := range p.Mutations {
		if m.ApplyConfiguration == nil {
			continue
		}
		for _, e := range structsIn(m.ApplyConfiguration.Expression) {
			typeName := e.AsStruct().TypeName()
			atomic := strings.Fields(atomicFields[typeName[strings.LastIndexByte(typeName, '.')+1:]])
			for _, f := range e.AsStruct().Fields() {
				if name := f.AsStructField().Name(); slices.Contains(atomic, name) {
					out = append(out, fmt.Sprintf("%s by mutations[%d]", strings.TrimPrefix(typeName+"."+name, "Object."), i))
				}
			}
		}
	}
	return out
}
