{{- /* Adds links to the status page to the text of a board, as "webhook-auditor print dashboards --page-url" does. Takes a dict of text, name and url. */}}
{{- define "linkedBoard" }}
{{- $text := .text }}
{{- if .url }}
{{- $page := trimSuffix "/" .url }}
{{- $title := "Status page" }}
{{- $path := "" }}
{{- if eq .name "webhook.json" }}
{{- $title = "Status page of this webhook" }}
{{- $path = "webhooks?type=$${type:percentencode}&q=$${name:percentencode}" }}
{{- end }}
{{- $link := `{"asDropdown": false, "icon": %q, "includeVars": false, "keepTime": false, "tags": [], "targetBlank": true, "title": %q, "tooltip": "", "type": "link", "url": "%s/%s"}` }}
{{- $ofBoard := printf $link "dashboard" $title $page $path }}
{{- $text = regexReplaceAll `(?m)^( "links": \[[^\]]*(?:"tags": \[\][^\]]*)*)\n \]` $text (print "${1}, " $ofBoard "\n ]") }}
{{- $ofRow := printf $link "" "Status page of this webhook" $page "webhooks?type=$${${1}.type}&q=$${${1}.name}" }}
{{- $ofChange := printf ` <a href=\"%s/changes?configuration={{configuration}}\" target=\"_blank\" rel=\"noreferrer\">What it changed</a>` $page }}
{{- $text = regexReplaceAll `("textFormat": "\{\{type\}\} \{\{cluster\}\})"` $text (print "${1}" $ofChange `"`) }}
{{- $text = regexReplaceAll `("title": "Open this webhook",[^{}]*"url": "/d/[^"$]*\$\{(__data\.fields|__field\.labels)\.type\}[^"]*"\s*\})` $text (print "${1}, " (replace "${1}" "${2}" $ofRow)) }}
{{- end }}
{{- $text }}
{{- end }}
