package dashboards

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grafana-tools/sdk"
)

// console draws the board in the dialect of the OpenShift console, which is
// that of Grafana 5: rows of graph, singlestat and table panels with a span.
// The console skips any other panel without a word.
func console(b Board) (object, error) {
	board := &sdk.Board{
		UID:           b.UID(),
		Title:         b.Title,
		Tags:          []string{tag},
		SchemaVersion: 14,
		Time:          sdk.Time{From: "now-1h", To: "now"},
		Refresh:       &sdk.BoolString{Value: "1m"},
		Timepicker:    sdk.Timepicker{RefreshIntervals: []string{}, TimeOptions: []string{}},
		Panels:        []*sdk.Panel{},
		Links:         []sdk.Link{},
	}
	board.Annotations.List = []sdk.Annotation{}
	for _, v := range b.Variables {
		if !v.GrafanaOnly && !v.Hidden {
			board.Templating.List = append(board.Templating.List, consoleVariable(v))
		}
	}
	for _, row := range b.Rows {
		board.Rows = append(board.Rows, consoleRow(b, row))
	}
	out, err := asObject(board)
	if err != nil {
		return nil, fmt.Errorf("drawing console board %s: %w", b.Name, err)
	}
	prune(out)
	return out, nil
}

func consoleRow(b Board, row Row) *sdk.Row {
	out := &sdk.Row{Title: row.Title, ShowTitle: row.Title != "", Height: "250px", Panels: []sdk.Panel{}}
	if row.Title == "" {
		out.Title = b.Title
	}
	for _, p := range row.Panels {
		panel := kinds[p.Kind].console(p)
		panel.ID = uint(panelID(b.Name, row.Title, p.Title))
		panel.Description = new(p.Description)
		panel.Span = consoleSpan(p)
		out.Panels = append(out.Panels, *panel)
	}
	return out
}

// consoleSpan is in twelfths of the page, of which the console knows whole ones
// only. Its numbers want more room than Grafana's.
func consoleSpan(p Panel) float32 {
	if p.Kind == Stat {
		return float32(max(p.Width/2, 3))
	}
	return float32(p.Width / 2)
}

func consoleGraph(p Panel) *sdk.Panel {
	panel := sdk.NewGraph(p.Title)
	g := panel.GraphPanel
	g.Lines, g.Linewidth, g.NullPointMode = true, 1, "null"
	g.Stack = p.Kind == StackedTimeSeries
	if g.Stack {
		g.Fill = 4
	}
	g.Legend = sdk.Legend{Show: true, AlignAsTable: true, Values: true, Current: true, Max: true}
	g.Tooltip = sdk.Tooltip{Shared: true, ValueType: "individual", Sort: 2}
	g.Xaxis = sdk.Axis{Show: true}
	g.Yaxes = []sdk.Axis{
		{Format: p.Unit.Console, LogBase: 1, Show: true, Min: sdk.NewFloatString(0)}, {Format: "short", LogBase: 1},
	}
	for i, q := range p.Queries {
		panel.AddTarget(&sdk.Target{RefID: letter(i), Expr: consoleExpr(q.Expr), LegendFormat: consoleLegend(q.Legend)})
	}
	return panel
}

// consoleNumber is a custom panel: the console reads thresholds from options
// that the sdk's singlestat does not have.
func consoleNumber(p Panel) *sdk.Panel {
	panel := sdk.NewCustom(p.Title)
	texts := []object{{"op": "=", "value": "null", "text": p.Unknown}}
	for _, t := range p.Texts {
		texts = append(texts, object{"op": "=", "value": t.Value, "text": t.Text})
	}
	(*panel.CustomPanel) = sdk.CustomPanel{
		"format": p.Unit.Console, "valueName": "current",
		"valueMaps": texts,
		"options":   object{"fieldOptions": object{"thresholds": consoleThresholds(p.Thresholds)}},
		"targets":   []sdk.Target{{RefID: "A", Expr: consoleExpr(p.Queries[0].Expr), Instant: true}},
	}
	if p.Unit.Decimals >= 0 {
		(*panel.CustomPanel)["decimals"] = p.Unit.Decimals
	}
	if p.Unit.Suffix != "" {
		(*panel.CustomPanel)["postfix"] = " " + p.Unit.Suffix
	}
	if len(p.Texts) > 0 && p.Unit == unitCount {
		(*panel.CustomPanel)["format"] = "none"
	}
	return panel
}

// consoleThresholds are thresholds as the console reads them: a value that
// equals one still has the color of the one before, and what is below the
// first has none.
func consoleThresholds(thresholds []Threshold) []object {
	out := []object{}
	for i, t := range thresholds {
		begin := t.From - 1e-9
		if i == 0 {
			begin = -1e9
		}
		out = append(out, object{"color": t.Color, "value": begin})
	}
	return out
}

func consoleTable(p Panel) *sdk.Panel {
	panel := sdk.NewTable(p.Title)
	panel.TablePanel.Transform = "table"
	panel.TablePanel.Columns = []sdk.Column{}
	panel.TablePanel.Styles = consoleStyles(p)
	panel.AddTarget(&sdk.Target{RefID: "A", Expr: consoleExpr(consoleRows(p)), Format: "table", Instant: true})
	return panel
}

// isRanked reports whether a table begins with its values. The console puts values
// last and sorts by the first column, so that they become a label.
func isRanked(p Panel) bool { return len(p.Columns) > 0 && isLetter(p.Columns[0].Field) }

// consoleRows is the query of a table, with the values that the console shows.
func consoleRows(p Panel) string {
	expr := p.Queries[0].Expr
	var labels []string
	for _, c := range p.Columns {
		switch {
		case !isLetter(c.Field):
			labels = append(labels, c.Field)
		case c.Of != 0:
			expr = fmt.Sprintf("%v - (%s)", c.Of, expr)
		case c.Unit.Per != 0:
			expr = fmt.Sprintf("(%s) / %v", expr, c.Unit.Per)
		}
	}
	if isRanked(p) {
		labels = slices.DeleteFunc(labels, func(l string) bool { return l == "cluster" || l == linkCluster.Field })
		expr = asLabel(expr, strings.Join(labels, ", "), "value")
	}
	return expr
}

func consoleStyles(p Panel) []sdk.ColumnStyle {
	hidden, value := []string{"Time", "cluster"}, "Value #A"
	if isRanked(p) {
		hidden, value = append(hidden, value), "value"
	}
	var out []sdk.ColumnStyle
	for _, c := range p.Columns {
		switch {
		case c.Hidden || c.GrafanaOnly || c.Field == "cluster":
		case !isLetter(c.Field):
			out = append(out, consoleStyle(c.Field, c))
		case c.Unit != unitText: // its tables have no words for numbers
			out = append(out, consoleStyle(value, c))
		}
	}
	if !slices.ContainsFunc(out, func(s sdk.ColumnStyle) bool { return s.Pattern == value }) {
		hidden = append(hidden, value)
	}
	for _, name := range hidden {
		out = append(out, sdk.ColumnStyle{Alias: new(""), Pattern: name, Type: "hidden"})
	}
	return out
}

func consoleStyle(pattern string, c Column) sdk.ColumnStyle {
	style := sdk.ColumnStyle{Alias: new(c.Title), Pattern: pattern, Type: "string"}
	if c.Unit.Suffix != "" {
		style.Alias = new(c.Title + ", " + c.Unit.Suffix)
	}
	if c.Unit != unitText {
		style.Type, style.Unit = "number", new(c.Unit.Console)
		style.Decimals = new(max(c.Unit.Decimals, 0))
		if c.Unit.Decimals < 0 {
			style.Decimals = new(2)
		}
	}
	return style
}

func consoleVariable(v Variable) sdk.TemplateVar {
	return sdk.TemplateVar{
		Name: v.Name, Label: v.Label, Type: "query", Query: consoleExpr(labelValues(v)),
		Refresh: sdk.BoolInt{Value: new(int64(2))}, Sort: 1,
		IncludeAll: v.All != "", AllValue: v.All, Options: []sdk.Option{},
		Current: sdk.Current{Text: &sdk.StringSliceString{Value: []string{}, Valid: true}, Value: ""},
	}
}

// single takes out of expressions what the console has no use for: the choice
// of a cluster, and the choice of a type where the series has none, because the
// console's "All" (.+) does not match a missing label.
var single = strings.NewReplacer(
	`cluster=~"$cluster",type=~"$type",crd_name`, `crd_name`,
	`cluster=~"$cluster",`, ``,
	`{cluster=~"$cluster"}`, ``,
	`(cluster, `, `(`,
	`by (cluster) `, ``,
	`on (cluster, `, `on (`,
)

func consoleExpr(expr string) string {
	anyType := strings.Contains(expr, `type=~"$type"`)
	expr = single.Replace(expr)
	if anyType {
		expr = strings.ReplaceAll(expr, converted, converted+` and on (type) max by (type) (webhook_auditor_webhook_info{type=~"$type"})`)
	}
	return expr
}

// converted is how asWebhook ends: where the series of a conversion have become
// those of a webhook, of a type that can be chosen.
const converted = `"type", "conversion", "", "")`

func consoleLegend(legend string) string {
	return strings.TrimSpace(strings.ReplaceAll(legend, "{{cluster}}", ""))
}

// prune removes nulls, which the console takes for values, and what says nothing: false and
// what is empty, but for texts, which a choice of all may be.
func prune(v any) {
	switch v := v.(type) {
	case object:
		for _, value := range v {
			prune(value)
		}
		maps.DeleteFunc(v, func(_ string, value any) bool { return empty(value) })
	case []any:
		for _, value := range v {
			prune(value)
		}
	}
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
