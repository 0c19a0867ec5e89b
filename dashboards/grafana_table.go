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
				fixedColor(dashboard.FieldColorModeIdFixed, "text"),
				property{Id: "custom.lineStyle", Value: common.LineStyle{Fill: new(common.LineStyleFillDash), Dash: []float64{8, 8}}},
				property{Id: "custom.lineWidth", Value: 1},
				property{Id: "links", Value: []dashboard.DashboardLink{}}))
		}
		if q.Color != "" {
			out = append(out, overrideOf("byFrameRefID", letter(i), fixedColor(dashboard.FieldColorModeIdFixed, q.Color)))
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

func fixedColor(mode dashboard.FieldColorModeId, color string) property {
	return property{Id: "color", Value: dashboard.FieldColor{Mode: mode, FixedColor: new(color)}}
}

// grafanaColumns are the columns that Grafana draws.
func grafanaColumns(p Panel) []Column {
	return slices.DeleteFunc(slices.Clone(p.Columns), func(c Column) bool { return c.ConsoleOnly })
}

// columnProperties style a column. Without a noValue of its own, each empty
// cell would show the text of the empty table.
func columnProperties(c Column) []property {
	out := []property{{Id: "displayName", Value: c.Title}, {Id: "unit", Value: c.Unit.Grafana}, {Id: "noValue", Value: ""}}
	if c.Unit.Decimals >= 0 && c.Unit != unitText {
		out = append(out, property{Id: "decimals", Value: c.Unit.Decimals})
	}
	if c.Width > 0 {
		out = append(out, property{Id: "custom.width", Value: c.Width})
	}
	if len(c.Thresholds) > 0 {
		out = append(out, property{Id: "thresholds", Value: thresholds(c.Thresholds)})
	}
	if len(c.Texts) > 0 {
		out = append(out, property{Id: "mappings", Value: mappings(c.Texts)})
	}
	if c.Wrap {
		// The first wraps from Grafana 12.2 on, the last until then.
		out = append(out, property{Id: "custom.inspect", Value: true}, property{Id: "custom.wrapText", Value: true},
			property{Id: "custom.cellOptions", Value: common.TableAutoCellOptions{
				Type: common.TableCellDisplayModeAuto, WrapText: new(true),
			}})
	}
	if c.Hidden {
		// The first is Grafana's until 12.1, the second from 12.2 on.
		out = append(out, property{Id: "custom.hidden", Value: true}, property{Id: "custom.hideFrom", Value: common.HideSeriesConfig{Viz: true}})
	}
	if len(c.Thresholds) > 0 || slices.ContainsFunc(c.Texts, func(t Text) bool { return t.Color != "" }) {
		out = append(out, property{Id: "custom.cellOptions", Value: coloredCells()})
	}
	if len(c.Links) > 0 {
		out = append(out, property{Id: "links", Value: dataLinks(c.Links)})
	}
	return out
}

func plainCells() *common.TableCellOptions {
	auto := common.TableAutoCellOptions{Type: common.TableCellDisplayModeAuto}
	return &common.TableCellOptions{TableAutoCellOptions: &auto}
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
