package dashboards

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/perses/perses/pkg/model/api/v1"
	"github.com/perses/perses/pkg/model/api/v1/common"
	"github.com/perses/perses/pkg/model/api/v1/dashboard"
	"github.com/perses/perses/pkg/model/api/v1/variable"
)

// perses draws the board for Perses, which OpenShift's console and the Cluster
// Observability Operator embed. Its variables reach expressions as they are.
func perses(b Board) *v1.DashboardSpec {
	out := &v1.DashboardSpec{
		Display:         &common.Display{Name: b.Title, Description: b.Description},
		Panels:          map[string]*v1.Panel{},
		Duration:        common.Duration(time.Hour),
		RefreshInterval: common.Duration(time.Minute),
	}
	for _, v := range b.Variables {
		if !v.Hidden {
			out.Variables = append(out.Variables, persesVariable(v))
		}
	}
	for _, row := range b.Rows {
		out.Layouts = append(out.Layouts, persesRow(b, row, out.Panels))
	}
	return out
}

// persesRow adds the panels of the row and returns where they stand.
func persesRow(b Board, row Row, panels map[string]*v1.Panel) dashboard.Layout {
	grid := dashboard.GridLayoutSpec{Items: []dashboard.GridItem{}}
	if row.Title != "" {
		grid.Display = &dashboard.GridLayoutDisplay{Title: row.Title, Collapse: &dashboard.GridLayoutCollapse{Open: !row.Closed}}
	}
	var positions layout
	for _, p := range row.Panels {
		key := fmt.Sprintf("panel-%d", panelID(b.Name, row.Title, p.Title))
		panels[key] = persesPanel(p)
		position := positions.next(p.Width, p.Height)
		grid.Items = append(grid.Items, dashboard.GridItem{
			X: int(position.X), Y: int(position.Y), Width: p.Width, Height: p.Height,
			Content: &common.JSONRef{Ref: "#/spec/panels/" + key},
		})
	}
	return dashboard.Layout{Kind: dashboard.KindGridLayout, Spec: grid}
}

func persesPanel(p Panel) *v1.Panel {
	out := &v1.Panel{Kind: "Panel", Spec: v1.PanelSpec{
		Display: v1.PanelDisplay{Name: p.Title, Description: p.Description},
		Plugin:  persesPlugins[p.Kind](p),
	}}
	for _, q := range p.Queries {
		spec := object{"query": q.Expr, "minStep": minStep}
		if q.Legend != "" {
			spec["seriesNameFormat"] = q.Legend
		}
		out.Spec.Queries = append(out.Spec.Queries, v1.Query{Kind: "TimeSeriesQuery", Spec: v1.QuerySpec{
			Plugin: common.Plugin{Kind: "PrometheusTimeSeriesQuery", Spec: spec},
		}})
	}
	return out
}

var persesPlugins = map[Kind]func(Panel) common.Plugin{
	TimeSeries: persesChart, StackedTimeSeries: persesChart,
	Stat:  persesStat,
	Table: persesTable, Matrix: persesTable,
	StateTimeline: func(p Panel) common.Plugin {
		return common.Plugin{Kind: "StatusHistoryChart", Spec: object{"legend": object{"position": "bottom"}, "mappings": persesMappings(p.Texts)}}
	},
}

func persesChart(p Panel) common.Plugin {
	visual := object{"display": "line", "lineWidth": 1.5, "connectNulls": false}
	if p.Kind == StackedTimeSeries {
		visual["stack"], visual["areaOpacity"] = "all", 0.4
	}
	spec := object{
		"legend": object{"position": legendPlacement(p), "mode": "table", "values": []string{"last-number", "max"}},
		"visual": visual,
		"yAxis":  object{"min": 0, "format": persesFormat(p.Unit)},
	}
	if len(p.Thresholds) > 0 {
		spec["thresholds"] = persesThresholds(p.Thresholds)
	}
	return common.Plugin{Kind: "TimeSeriesChart", Spec: spec}
}

func persesStat(p Panel) common.Plugin {
	return common.Plugin{Kind: "StatChart", Spec: object{
		"calculation": "last-number", "format": persesFormat(p.Unit),
		"thresholds": persesThresholds(p.Thresholds), "mappings": persesMappings(p.Texts),
	}}
}

// rowField is a label of a row in Grafana's links.
var rowField = regexp.MustCompile(`\$\{__data\.fields\.(\w+)`)

// outsideLinks are those that lead out of Grafana, as Perses has them.
func outsideLinks(links []Link) []Link {
	return slices.DeleteFunc(persesLinks(links), func(l Link) bool { return !l.Outside })
}

// persesLinks are the links to runbooks and webhooks, as Perses has them: next to
// the board that they are on.
func persesLinks(links []Link) []Link {
	var out []Link
	for _, l := range links {
		l.URL, _, _ = strings.Cut(strings.TrimPrefix(l.URL, "/d/"), "&var-cluster")
		l.URL = rowField.ReplaceAllString(l.URL, `$${__data.fields["$1"]`)
		if !l.OnPage && !strings.Contains(l.URL, "queryparam") && !strings.HasPrefix(l.URL, "/explore") {
			out = append(out, l)
		}
	}
	return out
}

// persesTable shows labels as they are: those that hold numbers have the unit in
// their header.
func persesTable(p Panel) common.Plugin {
	columns := []object{}
	for _, c := range p.Columns {
		if c.Hidden {
			continue
		}
		column := object{"name": c.Field, "header": c.Title, "enableSorting": true}
		switch {
		case isLetter(c.Field):
			column["name"] = "value"
			if c.Unit != unitText {
				column["format"] = persesFormat(c.Unit)
			}
		case c.Number && c.Unit.Suffix != "":
			column["header"] = c.Title + ", " + c.Unit.Suffix
		}
		if len(c.Links) > 0 {
			column["dataLink"] = object{"title": c.Links[0].Title, "url": c.Links[0].URL, "openNewTab": c.Links[0].Outside}
		}
		if len(c.Texts) > 0 {
			column["cellSettings"] = persesCells(c.Texts)
		}
		columns = append(columns, column)
	}
	return common.Plugin{Kind: "Table", Spec: object{"columnSettings": columns, "defaultColumnHidden": true, "density": "compact"}}
}

func persesCells(texts []Text) []object {
	out := []object{}
	for _, t := range texts {
		cell := object{"condition": object{"kind": "Value", "spec": object{"value": t.Value}}, "text": t.Text}
		if t.Color != "" {
			cell["textColor"] = hexes[t.Color]
		}
		out = append(out, cell)
	}
	return out
}

func persesMappings(texts []Text) []object {
	out := []object{}
	for _, t := range texts {
		result := object{"value": t.Text}
		if t.Color != "" {
			result["color"] = hexes[t.Color]
		}
		out = append(out, object{"kind": "Value", "spec": object{"value": t.Value, "result": result}})
	}
	return out
}

func persesThresholds(thresholds []Threshold) object {
	steps := []object{}
	for _, t := range thresholds {
		steps = append(steps, object{"value": t.From, "color": hexes[t.Color]})
	}
	return object{"mode": "absolute", "defaultColor": grey, "steps": steps}
}

// hexes are the colors that Grafana has names for.
var hexes = map[string]string{
	green: "#73BF69", blue: "#5794F2", yellow: "#FADE2A", orange: "#FF9830", red: "#F2495C", grey: grey,
}

// persesUnits are Perses' words for units; other numbers are decimals.
var persesUnits = map[string]string{
	unitSeconds.Grafana: "seconds", unitPercent.Grafana: "percent-decimal", unitRate.Grafana: "requests/sec", unitBytes.Grafana: "bytes", unitDays.Grafana: "days",
}

func persesFormat(u Unit) object {
	out := object{"unit": cmp.Or(persesUnits[u.Grafana], "decimal")}
	if u.Decimals >= 0 {
		out["decimalPlaces"] = u.Decimals
	}
	return out
}

func persesVariable(v Variable) dashboard.Variable {
	spec := &dashboard.ListVariableSpec{Name: v.Name}
	spec.Display = &variable.Display{Name: v.Label, Description: v.Description}
	spec.AllowAllValue, spec.CustomAllValue = v.All != "", v.All
	if v.All != "" {
		spec.DefaultValue = &variable.DefaultValue{SingleValue: "$__all"}
	}
	spec.Plugin = common.Plugin{Kind: "PrometheusLabelValuesVariable", Spec: object{"labelName": v.Value, "matchers": []string{v.Metric}}}
	if len(v.Fixed) > 0 {
		choices := []object{}
		for _, c := range v.Fixed {
			choices = append(choices, object{"label": c.Text, "value": c.Value})
		}
		spec.Plugin = common.Plugin{Kind: "StaticListVariable", Spec: object{"values": choices}}
	}
	return dashboard.Variable{Kind: variable.KindList, Spec: spec}
}

// serverFields are the metadata that the server of Perses sets.
var serverFields = []string{"createdAt", "updatedAt", "version"}

// persesDashboard is the board as Perses' own API takes it.
func persesDashboard(b Board) (object, error) {
	out := v1.Dashboard{Kind: v1.KindDashboard, Spec: *perses(b.withLinks(persesLinks))}
	out.Metadata.Name, out.Metadata.Project = b.UID(), tag
	o, err := asObject(out)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(o["metadata"].(object), func(key string, _ any) bool { return slices.Contains(serverFields, key) })
	return o, nil
}

// persesObject is the board as the Perses operator takes it.
func persesObject(b Board) (object, error) {
	config, err := asObject(perses(b.withLinks(outsideLinks)))
	return object{
		"apiVersion": "perses.dev/v1alpha2",
		"kind":       "PersesDashboard",
		"metadata":   object{"name": b.UID(), "labels": labels()},
		"spec":       object{"config": config},
	}, err
}
