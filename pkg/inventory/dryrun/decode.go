package dryrun

import (
	"encoding/json"
	"maps"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// typed returns an empty object of the kind of the request; nil of a kind that is not among
// the Types, as of custom resources.
func (x *run) typed() runtime.Object {
	object, err := x.Types.New(schema.GroupVersionKind{Group: x.Kind.Group, Version: x.Kind.Version, Kind: x.Kind.Kind})
	if err != nil {
		return nil
	}
	return object
}

// decode returns the object as the API server decodes it; one without a type as it is.
func (x *run) decode(object map[string]any) (map[string]any, error) {
	typed := x.typed()
	if typed == nil {
		return object, nil
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(raw, typed); err != nil {
		return nil, err
	}
	if o, ok := typed.(*corev1.Secret); ok && o.StringData != nil {
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		for key, value := range o.StringData {
			o.Data[key] = []byte(value)
		}
		o.StringData = nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// withDefaults is a decoded object with the defaults. The containers of a Pod request what
// they are limited to.
func (x *run) withDefaults(object map[string]any) map[string]any {
	if x.typed() == nil {
		return object
	}
	object = asMap(addDefaults(object, "", ""))
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := mapAt(object, "spec")[list].([]any)
		for _, c := range containers {
			if r := mapAt(asMap(c), "resources"); x.Kind.Kind == "Pod" && r["limits"] != nil {
				requests := maps.Clone(mapAt(r, "limits"))
				maps.Copy(requests, mapAt(r, "requests"))
				r["requests"] = requests
			}
		}
	}
	return object
}

// merged is the object as a server-side apply leaves it, where no other manager owns what
// is sent.
func (x *run) merged(stored, sent map[string]any) (map[string]any, error) {
	if typed := x.typed(); typed != nil {
		return strategicpatch.StrategicMergeMapPatch(stored, sent, typed)
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	changes, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, changes)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, utiljson.Unmarshal(after, &out)
}

// fields are those of an object, or of a FieldsV1.
type fields = map[string]any

var (
	ofContainer = fields{"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
	ofProbe     = fields{"failureThreshold": int64(3), "periodSeconds": int64(10), "successThreshold": int64(1), "timeoutSeconds": int64(1)}
	ofVolume    = fields{"defaultMode": int64(0o644)}
	ofPodSpec   = fields{
		"dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always", "schedulerName": "default-scheduler",
		"securityContext": fields{}, "terminationGracePeriodSeconds": int64(30),
	}
)

// defaults are the fields that the API server sets in Pods and their templates where they
// are missing, by the field that they are in, with the field around it where it matters.
// Those of other kinds are managed. Source: SetDefaults_… in k8s.io/kubernetes/pkg/apis/core/v1.
var defaults = map[string]fields{
	"containers": ofContainer, "initContainers": ofContainer, "ephemeralContainers": ofContainer,
	"livenessProbe": ofProbe, "readinessProbe": ofProbe, "startupProbe": ofProbe,
	"volumes/secret": ofVolume, "volumes/configMap": ofVolume, "volumes/downwardAPI": ofVolume, "volumes/projected": ofVolume,
	"fieldRef": {"apiVersion": "v1"}, "httpGet": {"path": "/", "scheme": "HTTP"}, "ports": {"protocol": "TCP"},
	"serviceAccountToken": {"expirationSeconds": int64(3600)},
}

// addDefaults adds the defaults to a value of a field, that is in another one.
func addDefaults(v any, around, field string) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = addDefaults(v[i], around, field)
		}
	case map[string]any:
		for _, set := range []fields{defaults[field], defaults[around+"/"+field], pullPolicy(v), podSpec(v)} {
			for key, value := range set {
				if v[key] == nil {
					v[key] = value
				}
			}
		}
		for key := range v {
			v[key] = addDefaults(v[key], field, key)
		}
	}
	return v
}

// podSpec has the defaults of the specification of a Pod, where the object is one.
func podSpec(object map[string]any) fields {
	if object["containers"] == nil {
		return nil
	}
	return ofPodSpec
}

// pullPolicy has the default by the tag of the image of a container.
func pullPolicy(container map[string]any) fields {
	image, ok := container["image"].(string)
	if !ok {
		return nil
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	if tag == "latest" || !tagged && !strings.Contains(image, "@") {
		return fields{"imagePullPolicy": "Always"}
	}
	return fields{"imagePullPolicy": "IfNotPresent"}
}
