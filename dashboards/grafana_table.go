package dashboards

import (
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

type (
	override  = dashboard.DashboardFieldConfigSourceOverrides
	property  = dashboard.DynamicConfigValue
	transform = dashboard.DataTransformerConfig
)

func overrides(p Panel) []override {
	out := []override{}
	for i, q := range p.Queries {
		if q.Total {
			out = append(out, overrideOf("byFrameRefID", letter(i),
				fixedColor("text"),
				property{Id: "custom.lineStyle", Value: common.LineStyle{Fill: new(common.LineStyleFillDash), Dash: []float64{8, 8}}},
				property{Id: "custom.lineWidth", Value: 1},
				property{Id: "links", Value: []dashboard.DashboardLink{}}))
		}
		if q.Color != "" {
			out = append(out, overrideOf("byFrameRefID", letter(i), fixedColor(q.Color)))
		}
	}
	switch p.Kind {
	case Matrix:
		corner := p.Columns[0].Field + `\` + p.Columns[1].Field
		out = append(out, overrideOf("byName", corner, property{Id: "displayName", Value: p.Columns[0].Title}))
	case Table:
		for _, c := range grafanaColumns(p) {
			out = append(out, overrideOf("byName", grafanaField(c), columnProperties(c)...))
		}
	}
	return out
}

func overrideOf(matcher, options string, properties ...property) override {
	return override{Matcher: dashboard.MatcherConfig{Id: matcher, Options: options}, Properties: properties}
}

func fixedColor(color string) property {
	return property{Id: "color", Value: dashboard.FieldColor{Mode: dashboard.FieldColorModeIdFixed, FixedColor: new(color)}}
}

// grafanaColumns are the columns that Grafana draws.
func grafanaColumns(p Panel) []Column {
	return slices.DeleteFunc(slices.Clone(p.Columns), func(c Column) bool { return c.ConsoleOnly })
}

// columnProperties style a column. Without a noValue of its own, each empty
// cell would show the text of the empty table.
func columnProperties(c Column) []property {
	out := []property{{Id: "displayName", Value: c.Title}, {Id: "unit", Value: c.Unit.Grafana}, {Id: "noValue", Value: ""}}
	wrapping := common.TableAutoCellOptions{Type: common.TableCellDisplayModeAuto, WrapText: new(true)}
	colored := len(c.Thresholds) > 0 || slices.ContainsFunc(c.Texts, func(t Text) bool { return t.Color != "" })
	for _, p := range []struct {
		applies bool
		id      string
		value   any
	}{
		{c.Unit.Decimals >= 0 && c.Unit != unitText, "decimals", c.Unit.Decimals},
		{c.Width > 0, "custom.width", c.Width},
		{len(c.Thresholds) > 0, "thresholds", thresholds(c.Thresholds)},
		{len(c.Texts) > 0, "mappings", mappings(c.Texts)},
		{c.Wrap, "custom.inspect", true},
		{c.Wrap, "custom.wrapText", true},        // from Grafana 12.2 on
		{c.Wrap, "custom.cellOptions", wrapping}, // until then
		{c.Hidden, "custom.hidden", true},        // until Grafana 12.1
		{c.Hidden, "custom.hideFrom", common.HideSeriesConfig{Viz: true}},
		{colored, "custom.cellOptions", coloredCells()},
		{len(c.Links) > 0, "links", dataLinks(c.Links)},
	} {
		if p.applies {
			out = append(out, property{Id: p.id, Value: p.value})
		}
	}
	return out
}

func coloredCells() *common.TableCellOptions {
	colored := common.TableColorTextCellOptions{Type: common.TableCellDisplayModeColorText}
	return &common.TableCellOptions{TableColorTextCellOptions: &colored}
}

// grafanaField is the column's name in Grafana's frames.
func grafanaField(c Column) string {
	if isLetter(c.Field) {
		return "Value"
	}
	return c.Field
}

func isLetter(field string) bool { return len(field) == 1 && field[0] >= 'A' && field[0] <= 'Z' }

// transformations keep the columns of a table in their order.
func transformations(p Panel) []transform {
	switch p.Kind {
	case Matrix:
		return []transform{{Id: "groupingToMatrix", Options: object{
			"rowField": p.Columns[0].Field, "columnField": p.Columns[1].Field, "valueField": "Value", "emptyValue": "zero",
		}}}
	case Table:
		return append(readNumbers(p), selectColumns(p)...)
	}
	return nil
}

// readNumbers makes numbers of the labels that hold some.
func readNumbers(p Panel) []transform {
	var out []object
	for _, c := range p.Columns {
		if c.Number {
			out = append(out, object{"targetField": c.Field, "destinationType": "number"})
		}
	}
	if out == nil {
		return nil
	}
	return []transform{{Id: "convertFieldType", Options: object{"fields": object{}, "conversions": out}}}
}

// selectColumns keeps the columns of the table, in their order.
func selectColumns(p Panel) []transform {
	names, index := []string{}, object{}
	for i, c := range grafanaColumns(p) {
		names = append(names, grafanaField(c))
		index[grafanaField(c)] = i
	}
	return []transform{
		{Id: "filterFieldsByName", Options: object{"include": object{"names": names}}},
		{Id: "organize", Options: object{"indexByName": index, "excludeByName": object{}, "renameByName": object{}}},
	}
}
