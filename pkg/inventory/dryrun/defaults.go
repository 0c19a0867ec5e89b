package dryrun

import (
	"maps"
	"strings"

	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
)

func (x *run) withDefaults(object map[string]any) map[string]any {
	if x.typed() == nil {
		structuraldefaulting.Default(object, x.Schema)
		return object
	}
	object = asMap(addDefaults(object, "", ""))
	fill(object, ofObject[x.Kind.Kind])
	spec := mapAt(object, "spec")
	if spec == nil {
		return object
	}
	fill(spec, ofKind[x.Kind.Kind])
	switch x.Kind.Kind {
	case "Pod":
		setPod(spec)
	case "Service":
		setService(spec)
	case "Job":
		setJob(object, spec)
	case "StatefulSet": // the gate MaxUnavailableStatefulSet
		server, update := x.matcher.Snapshot.Server, mapAt(mapAt(spec, "updateStrategy"), "rollingUpdate")
		if update != nil && (!server.Known() || server.AtLeast(1, 35)) {
			fill(update, fields{"maxUnavailable": int64(1)})
		}
	}
	return object
}

var ofObject = map[string]fields{
	"Secret":                {"type": "Opaque"},
	"Namespace":             {"status": fields{"phase": "Active"}},
	"PersistentVolume":      {"status": fields{"phase": "Pending"}},
	"PersistentVolumeClaim": {"status": fields{"phase": "Pending"}},
	"DaemonSet":             {"metadata": fields{"annotations": fields{"deprecated.daemonset.template.generation": "0"}}}, // a field of an older version
}

// ofKind are the defaults of specifications, by the kind. Source: SetDefaults_… in
// k8s.io/kubernetes/pkg/apis/{apps,batch,core}/v1.
var ofKind = map[string]fields{
	"Pod":                   {"enableServiceLinks": true},
	"Service":               {"sessionAffinity": "None", "type": "ClusterIP"},
	"PersistentVolumeClaim": {"volumeMode": "Filesystem"},
	"ReplicaSet":            {"replicas": int64(1)},
	"Deployment": {
		"progressDeadlineSeconds": int64(600), "replicas": int64(1), "revisionHistoryLimit": int64(10),
		"strategy": rolling(fields{"maxSurge": "25%", "maxUnavailable": "25%"}),
	},
	"DaemonSet": {"revisionHistoryLimit": int64(10), "updateStrategy": rolling(fields{"maxSurge": int64(0), "maxUnavailable": int64(1)})},
	"StatefulSet": {
		"podManagementPolicy": "OrderedReady", "replicas": int64(1), "revisionHistoryLimit": int64(10),
		"persistentVolumeClaimRetentionPolicy": fields{"whenDeleted": "Retain", "whenScaled": "Retain"},
		"updateStrategy":                       rolling(fields{"partition": int64(0)}),
	},
	"CronJob": {"concurrencyPolicy": "Allow", "failedJobsHistoryLimit": int64(1), "successfulJobsHistoryLimit": int64(3), "suspend": false},
	"Job":     {"completionMode": "NonIndexed", "manualSelector": false, "suspend": false},
}

func rolling(values fields) fields { return fields{"type": "RollingUpdate", "rollingUpdate": values} }

// fill adds the defaults that are missing; those of a rolling update where there is one.
func fill(object, values fields) {
	for key, value := range values {
		below, isMap := value.(fields)
		switch kind := object["type"]; {
		case key == "rollingUpdate" && kind != nil && kind != "RollingUpdate":
		case isMap:
			if object[key] == nil {
				object[key] = fields{}
			}
			fill(mapAt(object, key), below)
		case object[key] == nil || object[key] == "":
			object[key] = value
		}
	}
}

// ofPluginAlone is what plugins set in an object that is created; in a Pod, where the API server
// answers nothing. Source: k8s.io/kubernetes plugin/pkg/admission/{priority,storage}.
func ofPluginAlone(kind string, object, answer map[string]any) {
	switch spec := mapAt(object, "spec"); {
	case kind == "Pod" && spec != nil && spec["priorityClassName"] == nil && answer == nil:
		fill(spec, fields{"priority": int64(0), "preemptionPolicy": "PreemptLowerPriority"})
	case kind == "PersistentVolumeClaim":
		fill(object, fields{"metadata": fields{"finalizers": []any{"kubernetes.io/pvc-protection"}}})
	case kind == "PersistentVolume":
		fill(object, fields{"metadata": fields{"finalizers": []any{"kubernetes.io/pv-protection"}}})
	}
}

// setPod has containers request what they are limited to.
func setPod(spec fields) {
	for _, r := range resourcesOf(spec) {
		if r["limits"] != nil {
			requests := maps.Clone(mapAt(r, "limits"))
			maps.Copy(requests, mapAt(r, "requests"))
			r["requests"] = requests
		}
	}
}

// resourcesOf are those of each container of a Pod.
func resourcesOf(spec fields) (out []fields) {
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			out = append(out, mapAt(asMap(c), "resources"))
		}
	}
	return out
}

// qosClass is that of a Pod. Source: ComputePodQOS in k8s.io/kubernetes
// pkg/apis/core/v1/helper/qos.
func qosClass(spec fields) string {
	all, limited := resourcesOf(spec), 0
	if ofPod := mapAt(spec, "resources"); ofPod != nil {
		all = []fields{ofPod}
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

// ofServices are the defaults of Services by their type.
var ofServices = map[any]fields{
	"ClusterIP":    {"internalTrafficPolicy": "Cluster"},
	"NodePort":     {"internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster"},
	"LoadBalancer": {"internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true},
}

func setService(spec fields) {
	fill(spec, ofServices[spec["type"]])
	if spec["sessionAffinity"] == "ClientIP" {
		fill(spec, fields{"sessionAffinityConfig": fields{"clientIP": fields{"timeoutSeconds": int64(10800)}}})
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if target := asMap(p)["targetPort"]; target == nil || target == int64(0) || target == "" {
			asMap(p)["targetPort"] = asMap(p)["port"]
		}
	}
}

func setJob(object, spec fields) {
	if spec["completions"] == nil && spec["parallelism"] == nil {
		spec["completions"] = int64(1)
	}
	values := fields{"parallelism": int64(1), "backoffLimit": int64(6), "podReplacementPolicy": "TerminatingOrFailed"}
	if spec["backoffLimitPerIndex"] != nil {
		values["backoffLimit"] = int64(1<<31 - 1)
	}
	if spec["podFailurePolicy"] != nil {
		values["podReplacementPolicy"] = "Failed"
	}
	fill(spec, values)
	if own := mapAt(object, "metadata"); len(mapAt(own, "labels")) == 0 && own != nil {
		if labels := mapAt(mapAt(mapAt(spec, "template"), "metadata"), "labels"); len(labels) > 0 {
			own["labels"] = maps.Clone(labels)
		}
	}
}

// fields are those of an object, or of a FieldsV1.
type fields = map[string]any

var (
	ofContainer = fields{"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
	ofProbe     = fields{"failureThreshold": int64(3), "periodSeconds": int64(10), "successThreshold": int64(1), "timeoutSeconds": int64(1)}
	ofVolume    = fields{"defaultMode": int64(0o644)}
	ofPodSpec   = fields{
		"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
		"securityContext": fields{}, "terminationGracePeriodSeconds": int64(30),
	}
)

// defaults are the fields that the API server sets in Pods and their templates where they
// are missing, by the field that they are in, with the field around it where it matters.
// Source: SetDefaults_… in k8s.io/kubernetes/pkg/apis/core/v1.
var defaults = map[string]fields{
	"containers": ofContainer, "initContainers": ofContainer, "ephemeralContainers": ofContainer,
	"livenessProbe": ofProbe, "readinessProbe": ofProbe, "startupProbe": ofProbe,
	"volumes/secret": ofVolume, "volumes/configMap": ofVolume, "volumes/downwardAPI": ofVolume, "volumes/projected": ofVolume,
	"fieldRef": {"apiVersion": "v1"}, "httpGet": {"path": "/", "scheme": "HTTP"}, "ports": {"protocol": "TCP"},
	"serviceAccountToken": {"expirationSeconds": int64(3600)}, "onPodConditions": {"status": "True"},
}

// addDefaults adds the defaults to a value of a field, that is in another one.
func addDefaults(v any, around, field string) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = addDefaults(v[i], around, field)
		}
	case map[string]any:
		for _, set := range []fields{defaults[field], defaults[around+"/"+field], pullPolicy(v)} {
			fill(v, set)
		}
		if v["containers"] != nil {
			fill(v, ofPodSpec)
		}
		for key := range v {
			v[key] = addDefaults(v[key], field, key)
		}
	}
	return v
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
