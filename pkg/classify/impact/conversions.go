package impact

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// versionsField is what a CRD serves and stores.
const versionsField = "versions"

// storedObjects says what becomes of the objects that are stored, where the conversion of
// their CRD comes, goes, or gets other versions. Source: k8s.io/apiextensions-apiserver
// pkg/apiserver/conversion (without a webhook only apiVersion changes), and
// ValidateCustomResourceDefinitionStoredVersions.
func (p webhookPair) storedObjects() string {
	before, after := p.crdBefore, p.crdAfter
	switch {
	case before == nil:
		return "" // a new CRD has no objects
	case after == nil:
		return "where the CRD is deleted too, all its objects go with it"
	}
	stored, kept := admission.StoredVersions(before), after.VersionNames()
	if lost := difference(stored, kept); len(lost) > 0 {
		return fmt.Sprintf("the API server refuses the CRD while status.storedVersions has %s. Keep that with served: false until all objects are written anew", some(lost))
	}
	others := difference(text.Distinct(slices.Concat(stored, after.ServedVersions())), []string{after.StorageVersion})
	possible, unless := before.StoredVersions, ""
	if before.Applied != nil { // a file has no status
		possible = before.VersionNames()
		if rest := difference(possible, []string{after.StorageVersion}); len(rest) > 0 &&
			slices.Contains(kept, rest[0]) {
			unless = fmt.Sprintf("unless status.storedVersions has %s, ", some(rest))
		}
	}
	if len(others) == 0 {
		return strings.Join(append(otherVersions(before, after), fmt.Sprintf("%sall objects are stored in %s, so none is converted", unless, after.StorageVersion)), "; ")
	}
	readByControllers := func(v string) bool {
		return slices.Contains(possible, v) || version.CompareKubeAwareVersionStrings(v, after.StorageVersion) > 0
	}
	switch {
	case p.was == nil && p.now != nil && !slices.ContainsFunc(others, readByControllers):
		return fmt.Sprintf("requests for %s are converted now, and fail while the backend cannot be called. Helm and OLM write the CRD before new Pods serve", some(others))
	case p.now == nil && p.was.Object.Owner.Tool == "olm":
		return fmt.Sprintf("OLM keeps the conversion that it wrote, and takes its Service away: objects of %s cannot be read then", some(others))
	case p.now == nil:
		return fmt.Sprintf("objects of %s are no longer converted, only their apiVersion changes: fields that %s lacks are lost", some(others), after.StorageVersion)
	case p.was == nil:
		return fmt.Sprintf("objects of %s are converted now: while the backend cannot be called, they cannot be read, and namespaces with them stay Terminating. "+
			"Helm and OLM write the CRD before new Pods serve", some(others))
	}
	return strings.Join(otherVersions(before, after), "; ")
}

// otherVersions says what becomes of objects and clients where versions come, go, or are
// stored instead of others.
func otherVersions(before, after *inventory.CRD) []string {
	var out []string
	if ended := difference(before.ServedVersions(), after.ServedVersions()); len(ended) > 0 {
		out = append(out, "requests for "+some(ended)+" get 404")
	}
	if added := difference(after.VersionNames(), before.VersionNames()); len(added) > 0 {
		out = append(out, "the backend must convert "+some(added)+" before: Helm and OLM write the CRD before new Pods serve")
	}
	if before.StorageVersion != after.StorageVersion {
		out = append(out, fmt.Sprintf("objects stay stored in %s until they are written again, and need the backend", before.StorageVersion))
	}
	return out
}

func difference(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(others, s) })
}
