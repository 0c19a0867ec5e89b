package dashboards

//lint:file-ignore SA1019 Grafana 13 refuses boards of its second schema in files: see schemaVersion.

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// object is a JSON object.
type object = map[string]any

// schemaVersion is the newest classic schema. Grafana 13 refuses v2 boards from
// files, and migrates classic ones itself.
const schemaVersion = 42

// minStep keeps four minutes of samples in every rate: enough for scrapes once
// a minute, whatever interval the data source is set to.
const minStep = "1m"

// tag is on all boards, so that they list each other.
const tag = "webhook-auditor"

// grafana draws the board in the dialect of Grafana 10 and later, with the types
// that Grafana generates from its own schema, and validates it by them.
func grafana(b Board) (object, error) {
	board := dashboard.Dashboard{
		Uid:           new(b.UID()),
		Title:         new(b.Title),
		Description:   new(b.Description),
		Tags:          []string{tag},
		Timezone:      new("browser"),
		Editable:      new(false),
		GraphTooltip:  new(dashboard.DashboardCursorSyncCrosshair),
		Time:          &dashboard.DashboardDashboardTime{From: "now-1h", To: "now"},
		Timepicker:    &dashboard.TimePickerConfig{},
		Refresh:       new("1m"),
		SchemaVersion: schemaVersion,
		Panels:        grafanaPanels(b),
		Templating:    dashboard.DashboardDashboardTemplating{List: []dashboard.VariableModel{datasourceVariable()}},
		Annotations:   dashboard.AnnotationContainer{List: annotations(b)},
	}
	for _, v := range b.Variables {
		board.Templating.List = append(board.Templating.List, grafanaVariable(b, v))
	}
	for _, l := range b.Links {
		link := dashboardLink(l)
		link.Icon = "dashboard"
		board.Links = append(board.Links, link)
	}
	if err := board.Validate(); err != nil {
		return nil, fmt.Errorf("validating board %s: %w", b.Name, err)
	}
	return asObject(board)
}

// asObject returns the value as the JSON that it is written as.
func asObject(v any) (object, error) {
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

func datasource() *common.DataSourceRef {
	return &common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

func grafanaPanels(b Board) []dashboard.PanelOrRowPanel {
	var out []dashboard.PanelOrRowPanel
	var grid layout
	for _, row := range b.Rows {
		if row.Title != "" {
			grid.newLine()
			out = append(out, dashboard.PanelOrRowPanel{RowPanel: &dashboard.RowPanel{
				Type: "row", Id: panelID(b.Name, row.Title, ""), Title: new(row.Title), GridPos: grid.next(gridWidth, 1),
				Panels: []dashboard.Panel{}, Collapsed: row.Closed,
			}})
		}
		for _, p := range row.Panels {
			panel := grafanaPanel(b, p)
			panel.Id = new(panelID(b.Name, row.Title, p.Title))
			panel.GridPos = grid.next(p.Width, p.Height)
			if row.Closed {
				head := out[len(out)-1].RowPanel
				head.Panels = append(head.Panels, *panel)
				continue
			}
			out = append(out, dashboard.PanelOrRowPanel{Panel: panel})
		}
	}
	return out
}

// panelID is derived from where the panel stands and what it is called, so that
// links to it outlive panels that come and go around it.
func panelID(names ...string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(strings.Join(names, "\x00")))
	return h.Sum32()%1_000_000 + 1
}

const gridWidth = 24

// layout puts panels side by side, line by line.
type layout struct{ x, y, height int }

func (l *layout) newLine() { *l = layout{y: l.y + l.height} }

// next returns the position of the next panel.
func (l *layout) next(width, height int) *dashboard.GridPos {
	if l.x+width > gridWidth {
		l.newLine()
	}
	out := &dashboard.GridPos{X: uint32(l.x), Y: uint32(l.y), W: uint32(width), H: uint32(height)}
	l.x += width
	l.height = max(l.height, height)
	return out
}

func dashboardLink(l Link) dashboard.DashboardLink {
	return dashboard.DashboardLink{
		Title: l.Title, Type: dashboard.DashboardLinkTypeLink, Url: new(l.URL), TargetBlank: l.Outside,
		Tags: []string{},
	}
}

// grafanaExpr returns the expression as Grafana must read it. It escapes the
// values of custom variables unless they are asked for as they are.
func grafanaExpr(b Board, expr string) string {
	for _, v := range b.Variables {
		if len(v.Fixed) > 0 {
			expr = strings.ReplaceAll(expr, `"$`+v.Name+`"`, `"${`+v.Name+`:raw}"`)
		}
	}
	return expr
}

// datasourceVariable lets a user choose the Prometheus to ask. Without a current
// value Grafana opens the first of all by the alphabet. On half a screen a longer
// label would leave no room for its name.
func datasourceVariable() dashboard.VariableModel {
	return dashboard.VariableModel{
		Type: dashboard.VariableTypeDatasource, Name: "datasource", Label: new("Source"),
		Description: new("The Prometheus that scrapes the API servers and the auditor."),
		Query:       stringQuery("prometheus"),
		Refresh:     new(dashboard.VariableRefreshOnDashboardLoad),
		Current:     option("default", "default"),
	}
}

func grafanaVariable(b Board, v Variable) dashboard.VariableModel {
	out := dashboard.VariableModel{Name: v.Name, Refresh: new(dashboard.VariableRefreshOnTimeRangeChanged)}
	if v.Hidden {
		out.Hide = new(dashboard.VariableHideHideVariable)
	} else {
		out.Label, out.Description = new(v.Label), new(v.Description)
		out.Sort = new(dashboard.VariableSortAlphabeticalAsc)
		out.IncludeAll = new(v.All != "")
	}
	if v.All != "" && v.Metric != "" {
		out.AllValue, out.Current = new(v.All), option("All", "$__all")
	}
	switch {
	case v.Plugin != "":
		out.Type, out.Query = dashboard.VariableTypeDatasource, stringQuery(v.Plugin)
	case len(v.Fixed) > 0:
		var choices []string
		for _, c := range v.Fixed {
			choices = append(choices, c.Text+" : "+c.Value)
		}
		out.Type, out.Query = dashboard.VariableTypeCustom, stringQuery(strings.Join(choices, ","))
		out.Refresh = new(dashboard.VariableRefreshNever)
	case v.Metric == "":
		out.Type, out.Query, out.Current = dashboard.VariableTypeTextbox, stringQuery(v.All), option(v.All, v.All)
	default:
		query := grafanaExpr(b, labelValues(v))
		out.Type, out.Datasource, out.Definition = dashboard.VariableTypeQuery, datasource(), new(query)
		out.Query = &dashboard.StringOrMap{Map: object{"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"}}
	}
	return out
}

func stringQuery(query string) *dashboard.StringOrMap {
	return &dashboard.StringOrMap{String: new(query)}
}

func option(text, value string) *dashboard.VariableOption {
	return &dashboard.VariableOption{
		Selected: new(true),
		Text:     dashboard.StringOrArrayOfString{String: new(text)},
		Value:    dashboard.StringOrArrayOfString{String: new(value)},
	}
}

func labelValues(v Variable) string { return fmt.Sprintf("label_values(%s, %s)", v.Metric, v.Value) }

// annotations are the layers that all boards share: when alerts began to fire,
// and when configurations changed. Most incidents begin with one of the latter.
// They are always on: a switch for each would take a row of a narrow screen.
// Grafana makes regions of what lasts, which would cover the charts: a series
// that exists only at its start is a line. It asks for annotations in steps of a
// hundredth of the time range, so the offset is that step: a shorter one would
// miss the alerts that start between two steps.
func annotations(b Board) []dashboard.AnnotationQuery {
	const seriesLabels = "cluster, alertname, severity, type, name"
	alerts := fmt.Sprintf(`max by (%s) (ALERTS{%s})`, seriesLabels,
		join(`cluster=~"$cluster",alertname=~"Webhook.*",alertstate="firing",severity=~"critical|warning"`, b.Alerts))
	fired := annotation(b, "Alerts", fmt.Sprintf("%s\nunless on (%s) %s", alerts, seriesLabels, strings.ReplaceAll(alerts, "})", "} offset $__interval)")))
	fired.IconColor, fired.TitleFormat, fired.TextFormat = red, new("{{alertname}}"), new("{{severity}} {{name}} {{cluster}}")
	modified := annotation(b, "Changes", fmt.Sprintf(`max by (cluster, type, configuration) (webhook_auditor_webhook_configuration_changed_timestamp_seconds{%s}) * 1000 > $__from`,
		join(`cluster=~"$cluster"`, b.Changes)))
	modified.IconColor, modified.TitleFormat, modified.TextFormat = blue, new("{{configuration}} changed"), new("{{type}} {{cluster}}")
	if b.ChangesPage != "" {
		*modified.TextFormat += fmt.Sprintf(` <a href=%q target="_blank" rel="noreferrer">What it changed</a>`, b.ChangesPage)
	}
	modified.UseValueForTime = new(true)
	return []dashboard.AnnotationQuery{fired, modified}
}

func annotation(b Board, name, expr string) dashboard.AnnotationQuery {
	return dashboard.AnnotationQuery{
		Name: name, Enable: true, Hide: new(true), Datasource: datasource(),
		Target: prometheus.Dataquery{
			RefId: new("Anno"), Expr: grafanaExpr(b, expr), Interval: new(minStep), Datasource: datasource(),
		},
	}
}
