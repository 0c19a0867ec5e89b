{{- /* Changes the alerts of an object as "webhook-auditor print rules" does with its options. Takes a dict of the object and the root. */}}
{{- define "adjustAlerts" }}
{{- $values := .root.Values.alerts }}
{{- $adjustable := .root.Files.Get "files/alerts/adjustable.json" | fromJson }}
{{- range $name := concat $values.disabled $values.critical }}
{{- if not (hasKey $adjustable.alerts $name) }}{{ fail (printf "alerts: there is no alert %q" $name) }}{{ end }}
{{- end }}
{{- range $name := $values.critical }}
{{- if has $name $values.disabled }}{{ fail (printf "alerts.critical: %s is disabled" $name) }}{{ end }}
{{- end }}
{{- $wanted := dict }}
{{- range $name, $limits := $adjustable.numbers }}
{{- $usual := .value }}
{{- if eq $values.severities "enhancement" }}{{ with .enhancement }}{{ $usual = . }}{{ end }}{{ end }}
{{- $_ := set $wanted $name (default $usual (get $values.thresholds $name)) }}
{{- end }}
{{- range $name, $value := $values.thresholds }}
{{- if not (hasKey $adjustable.numbers $name) }}{{ fail (printf "alerts.thresholds: there is no number %q" $name) }}{{ end }}
{{- with get $adjustable.numbers $name }}
{{- $decides := false }}{{ range .alerts }}{{ if not (has . $values.disabled) }}{{ $decides = true }}{{ end }}{{ end }}
{{- if not $decides }}{{ fail (printf "alerts.thresholds: each alert that depends on %s is disabled" $name) }}{{ end }}
{{- $lowest := maxf .lowest (default 0 (get $wanted .atLeast)) }}
{{- $highest := minf .highest (default .highest (get $wanted .atMost)) }}
{{- if or (lt (float64 $value) $lowest) (gt (float64 $value) $highest) }}{{ fail (printf "alerts.thresholds: %s must be at least %v, the lowest that works, and at most %v" $name $lowest $highest) }}{{ end }}
{{- end }}
{{- end }}
{{- range $group := .object.spec.groups }}
{{- $rules := list }}
{{- range $rule := $group.rules }}
{{- $name := default "" $rule.alert }}
{{- with get $adjustable.rules (default $name $rule.record) }}{{ $_ := set $rule "expr" . }}{{ end }}
{{- range $number, $value := $wanted }}
{{- $_ := set $rule "expr" (replace (printf "$%s;" $number) (toString $value) $rule.expr) }}
{{- end }}
{{- $labelled := printf "${1}%s${2}" $values.clusterLabel }}
{{- $_ := set $rule "expr" (regexReplaceAll "([({,])cluster([,)=!])" $rule.expr $labelled) }}
{{- if $name }}
{{- if eq $values.severities "enhancement" }}{{ with get $adjustable.alerts $name }}{{ $_ := set $rule.labels "severity" . }}{{ end }}{{ end }}
{{- if has $name $values.critical }}{{ $_ := set $rule.labels "severity" "critical" }}{{ end }}
{{- $_ := set $rule "labels" (merge (dict) $rule.labels $values.labels) }}
{{- range $name, $text := pick $rule.annotations "description" "runbook_variables" }}
{{- $labelledText := regexReplaceAll "([({,])cluster([,)=!])" $text $labelled }}
{{- $_ := set $rule.annotations $name (regexReplaceAll "\\$labels\\.cluster\\b" $labelledText (printf "$$labels.%s" $values.clusterLabel)) }}
{{- end }}
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
