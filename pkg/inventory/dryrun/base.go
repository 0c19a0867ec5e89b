package dryrun

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// fieldSet is a node of a FieldsV1.
type fieldSet = map[string]any

// base is the object as the first webhook gets it: as it is sent, with the defaults of the
// API server. Its answer to a dry run has all of that, and what webhooks changed; its
// managedFields are those from before they did. Source: createHandler in
// k8s.io/apiserver/pkg/endpoints/handlers.
func base(sent, stored, answer map[string]any) map[string]any {
	sent = decoded(sent)
	if answer == nil {
		return sent
	}
	set, metadata := fieldSet{}, mapAt(answer, "metadata")
	managed, _ := metadata["managedFields"].([]any)
	for _, entry := range managed {
		if entry := asMap(entry); entry["subresource"] == nil {
			join(set, mapAt(entry, "fieldsV1"))
		}
	}
	for _, system := range []string{"name", "namespace", "managedFields"} {
		join(set, fieldSet{"f:metadata": fieldSet{"f:" + system: fieldSet{}}})
	}
	if stored == nil {
		join(set, fieldSet{"f:metadata": fieldSet{"f:uid": fieldSet{}, "f:creationTimestamp": fieldSet{}}})
	}
	return asMap(completed(sent, answer, set))
}

// merged is the object as a server-side apply leaves it: maps are merged, and lists by the
// names of their elements.
func merged(stored, sent any) any {
	switch s := sent.(type) {
	case map[string]any:
		out := map[string]any{}
		maps.Copy(out, asMap(stored))
		for key, value := range s {
			out[key] = merged(out[key], value)
		}
		return out
	case []any:
		had, _ := stored.([]any)
		out := slices.Clone(had)
		for _, element := range s {
			name := asMap(element)["name"]
			if i := slices.IndexFunc(out, func(o any) bool { return name != nil && asMap(o)["name"] == name }); i >= 0 {
				out[i] = merged(out[i], element)
			} else if name == nil {
				return s
			} else {
				out = append(out, element)
			}
		}
		return out
	}
	return sent
}

// decoded is an object as the API server decodes it: the stringData of a Secret is data.
func decoded(sent map[string]any) map[string]any {
	plain := mapAt(sent, "stringData")
	if sent["kind"] != "Secret" || plain == nil {
		return sent
	}
	out, data := maps.Clone(sent), map[string]any{}
	maps.Copy(data, mapAt(sent, "data"))
	for key, value := range plain {
		data[key] = base64.StdEncoding.EncodeToString(fmt.Append(nil, value))
	}
	delete(out, "stringData")
	out["data"] = data
	return out
}

func join(target, source fieldSet) {
	for key, value := range source {
		if target[key] == nil {
			target[key] = fieldSet{}
		}
		join(target[key].(fieldSet), asMap(value))
	}
}

func sameQuantity(a, b any) bool {
	x, err := resource.ParseQuantity(fmt.Sprint(a))
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && x.Cmp(y) == 0 && reflect.TypeOf(b).Kind() == reflect.String
}

// defaults are values that the API server, or a plugin of it, sets where a field is
// missing. Source: SetDefaults_… in k8s.io/kubernetes/pkg/apis, and its plugin/pkg/admission.
var defaults = map[string][]any{
	"apiVersion": {"v1"}, "defaultMode": {int64(420)}, "divisor": {"0"}, "dnsPolicy": {"ClusterFirst"}, "expirationSeconds": {int64(3600)},
	"failureThreshold": {int64(3)}, "imagePullPolicy": {"Always", "IfNotPresent"}, "initialDelaySeconds": {int64(0)}, "periodSeconds": {int64(10)},
	"preemptionPolicy": {"PreemptLowerPriority"}, "priority": {int64(0)}, "procMount": {"Default"}, "protocol": {"TCP"}, "resources": {map[string]any{}}, "restartPolicy": {"Always"}, "schedulerName": {"default-scheduler"},
	"scheme": {"HTTP"}, "securityContext": {map[string]any{}}, "service": {""}, "serviceAccount": {"default"}, "serviceAccountName": {"default"}, "successThreshold": {int64(1)}, "terminationGracePeriodSeconds": {int64(30)},
	"terminationMessagePath": {"/dev/termination-log"}, "terminationMessagePolicy": {"File"}, "timeoutSeconds": {int64(1)}, "type": {""},
}

// completed is a value with the fields that the answer of the API server has besides, where
// they are managed, or are defaults.
func completed(value, answer any, set fieldSet) any {
	switch v := value.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for key, is := range asMap(answer) {
			below, managed := set["f:"+key].(fieldSet)
			if had, ok := v[key]; ok {
				out[key] = completed(had, is, below)
			} else if isDefault := func(d any) bool { return reflect.DeepEqual(d, is) }; managed || slices.ContainsFunc(defaults[key], isDefault) || byPlugin(key, is) {
				out[key] = completed(emptied(is), is, below)
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
	if sameQuantity(value, answer) {
		return answer
	}
	return value
}

// userMaps are fields with maps that an API server leaves out where they are empty.
var userMaps = []string{"annotations", "binaryData", "data", "labels", "limits", "matchLabels", "nodeSelector", "overhead", "requests", "stringData"}

// encoded is a value of a kind of the API server as it writes it: without null, empty lists
// and empty maps of the user's.
func encoded(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			value = encoded(value)
			_, isMap := value.(map[string]any)
			if !isEmpty(value) || isMap && !slices.Contains(userMaps, key) {
				out[key] = value
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = encoded(v[i])
		}
		return out
	}
	return v
}

// emptied is a map without its fields, of which some may be managed; or another value.
func emptied(v any) any {
	if m := asMap(v); m != nil {
		return map[string]any{}
	}
	return v
}

// elementSet is that of an element of a list, by its keys.
func elementSet(set fieldSet, element any) fieldSet {
	for key, below := range set {
		var keys map[string]any
		if text, ok := strings.CutPrefix(key, "k:"); !ok || json.Unmarshal([]byte(text), &keys) != nil {
			continue
		}
		other := func(key string, value any) bool { return fmt.Sprint(asMap(element)[key]) != fmt.Sprint(value) }
		maps.DeleteFunc(keys, func(key string, value any) bool { return !other(key, value) })
		if len(keys) == 0 {
			return asMap(below)
		}
	}
	return nil
}

// byPlugin reports whether plugins of the API server set such a field before webhooks are
// called. Source: k8s.io/kubernetes plugin/pkg/admission.
func byPlugin(key string, value any) bool {
	tolerations, _ := value.([]any)
	foreign := func(t any) bool {
		key, _ := asMap(t)["key"].(string)
		return !strings.HasPrefix(key, "node.kubernetes.io/")
	}
	return key == "tolerations" && !slices.ContainsFunc(tolerations, foreign)
}

// paths are the JSON pointers at which two values differ, of what is left out of no patch.
func paths(a, b any, location string) []string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		var out []string
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			out = append(out, paths(x[key], y[key], location+"/"+escape.Replace(key))...)
		}
		return out
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		var out []string
		for i := range x {
			out = append(out, paths(x[i], y[i], fmt.Sprintf("%s/%d", location, i))...)
		}
		return out
	}
	if reflect.DeepEqual(a, b) || isEmpty(a) && isEmpty(b) {
		return nil
	}
	return []string{location}
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// isEmpty reports whether an API server leaves the value out.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func mapAt(m map[string]any, key string) map[string]any { return asMap(m[key]) }
