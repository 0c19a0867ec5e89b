package dashboards

import (
	"encoding/json"
	"fmt"
	"strings"
)

// plain returns the value as the JSON it is written as, without the nulls that
// the sdk writes for what is not set.
func plain(v any) (object, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	out := object{}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	return out, nil
}

// The keys that the sdk writes and today's Grafana does not know.
var (
	legacyBoard    = []string{"slug", "originalTitle", "style", "hideControls", "sharedCrosshair", "rows"}
	legacyPanel    = []string{"editable", "error", "isNew", "span", "renderer", "transparent"}
	legacyVariable = []string{"allFormat", "multiFormat"}
)

// normalize turns what the sdk writes into what Grafana itself would save.
func normalize(board object, b Board) {
	drop(board, legacyBoard)
	board["description"] = b.Description
	board["editable"] = false
	board["annotations"] = object{"list": annotations(b)}
	board["timepicker"] = object{}
	for _, p := range objects(board["panels"]) {
		normalizePanel(p)
	}
	templating := board["templating"].(object)
	list := []any{datasourceVariable()}
	for i, v := range objects(templating["list"]) {
		normalizeVariable(v, b.Variables[i])
		list = append(list, v)
	}
	templating["list"] = list
	for _, l := range objects(board["links"]) {
		normalizeLink(l)
	}
}

func drop(o object, keys []string) {
	for _, k := range keys {
		delete(o, k)
	}
}

// objects returns the objects of a JSON array.
func objects(v any) []object {
	var out []object
	list, _ := v.([]any)
	for _, e := range list {
		if o, ok := e.(object); ok {
			out = append(out, o)
		}
	}
	return out
}

func normalizePanel(p object) {
	drop(p, legacyPanel)
	if p["type"] == "row" {
		p["panels"] = []any{}
	}
}

func normalizeVariable(v object, from Variable) {
	drop(v, legacyVariable)
	v["description"] = from.Description
	if from.Hidden {
		drop(v, []string{"definition", "allValue", "current", "label", "datasource"})
		return
	}
	v["current"] = object{"selected": true, "text": "All", "value": "$__all"}
	if from.All == "" {
		drop(v, []string{"current", "allValue"}) // the first choice
	}
	if len(from.Fixed) > 0 {
		delete(v, "datasource")
		return
	}
	v["definition"] = v["query"].(object)["query"]
}

func normalizeLink(l object) {
	l["icon"], l["tooltip"], l["tags"] = "dashboard", "", []any{}
	l["asDropdown"], l["targetBlank"], l["includeVars"], l["keepTime"] = false, false, false, false
}

// datasourceVariable lets a person choose the Prometheus to ask.
func datasourceVariable() object {
	return object{
		"name": "datasource", "label": "Data source", "description": "The Prometheus that scrapes the API servers and the auditor.",
		"type": "datasource", "query": "prometheus", "regex": "", "refresh": 1, "hide": 0, "multi": false,
		"includeAll": false, "options": []any{},
		// Without it Grafana opens the first of all by the alphabet.
		"current": object{"selected": true, "text": "default", "value": "default"},
	}
}

// annotations are the layers that all boards share: when alerts began to fire,
// and when configurations changed. Most incidents begin with one of the latter.
// Grafana makes regions of what lasts, which would cover the charts: a series
// that is there only at its start is a line.
func annotations(b Board) []any {
	const by = "cluster, alertname, severity, type, name"
	alerts := fmt.Sprintf(`max by (%s) (ALERTS{%s})`, by,
		join(`cluster=~"$cluster",alertname=~"Webhook.*",alertstate="firing",severity=~"critical|warning"`, b.Alerts))
	fired := layer(b, "Alerts", red, fmt.Sprintf("%s\nunless on (%s) %s", alerts, by, strings.ReplaceAll(alerts, "})", "} offset "+minStep+")")))
	fired["titleFormat"], fired["textFormat"] = "{{alertname}}", "{{severity}} {{name}} {{cluster}}"
	modified := layer(b, "Changes", blue, fmt.Sprintf(`max by (cluster, type, configuration) (webhook_auditor_webhook_configuration_changed_timestamp_seconds{%s}) * 1000 > $__from`,
		join(`cluster=~"$cluster"`, b.Changes)))
	modified["titleFormat"], modified["textFormat"] = "{{configuration}} changed", "{{type}} {{cluster}}"
	modified["useValueForTime"] = true
	return []any{fired, modified}
}

func layer(b Board, name, color, expr string) object {
	return object{
		"name": name, "enable": true, "iconColor": color, "datasource": datasource,
		"target": object{"refId": "Anno", "expr": grafanaExpr(b, expr), "interval": minStep, "datasource": datasource},
	}
}
