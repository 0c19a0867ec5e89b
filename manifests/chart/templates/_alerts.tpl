{{- /* Changes the alerts of an object as "webhook-auditor print rules" does with its options. Takes a dict of the object and the root. */}}
{{- define "adjustAlerts" }}
{{- $values := .root.Values.alerts }}
{{- $adjustable := (.root.Files.Get "files/alerts/adjustable.json" | fromJson).alerts }}
{{- range $name := concat $values.disabled (keys $values.thresholds) }}
{{- if not (hasKey $adjustable $name) }}{{ fail (printf "alerts: there is no alert %q" $name) }}{{ end }}
{{- end }}
{{- range $name := keys $values.thresholds }}
{{- if not (get $adjustable $name).threshold }}{{ fail (printf "alerts.thresholds: %s has none" $name) }}{{ end }}
{{- end }}
{{- range $group := .object.spec.groups }}
{{- $rules := list }}
{{- range $rule := $group.rules }}
{{- $name := default "" $rule.alert }}
{{- $labelled := printf "${1}%s${2}" $values.clusterLabel }}
{{- $_ := set $rule "expr" (regexReplaceAll "([({,])cluster([,)=!])" $rule.expr $labelled) }}
{{- $adjustment := default (dict) (get $adjustable $name) }}
{{- $wanted := "" }}
{{- if eq $values.severities "enhancement" }}
{{- $wanted = default "" $adjustment.enhancementThreshold }}
{{- with $adjustment.enhancementSeverity }}{{ $_ := set $rule.labels "severity" . }}{{ end }}
{{- end }}
{{- if hasKey $values.thresholds $name }}{{ $wanted = get $values.thresholds $name }}{{ end }}
{{- if $wanted }}
{{- $threshold := regexQuoteMeta $adjustment.threshold }}
{{- $_ := set $rule "expr" (regexReplaceAll (printf ">(\\s+)%s\\b" $threshold) $rule.expr (printf ">${1}%v" $wanted)) }}
{{- end }}
{{- if $name }}
{{- $_ := set $rule "labels" (merge (dict) $rule.labels $values.labels) }}
{{- $description := regexReplaceAll "([({,])cluster([,)=!])" $rule.annotations.description $labelled }}
{{- $description = regexReplaceAll "\\$labels\\.cluster\\b" $description (printf "$$labels.%s" $values.clusterLabel) }}
{{- $_ := set $rule.annotations "description" $description }}
{{- with $.root.Values.statusPage.url }}
{{- $path := "" }}
{{- if contains "$labels.name" (print $rule.annotations.summary $rule.annotations.description) }}
{{- $path = "webhooks?type={{ $labels.type | urlquery }}&q={{ $labels.name | urlquery }}" }}
{{- end }}
{{- $_ := set $rule.annotations "page_url" (print (trimSuffix "/" .) "/" $path) }}
{{- end }}
{{- $path := trimPrefix "https://github.com/webhook-auditor/webhook-auditor/blob/main" $rule.annotations.runbook_url }}
{{- $_ := set $rule.annotations "runbook_url" (print (trimSuffix "/" $values.runbookBaseURL) $path) }}
{{- end }}
{{- if not (has $name $values.disabled) }}{{ $rules = append $rules $rule }}{{ end }}
{{- end }}
{{- $_ := set $group "rules" $rules }}
{{- end }}
{{- end }}
