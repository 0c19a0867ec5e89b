{{- /* Refuses namespaces that other software needs. */}}
{{- define "checkNamespace" }}
{{- $namespace := .Release.Namespace }}
{{- if or (eq $namespace "default") (hasPrefix "kube-" $namespace) }}
{{- fail (printf "the release namespace must be one of its own, as webhook-auditor or openshift-webhook-auditor, not %s: the ResourceQuota would count the critical Pods of others, and uninstalling ends with deleting the namespace. Use --namespace webhook-auditor --create-namespace" $namespace) }}
{{- end }}
{{- end }}
