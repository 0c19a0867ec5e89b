package dryrun

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// base is the object as the first webhook gets it: as it is sent, with the defaults of the
// API server. Its answer to a dry run has all of that, and what webhooks changed; its
// managedFields are those from before they did. Source: createHandler in
// k8s.io/apiserver/pkg/endpoints/handlers.
func base(sent, answer map[string]any) map[string]any {
	if answer == nil {
		return sent
	}
	set := fields{}
	managed, _ := mapAt(answer, "metadata")["managedFields"].([]any)
	for _, entry := range managed {
		if entry := asMap(entry); entry["subresource"] == nil {
			join(set, mapAt(entry, "fieldsV1"))
		}
	}
	out := asMap(completed(sent, answer, set))
	if own := maps.Clone(mapAt(out, "metadata")); own != nil && managed != nil {
		own["managedFields"], out["metadata"] = managed, own
	}
	return out
}

// prepared is what validating webhooks get of an object of which the API server answers
// nothing, as it refuses the request. Source: BeforeCreate, BeforeUpdate in
// k8s.io/apiserver/pkg/registry/rest, and the strategy of Pods.
func (x *run) prepared() map[string]any {
	out := runtime.DeepCopyJSON(x.object)
	own, stored := mapAt(out, "metadata"), mapAt(x.Stored, "metadata")
	if generated, _ := own["generateName"].(string); generated != "" && own["name"] == nil {
		own["name"] = names.SimpleNameGenerator.GenerateName(generated)
	}
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation"} {
		if own != nil && own[field] == nil && stored[field] != nil {
			own[field] = stored[field]
		}
	}
	if x.Kind.Kind == "Pod" && x.Operation == admission.Create {
		out["status"] = fields{"phase": "Pending", "qosClass": qosClass(mapAt(out, "spec"))}
	}
	return out
}

// qosClass is that of a Pod. Source: ComputePodQOS in k8s.io/kubernetes
// pkg/apis/core/v1/helper/qos.
func qosClass(spec fields) string {
	all, limited := []fields{mapAt(spec, "resources")}, 0
	if all[0] == nil {
		all = nil
		for _, list := range []string{"initContainers", "containers"} {
			containers, _ := spec[list].([]any)
			for _, c := range containers {
				all = append(all, mapAt(asMap(c), "resources"))
			}
		}
	}
	for _, r := range all {
		for _, name := range []string{"cpu", "memory"} {
			limit := mapAt(r, "limits")[name]
			if limit != mapAt(r, "requests")[name] {
				return "Burstable"
			}
			if limit != nil && limit != "0" {
				limited++
			}
		}
	}
	switch limited {
	case 0:
		return "BestEffort"
	case 2 * len(all):
		return "Guaranteed"
	}
	return "Burstable"
}

func join(target, source fields) {
	for key, value := range source {
		if target[key] == nil {
			target[key] = fields{}
		}
		join(target[key].(fields), asMap(value))
	}
}

// completed is a value with the fields that the answer of the API server has besides, where
// they are managed, or come from its plugins.
func completed(value, answer any, set fields) any {
	switch v := value.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for key, is := range asMap(answer) {
			below, managed := set["f:"+key].(fields)
			if had, ok := v[key]; ok {
				out[key] = completed(had, is, below)
			} else if asMap(is) != nil && managed {
				out[key] = completed(map[string]any{}, is, below)
			} else if managed || is != nil && (ofPlugins[key] == is || key == "priority" && v["priorityClassName"] != nil) {
				out[key] = is
			}
		}
		return out
	case []any:
		list, _ := answer.([]any)
		out := slices.Clone(v)
		for i := range out {
			name := asMap(out[i])["name"]
			for n, a := range list {
				if name != nil && name == asMap(a)["name"] || name == nil && n == i && len(list) == len(out) {
					out[i] = completed(out[i], a, elementSet(set, a))
				}
			}
		}
		return out
	}
	return value
}

// elementSet is that of an element of a list, by its keys.
func elementSet(set fields, element any) fields {
	for key, below := range set {
		var keys map[string]any
		text, isElement := strings.CutPrefix(key, "k:")
		if isElement = isElement && json.Unmarshal([]byte(text), &keys) == nil; !isElement {
			continue
		}
		for name, value := range keys {
			isElement = isElement && fmt.Sprint(asMap(element)[name]) == fmt.Sprint(value)
		}
		if isElement {
			return asMap(below)
		}
	}
	return nil
}

// ofPlugins are fields that plugins of the API server set before webhooks are called, with
// the values for an object that says nothing of them. Source: k8s.io/kubernetes
// plugin/pkg/admission.
var ofPlugins = map[string]any{
	"preemptionPolicy": "PreemptLowerPriority", "priority": int64(0), "serviceAccount": "default", "serviceAccountName": "default",
}

// tolerate adds the tolerations of each Pod. Source: defaulttolerationseconds.
func tolerate(spec map[string]any) {
	list, _ := spec["tolerations"].([]any)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerates := func(t any) bool {
			toleration := asMap(t)
			return (toleration["key"] == nil || toleration["key"] == key) && (toleration["effect"] == nil || toleration["effect"] == "NoExecute")
		}
		if !slices.ContainsFunc(list, tolerates) {
			list = append(list, map[string]any{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)})
		}
	}
	spec["tolerations"] = list
}

// fields are those of an object, or of a FieldsV1.
type fields = map[string]any

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func mapAt(m map[string]any, key string) map[string]any { return asMap(m[key]) }
