{{- define "labels" -}}
app.kubernetes.io/name: webhook-auditor
{{- end }}
{{- define "image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ .Values.image.repository }}{{ if hasPrefix "sha256:" $tag }}@{{ else }}:{{ end }}{{ $tag }}
{{- end }}
