package dashboards

import (
	"cmp"
	"slices"
	"strings"

	"github.com/grafana-tools/sdk"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

func grafanaPanel(b Board, p Panel) *dashboard.Panel {
	return &dashboard.Panel{
		Type:            kinds[p.Kind].grafana,
		Title:           new(p.Title),
		Description:     new(p.Description),
		Datasource:      datasource(),
		Targets:         grafanaTargets(b, p),
		Options:         kinds[p.Kind].options(p),
		FieldConfig:     &dashboard.FieldConfigSource{Defaults: fieldDefaults(p), Overrides: overrides(p)},
		Transformations: transformations(p),
	}
}

// kinds say how panels of each kind are drawn in both dialects, and what stands in one without
// series. What Grafana would otherwise look up in an empty string is spelled out.
var kinds = map[Kind]struct {
	grafana string
	// options are those of the panel, style draws its values.
	options, style func(Panel) any
	console        func(Panel) *sdk.Panel
	unknown        string
}{
	TimeSeries:        {"timeseries", chartOptions, func(p Panel) any { return lineStyle(p) }, consoleGraph, notMeasured},
	StackedTimeSeries: {"timeseries", chartOptions, stackStyle, consoleGraph, notMeasured},
	Stat:              {"stat", statOptions, func(Panel) any { return object{} }, consoleNumber, notMeasured},
	Table: {"table", tableOptions, func(Panel) any {
		auto := common.TableAutoCellOptions{Type: common.TableCellDisplayModeAuto}
		return common.TableFieldOptions{
			Align: common.FieldTextAlignmentAuto, CellOptions: &common.TableCellOptions{TableAutoCellOptions: &auto},
		}
	}, consoleTable, unknownTable},
	Matrix: {"table", tableOptions, func(Panel) any {
		return common.TableFieldOptions{
			Align: common.FieldTextAlignmentCenter, CellOptions: coloredCells(), MinWidth: new(90.0),
		}
	}, consoleTable, unknownTable},
	StateTimeline: {"state-timeline", timelineOptions, func(Panel) any {
		return statetimeline.FieldConfig{
			FillOpacity: new(uint32(80)), LineWidth: new(uint32(0)),
			SpanNulls: &statetimeline.BoolOrUint32{Bool: new(false)},
		}
	}, consoleGraph, notMeasured},
}

// letter names the query: A, B and so on.
func letter(i int) string { return string(rune('A' + i)) }

// linksToRowCluster reports whether the panel links to boards in the cluster of
// a row or series.
func linksToRowCluster(p Panel) bool {
	return len(p.Links) > 0 ||
		slices.ContainsFunc(p.Columns, func(c Column) bool { return c.Field == linkCluster.Field })
}

func grafanaTargets(b Board, p Panel) []variants.Dataquery {
	var out []variants.Dataquery
	for i, q := range p.Queries {
		expr := q.Expr
		if linksToRowCluster(p) && !strings.Contains(expr, `"at", `) {
			expr = withLinkCluster("(" + expr + ")")
		}
		target := prometheus.Dataquery{
			RefId: new(letter(i)), Expr: grafanaExpr(b, expr), Datasource: datasource(),
			EditorMode: new(prometheus.QueryEditorModeCode), Interval: new(minStep),
			LegendFormat: new(cmp.Or(q.Legend, "__auto")),
			Instant:      new(p.Kind.instant()), Range: new(!p.Kind.instant()),
		}
		if p.Kind == Table || p.Kind == Matrix {
			target.Format = new(prometheus.PromQueryFormatTable)
		}
		out = append(out, target)
	}
	return out
}

// instant reports whether panels of the kind query the end of the time range
// only.
func (k Kind) instant() bool { return k == Table || k == Matrix || k == Stat }

func chartOptions(p Panel) any {
	return timeseries.Options{
		Legend: common.VizLegendOptions{
			DisplayMode: common.LegendDisplayModeTable, Placement: legendPlacement(p), ShowLegend: true,
			Calcs: []string{"lastNotNull", "max"}, SortBy: new("Max"), SortDesc: new(true),
		},
		Tooltip: common.VizTooltipOptions{Mode: common.TooltipDisplayModeMulti, Sort: common.SortOrderDescending},
	}
}

// legendPlacement gives ten names room where the chart keeps enough of it: beside
// one that is as wide as the board.
func legendPlacement(p Panel) common.LegendPlacement {
	if p.Width == gridWidth {
		return common.LegendPlacementRight
	}
	return common.LegendPlacementBottom
}

func tableOptions(Panel) any {
	return table.Options{ShowHeader: true, CellHeight: new(common.TableCellHeightSm)}
}

func statOptions(Panel) any {
	return stat.Options{
		ColorMode: common.BigValueColorModeBackground, GraphMode: common.BigValueGraphModeNone,
		JustifyMode: common.BigValueJustifyModeCenter,
		TextMode:    common.BigValueTextModeValue, WideLayout: true,
		PercentChangeColorMode: common.PercentChangeColorModeStandard,
		Orientation:            common.VizOrientationAuto,
		ReduceOptions:          common.ReduceDataOptions{Calcs: []string{"lastNotNull"}, Fields: new(""), Values: new(false)},
	}
}

func timelineOptions(Panel) any {
	return statetimeline.Options{
		ShowValue: common.VisibilityModeAuto, RowHeight: 0.8, MergeValues: new(true),
		AlignValue: new(common.TimelineValueAlignmentLeft),
		Legend: common.VizLegendOptions{
			DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, Calcs: []string{},
		},
		Tooltip: common.VizTooltipOptions{Mode: common.TooltipDisplayModeSingle, Sort: common.SortOrderNone},
	}
}

func fieldDefaults(p Panel) dashboard.FieldConfig {
	out := dashboard.FieldConfig{
		Unit:       new(p.Unit.Grafana),
		Color:      &dashboard.FieldColor{Mode: dashboard.FieldColorModeIdThresholds},
		Thresholds: thresholds(p.Thresholds),
		Mappings:   mappings(p.Texts),
		NoValue:    new(cmp.Or(p.Unknown, kinds[p.Kind].unknown)),
		Custom:     kinds[p.Kind].style(p),
	}
	if p.Unit.Decimals >= 0 {
		out.Decimals = new(float64(p.Unit.Decimals))
	}
	switch p.Kind {
	case StateTimeline:
		// In the mode "thresholds" Grafana merges neighbors by their thresholds, and
		// forgets the mappings.
		out.Color = &dashboard.FieldColor{Mode: dashboard.FieldColorModeIdFixed, FixedColor: new(grey)}
	case TimeSeries, StackedTimeSeries:
		// By name: a webhook has the same color in each chart.
		out.Color = &dashboard.FieldColor{Mode: dashboard.FieldColorModeIdPaletteClassicByName}
		out.Min = new(0.0)
		out.Links = dataLinks(p.Links)
	}
	return out
}

func lineStyle(p Panel) *common.GraphFieldConfig {
	marks := common.GraphThresholdsStyleModeOff
	if len(p.Thresholds) > 0 {
		marks = common.GraphThresholdsStyleModeDashed
	}
	return &common.GraphFieldConfig{
		DrawStyle:         new(common.GraphDrawStyleLine),
		LineInterpolation: new(common.LineInterpolationLinear),
		LineWidth:         new(2.0),
		LineStyle:         &common.LineStyle{Fill: new(common.LineStyleFillSolid)},
		FillOpacity:       new(0.0),
		GradientMode:      new(common.GraphGradientModeNone),
		ShowPoints:        new(common.VisibilityModeNever),
		PointSize:         new(5.0),
		SpanNulls:         &common.BoolOrFloat64{Bool: new(false)},
		AxisPlacement:     new(common.AxisPlacementAuto),
		AxisColorMode:     new(common.AxisColorModeText),
		AxisSoftMax:       new(leastMax[p.Unit]),
		BarAlignment:      new(common.BarAlignmentCenter),
		ScaleDistribution: &common.ScaleDistributionConfig{Type: common.ScaleDistributionLinear},
		Stacking:          &common.StackingConfig{Group: new("A"), Mode: new(common.StackingModeNone)},
		ThresholdsStyle:   &common.GraphThresholdsStyleConfig{Mode: marks},
		HideFrom:          &common.HideSeriesConfig{},
	}
}

// leastMax is how far the axis of a chart reaches at least: a line of zeros
// would otherwise stand below a hundred, or ten thousand percent.
var leastMax = map[Unit]float64{
	unitPercent: 0.01, unitRate: 0.1, unitTimes: 1, unitSeconds: 0.01, unitCount: 1,
}

func stackStyle(p Panel) any {
	style := lineStyle(p)
	style.Stacking.Mode = new(common.StackingModeNormal)
	style.FillOpacity, style.LineWidth = new(40.0), new(1.0)
	return style
}

// thresholds begin with the step for all smaller values, and for none at all,
// which is neither good nor bad.
func thresholds(levels []Threshold) *dashboard.ThresholdsConfig {
	steps := []dashboard.Threshold{{Color: grey}}
	for _, t := range levels {
		steps = append(steps, dashboard.Threshold{Color: t.Color, Value: new(t.From)})
	}
	return &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: steps}
}

func mappings(texts []Text) []dashboard.ValueMapping {
	if len(texts) == 0 {
		return nil
	}
	options := map[string]dashboard.ValueMappingResult{}
	for i, t := range texts {
		result := dashboard.ValueMappingResult{Text: new(t.Text), Index: new(int32(i))}
		if t.Color != "" {
			result.Color = new(t.Color)
		}
		options[t.Value] = result
	}
	return []dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{
		Type: dashboard.MappingTypeValueToText, Options: options,
	}}}
}

func dataLinks(links []Link) []dashboard.DashboardLink {
	return lists.Map(links, dashboardLink)
}
