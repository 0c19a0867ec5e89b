package dashboards

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/grafana-tools/sdk"
)

// object is a JSON object.
type object = map[string]any

// schemaVersion is the newest classic schema. Grafana 13 refuses v2 boards from
// files, and migrates classic ones itself.
const schemaVersion = 42

// minStep keeps four minutes of samples in every rate: enough for scrapes once
// a minute, whatever the data source says its interval is.
const minStep = "1m"

// tag is on all boards, so that they list each other.
const tag = "webhook-auditor"

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

// grafana draws the board in the dialect of Grafana 10 and later. The sdk knows
// Grafana 6, so each panel is one of its custom panels, and normalize removes
// what the sdk adds.
func grafana(b Board) (object, error) {
	board := &sdk.Board{
		UID:           b.UID(),
		Title:         b.Title,
		Tags:          []string{tag},
		Timezone:      "browser",
		SchemaVersion: schemaVersion,
		Time:          sdk.Time{From: "now-1h", To: "now"},
		Refresh:       &sdk.BoolString{Value: "1m"},
		GraphTooltip:  1,
		Panels:        grafanaPanels(b),
	}
	for _, v := range b.Variables {
		board.Templating.List = append(board.Templating.List, grafanaVariable(v))
	}
	for _, l := range b.Links {
		board.Links = append(board.Links, sdk.Link{Title: l.Title, Type: "link", URL: new(l.URL)})
	}
	for i := range board.Templating.List {
		formatVariables(b, board.Templating.List[i].Query)
	}
	out, err := plain(board)
	if err != nil {
		return nil, fmt.Errorf("drawing board %s: %w", b.Name, err)
	}
	normalize(out, b)
	return out, nil
}

func grafanaPanels(b Board) []*sdk.Panel {
	var out []*sdk.Panel
	var at position
	for _, row := range b.Rows {
		if row.Title != "" {
			at.newLine()
			head := &sdk.Panel{
				CommonPanel: sdk.CommonPanel{ID: panelID(b.Name, row.Title, ""), OfType: sdk.RowType, Type: "row", Title: row.Title},
				RowPanel:    &sdk.RowPanel{Panels: []sdk.Panel{}},
			}
			at.place(&head.CommonPanel, gridWidth, 1)
			out = append(out, head)
		}
		for _, p := range row.Panels {
			panel := grafanaPanel(b, p)
			panel.ID = panelID(b.Name, row.Title, p.Title)
			at.place(&panel.CommonPanel, p.Width, p.Height)
			out = append(out, panel)
		}
	}
	return out
}

// panelID is derived from where the panel stands and what it is called, so that
// links to it outlive panels that come and go around it.
func panelID(names ...string) uint {
	h := fnv.New32a()
	h.Write([]byte(strings.Join(names, "\x00")))
	return uint(h.Sum32()%1_000_000) + 1
}

const gridWidth = 24

// position is where the next panel goes.
type position struct{ x, y, height int }

func (at *position) newLine() { *at = position{y: at.y + at.height} }

func (at *position) place(p *sdk.CommonPanel, width, height int) {
	if at.x+width > gridWidth {
		at.newLine()
	}
	p.GridPos.X, p.GridPos.Y, p.GridPos.W, p.GridPos.H = new(at.x), new(at.y), new(width), new(height)
	at.x += width
	at.height = max(at.height, height)
}

func grafanaPanel(b Board, p Panel) *sdk.Panel {
	panel := sdk.NewCustom(p.Title)
	panel.Type = panelTypes[p.Kind]
	panel.Description = new(p.Description)
	panel.Datasource = datasource
	panel.CustomPanel = &sdk.CustomPanel{
		"targets":     grafanaTargets(b, p),
		"options":     panelOptions[p.Kind](p),
		"fieldConfig": object{"defaults": fieldDefaults(p), "overrides": overrides(p)},
	}
	if p.Kind == Table || p.Kind == Matrix {
		(*panel.CustomPanel)["transformations"] = transformations(p)
	}
	return panel
}

var panelTypes = map[Kind]string{
	Lines: "timeseries", Stack: "timeseries", Number: "stat", Table: "table", Bars: "bargauge", States: "state-timeline", Matrix: "table",
}

// letter names the query: A, B and so on.
func letter(i int) string { return string(rune('A' + i)) }

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

func formatVariables(b Board, query any) {
	if q, ok := query.(object); ok {
		q["query"] = grafanaExpr(b, q["query"].(string))
	}
}

// leadsOn tells whether the panel links to boards in the cluster of a row.
func leadsOn(p Panel) bool {
	return len(p.Links) > 0 || slices.ContainsFunc(p.Columns, func(c Column) bool { return c.Field == at.Field })
}

func grafanaTargets(b Board, p Panel) []object {
	var out []object
	for i, q := range p.Queries {
		expr := q.Expr
		if leadsOn(p) && !strings.Contains(expr, `"at", `) && !q.GrafanaOnly {
			expr = linked("(" + expr + ")")
		}
		t := object{"refId": letter(i), "expr": grafanaExpr(b, expr), "datasource": datasource, "editorMode": "code", "interval": minStep}
		switch p.Kind {
		case Table, Matrix:
			t["format"], t["instant"], t["range"] = "table", true, false
		case Number, Bars:
			t["instant"], t["range"] = true, false
		default:
			t["instant"], t["range"] = false, true
		}
		t["legendFormat"] = "__auto"
		if q.Legend != "" {
			t["legendFormat"] = q.Legend
		}
		out = append(out, t)
	}
	return out
}

var panelOptions = map[Kind]func(Panel) object{
	Lines:  chartOptions,
	Stack:  chartOptions,
	Number: numberOptions,
	Bars:   barOptions,
	Table:  tableOptions,
	Matrix: tableOptions,
	States: func(Panel) object {
		return object{
			"showValue": "auto", "rowHeight": 0.8, "mergeValues": true, "alignValue": "left",
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []string{}},
			"tooltip": object{"mode": "single", "sort": "none"},
		}
	},
}

func chartOptions(p Panel) object {
	return object{
		"legend": object{
			"displayMode": "table", "placement": legendPlacement(p), "showLegend": true,
			"calcs": []string{"lastNotNull", "max"}, "sortBy": "Max", "sortDesc": true,
		},
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}
}

// legendPlacement gives ten names room: below a chart there is some for two.
func legendPlacement(p Panel) string {
	if p.Width >= gridWidth/2 {
		return "right"
	}
	return "bottom"
}

func tableOptions(Panel) object {
	return object{"showHeader": true, "cellHeight": "sm", "frameIndex": 0}
}

func numberOptions(p Panel) object {
	return object{
		"colorMode": "background", "graphMode": "none", "justifyMode": "center", "textMode": "value",
		"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		"orientation": "auto", "reduceOptions": lastValue(),
	}
}

func barOptions(p Panel) object {
	return object{
		"displayMode": "basic", "valueMode": "color", "namePlacement": "left", "showUnfilled": true, "sizing": "auto",
		"minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 300, "orientation": "horizontal",
		"legend":        object{"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []string{}},
		"reduceOptions": lastValue(),
		"text":          object{"titleSize": 12, "valueSize": 14},
	}
}

func lastValue() object {
	return object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
}

func fieldDefaults(p Panel) object {
	out := object{
		"unit":       p.Unit.Grafana,
		"color":      object{"mode": "thresholds"},
		"thresholds": object{"mode": "absolute", "steps": steps(p.Thresholds)},
		"mappings":   mappings(p.Texts),
		"custom":     fieldStyles[p.Kind](p),
	}
	if p.Unit.Decimals >= 0 {
		out["decimals"] = p.Unit.Decimals
	}
	out["noValue"] = p.Unknown
	if p.Unknown == "" {
		out["noValue"] = notMeasured
	}
	switch p.Kind {
	case States:
		// In the mode "thresholds" Grafana merges neighbors by their thresholds, and
		// forgets the mappings.
		out["color"] = object{"mode": "fixed", "fixedColor": grey}
	case Lines, Stack:
		// By name: a webhook has the same color in each chart.
		out["color"] = object{"mode": "palette-classic-by-name"}
		out["min"] = 0
		out["links"] = dataLinks(p.Links)
	case Bars:
		out["min"] = 0
	}
	return out
}

// fieldStyles draw the values. Each value that Grafana would otherwise look up
// in an empty string is spelled out.
var fieldStyles = map[Kind]func(Panel) object{
	Lines:  lineStyle,
	Stack:  stackStyle,
	Number: func(Panel) object { return object{} },
	Bars:   func(Panel) object { return object{} },
	Table: func(Panel) object {
		return object{"align": "auto", "cellOptions": object{"type": "auto"}, "inspect": false}
	},
	Matrix: func(Panel) object {
		return object{"align": "center", "cellOptions": object{"type": "color-text"}, "inspect": false, "minWidth": 90}
	},
	States: func(Panel) object { return object{"fillOpacity": 80, "lineWidth": 0, "spanNulls": false} },
}

func lineStyle(p Panel) object {
	marks := "off"
	if len(p.Thresholds) > 0 {
		marks = "dashed"
	}
	return object{
		"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 2, "fillOpacity": 0, "gradientMode": "none",
		"lineStyle": object{"fill": "solid"}, "showPoints": "never", "pointSize": 5, "spanNulls": false,
		"axisPlacement": "auto", "axisLabel": "", "axisColorMode": "text", "axisBorderShow": false, "axisCenteredZero": false,
		"barAlignment": 0, "scaleDistribution": object{"type": "linear"},
		"stacking":        object{"group": "A", "mode": "none"},
		"thresholdsStyle": object{"mode": marks},
		"hideFrom":        object{"legend": false, "tooltip": false, "viz": false},
		"axisSoftMax":     leastMax[p.Unit],
	}
}

// leastMax is how far the axis of a chart reaches at least: a line of zeros
// would otherwise stand below a hundred, or ten thousand percent.
var leastMax = map[Unit]float64{share: 0.01, rate: 0.1, times: 1, seconds: 0.01, count: 1, memory: 1 << 20, processors: 0.01}

func stackStyle(p Panel) object {
	style := lineStyle(p)
	style["stacking"] = object{"group": "A", "mode": "normal"}
	style["fillOpacity"] = 40
	style["lineWidth"] = 1
	return style
}

// steps are thresholds as Grafana writes them: the first holds for all smaller
// values, and for none at all, which is neither good nor bad.
func steps(thresholds []Threshold) []object {
	out := []object{{"color": grey, "value": nil}}
	for _, t := range thresholds {
		out = append(out, object{"color": t.Color, "value": t.From})
	}
	return out
}

func mappings(texts []Text) []object {
	if len(texts) == 0 {
		return []object{}
	}
	options := object{}
	for i, t := range texts {
		option := object{"text": t.Text, "index": i}
		if t.Color != "" {
			option["color"] = t.Color
		}
		options[t.Value] = option
	}
	return []object{{"type": "value", "options": options}}
}

func dataLinks(links []Link) []object {
	out := []object{}
	for _, l := range links {
		out = append(out, object{"title": l.Title, "url": l.URL, "targetBlank": l.Outside})
	}
	return out
}

func overrides(p Panel) []object {
	out := []object{}
	for _, s := range p.Shades {
		// Several series of a family differ in shade.
		out = append(out, override("byRegexp", "/"+s.Pattern+"/", property{"color", object{"mode": "shades", "fixedColor": s.Color}}))
	}
	for i, q := range p.Queries {
		if q.Total {
			out = append(out, override("byFrameRefID", letter(i),
				property{"color", object{"mode": "fixed", "fixedColor": "text"}},
				property{"custom.lineStyle", object{"fill": "dash", "dash": []int{8, 8}}},
				property{"custom.lineWidth", 1},
				property{"links", []object{}}))
		}
		if q.Color != "" {
			out = append(out, override("byFrameRefID", letter(i), property{"color", object{"mode": "fixed", "fixedColor": q.Color}}))
		}
	}
	if p.Kind == Matrix {
		return append(out, override("byName", p.Columns[0].Field+`\`+p.Columns[1].Field, property{"displayName", p.Columns[0].Title}))
	}
	if p.Kind != Table {
		return out
	}
	for _, c := range grafanaColumns(p) {
		out = append(out, override("byName", grafanaField(p, c), columnProperties(c)...))
	}
	return out
}

// grafanaColumns are the columns that Grafana draws.
func grafanaColumns(p Panel) []Column {
	return slices.DeleteFunc(slices.Clone(p.Columns), func(c Column) bool { return c.ConsoleOnly })
}

type property struct {
	id    string
	value any
}

func override(matcher, options string, properties ...property) object {
	list := []object{}
	for _, p := range properties {
		list = append(list, object{"id": p.id, "value": p.value})
	}
	return object{"matcher": object{"id": matcher, "options": options}, "properties": list}
}

// columnProperties style a column. Without a noValue of its own, each empty
// cell would say what the whole table says when it is empty.
func columnProperties(c Column) []property {
	out := []property{{"displayName", c.Title}, {"unit", c.Unit.Grafana}, {"noValue", ""}}
	if c.Unit.Decimals >= 0 && c.Unit != text {
		out = append(out, property{"decimals", c.Unit.Decimals})
	}
	if c.Width > 0 {
		out = append(out, property{"custom.width", c.Width})
	}
	if len(c.Thresholds) > 0 {
		out = append(out, property{"thresholds", object{"mode": "absolute", "steps": steps(c.Thresholds)}})
	}
	if len(c.Texts) > 0 {
		out = append(out, property{"mappings", mappings(c.Texts)})
	}
	if c.Field == command {
		out = append(out, property{"custom.inspect", true})
	}
	if c.Hidden {
		// The first is Grafana's until 12.1, the second from 12.2 on.
		out = append(out, property{"custom.hidden", true}, property{"custom.hideFrom", object{"viz": true, "legend": false, "tooltip": false}})
	}
	if len(c.Thresholds) > 0 || slices.ContainsFunc(c.Texts, func(t Text) bool { return t.Color != "" }) {
		out = append(out, property{"custom.cellOptions", object{"type": "color-text"}})
	}
	if len(c.Links) > 0 {
		out = append(out, property{"links", dataLinks(c.Links)})
	}
	return out
}

// grafanaField is the column's name in Grafana's frames: Prometheus' values are
// called by their query where there are several.
func grafanaField(p Panel, c Column) string {
	switch {
	case !isLetter(c.Field):
		return c.Field
	case len(p.Queries) == 1:
		return "Value"
	}
	return "Value #" + c.Field
}

func isLetter(field string) bool { return len(field) == 1 && field[0] >= 'A' && field[0] <= 'Z' }

// transformations join the queries of a table to one row per webhook, and keep
// its columns in their order.
func transformations(p Panel) []object {
	if p.Kind == Matrix {
		return []object{{"id": "groupingToMatrix", "options": object{
			"rowField": p.Columns[0].Field, "columnField": p.Columns[1].Field, "valueField": "Value", "emptyValue": "zero",
		}}}
	}
	names, index := []string{}, object{}
	for i, c := range grafanaColumns(p) {
		names = append(names, grafanaField(p, c))
		index[grafanaField(p, c)] = i
	}
	out := []object{
		{"id": "filterFieldsByName", "options": object{"include": object{"names": names}}},
		{"id": "organize", "options": object{"indexByName": index, "excludeByName": object{}, "renameByName": object{}}},
	}
	if len(p.Queries) == 1 {
		return out
	}
	out = append([]object{{"id": "merge", "options": object{}}}, out...)
	if slices.ContainsFunc(p.Queries, func(q Query) bool { return q.GrafanaOnly }) {
		// The first query chooses the rows, the others only add to them.
		first := grafanaField(p, Column{Field: letter(0)})
		filter := object{"fieldName": first, "config": object{"id": "isNotNull", "options": object{}}}
		out = slices.Insert(out, 1, object{"id": "filterByValue", "options": object{"type": "include", "match": "all", "filters": []object{filter}}})
	}
	return out
}

func grafanaVariable(v Variable) sdk.TemplateVar {
	out := sdk.TemplateVar{
		Name: v.Name, Label: v.Label, Type: "query", Datasource: datasource,
		Query:      object{"query": labelValues(v), "refId": "PrometheusVariableQueryEditor-VariableQuery"},
		Refresh:    sdk.BoolInt{Value: new(int64(2))}, // when the time range changes
		Sort:       1,                                 // alphabetical
		IncludeAll: v.All != "", AllValue: v.All,
		Options: []sdk.Option{},
	}
	switch {
	case v.Plugin != "":
		out.Type, out.Datasource, out.Query = "datasource", nil, v.Plugin
	case v.Metric == "" && len(v.Fixed) == 0:
		out.Type, out.Datasource, out.Query = "textbox", nil, ""
	}
	if v.Hidden {
		out.Hide = 2
	}
	if len(v.Fixed) > 0 {
		var choices []string
		for _, c := range v.Fixed {
			choices = append(choices, c.Text+" : "+c.Value)
		}
		out.Type, out.Datasource, out.Query = "custom", nil, strings.Join(choices, ",")
		out.Refresh = sdk.BoolInt{Value: new(int64(0))}
	}
	return out
}

func labelValues(v Variable) string { return fmt.Sprintf("label_values(%s, %s)", v.Metric, v.Value) }
