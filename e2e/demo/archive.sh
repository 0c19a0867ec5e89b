#!/bin/sh
# archive.sh FILE: the cluster of KUBECONFIG as an archive in the layout of a must-gather.
# Of the cluster of "make demo-live" it is cmd/webhook-auditor/demo.tar.gz.
set -eu
kubectl=$(cd "$(dirname "$0")/../bin" && pwd)/kubectl
file=${1:?a file to write}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/must-gather.local.demo

# get FOLDER GROUP RESOURCE [FLAGS]
get() {
	mkdir -p "$root/$1/$2"
	name=$3
	[ "$2" = core ] || name=$3.$2
	into=$root/$1/$2/$3.yaml
	shift 3
	"$kubectl" get "$name" -o yaml "$@" >"$into"
}

mkdir -p "$root"
date -u '+%Y-%m-%d %H:%M:%S.%N +0000 UTC' >"$root/timestamp"
get cluster-scoped-resources core namespaces
get cluster-scoped-resources admissionregistration.k8s.io validatingwebhookconfigurations
get cluster-scoped-resources admissionregistration.k8s.io mutatingwebhookconfigurations
get cluster-scoped-resources apiextensions.k8s.io customresourcedefinitions
get cluster-scoped-resources apiregistration.k8s.io apiservices
for namespace in $("$kubectl" get namespaces -o name); do
	namespace=${namespace#namespace/}
	get "namespaces/$namespace" core services -n "$namespace"
	get "namespaces/$namespace" core pods -n "$namespace"
	get "namespaces/$namespace" discovery.k8s.io endpointslices -n "$namespace"
	get "namespaces/$namespace" apps deployments -n "$namespace"
done
tar -C "$folder" -czf "$file" must-gather.local.demo
