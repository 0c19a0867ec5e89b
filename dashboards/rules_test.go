package dashboards

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

// rule is a trap that was seen in a running Grafana or console, and a board that
// falls into it.
type rule struct {
	name  string
	check func(board object) []string
	bad   object
}

var panelOf = func(panel object) object { return object{"panels": []any{panel}} }

var grafanaRules = []rule{
	{
		"the states of a timeline have a fixed color mode: by thresholds, Grafana drops the mappings",
		ofPanels(checkStates),
		panelOf(object{"type": "state-timeline", "fieldConfig": object{"defaults": object{"color": object{"mode": "thresholds"}}}}),
	},
	{
		"a data source variable has a current value: else the first by the alphabet is chosen",
		checkCurrent,
		object{"templating": object{"list": []any{object{"name": "datasource", "type": "datasource", "query": "prometheus"}}}},
	},
	{
		"custom variables are asked for raw: else Grafana escapes regular expressions",
		checkRaw,
		object{
			"templating": object{"list": []any{object{"name": "type", "type": "custom", "query": "conversion : conversion|"}}},
			"panels":     []any{object{"title": "x", "targets": []any{object{"expr": `x{type=~"$type"}`}}}},
		},
	},
	{
		"the base step of thresholds is grey: it is the color of what was not measured",
		checkBase,
		panelOf(object{"title": "x", "thresholds": object{"mode": "absolute", "steps": []any{object{"color": "green", "value": nil}}}}),
	},
	{
		"annotations mark starts: what lasts becomes a region that covers the charts",
		checkRegions,
		object{"annotations": object{"list": []any{object{"name": "Alerts", "target": object{"expr": `ALERTS{alertstate="firing"}`}}}}},
	},
	{
		"what was not measured is not good news: neither a table nor a number says that there is nothing",
		ofPanels(checkUnknown),
		panelOf(object{"title": "x", "type": "table", "fieldConfig": object{"defaults": object{"noValue": "Nothing is wrong with it."}}}),
	},
	{
		"a link to a row's webhook keeps the row's cluster",
		checkCluster,
		panelOf(object{"title": "x", "links": []any{object{"url": "/d/webhook-auditor-webhook?var-name=${__data.fields.name}&${cluster:queryparam}"}}}),
	},
	{
		"lines have a color by their name: else a webhook has another color in each chart",
		ofPanels(checkPalette),
		panelOf(object{"title": "x", "type": "timeseries", "fieldConfig": object{"defaults": object{"color": object{"mode": "palette-classic"}}}}),
	},
	{
		"shares do not exceed the whole",
		ofPanels(checkShares),
		panelOf(object{"title": "x", "type": "timeseries", "fieldConfig": object{"defaults": object{"unit": "percentunit"}}, "targets": []any{object{"expr": "a / b"}}}),
	},
	{
		"runbooks open in a tab of their own",
		checkOutside,
		panelOf(object{"title": "x", "links": []any{object{"url": "https://example.com/x.md", "targetBlank": false}}}),
	},
	{
		"legends have room for ten names, and leave it to the chart where it is half as wide as the board",
		ofPanels(checkLegends),
		panelOf(object{"title": "x", "type": "timeseries", "gridPos": object{"w": 12.0}, "options": object{"legend": object{"placement": "right"}}}),
	},
	{
		"what to do first is in view at 1440 pixels with the menu docked",
		ofPanels(checkInView),
		panelOf(object{"title": "x", "gridPos": object{"w": 24.0}, "fieldConfig": object{"overrides": []any{
			object{"properties": []any{object{"id": "displayName", "value": "Owner"}, object{"id": "custom.width", "value": 900.0}}},
			object{"properties": []any{object{"id": "displayName", "value": "First command"}, object{"id": "custom.width", "value": 300.0}}},
		}}}),
	},
	{
		"names of webhooks, revisions and reasons are whole at 1440 pixels with the menu docked",
		ofPanels(checkNames),
		panelOf(object{"title": "x", "gridPos": object{"w": 12.0}, "fieldConfig": object{"overrides": []any{
			object{"properties": []any{object{"id": "displayName", "value": "Webhook"}}},
			object{"properties": []any{object{"id": "displayName", "value": "Configuration"}, object{"id": "custom.width", "value": 400.0}}},
		}}}),
	},
	{
		"hidden text fields have a value: without one a link chooses nothing",
		checkTextboxes,
		object{"templating": object{"list": []any{object{"name": "all_type", "type": "textbox", "query": ""}}}},
	},
	{
		"titles are whole at 1440 pixels with the menu docked, and on half a screen",
		ofPanels(checkTitles),
		panelOf(object{"title": "Rejected", "type": "stat", "gridPos": object{"w": 4.0}}),
	},
}

// TestGrafanaRules holds each rule against all boards, and against a board that
// breaks it.
func TestGrafanaRules(t *testing.T) {
	boards := drawn(t)
	for _, r := range grafanaRules {
		if len(r.check(r.bad)) == 0 {
			t.Errorf("%s: the bad example passes", r.name)
		}
		for _, name := range slices.Sorted(maps.Keys(boards)) {
			for _, complaint := range r.check(boards[name]) {
				t.Errorf("%s: %s: %s", name, r.name, complaint)
			}
		}
	}
}

// inside visits each object below v, however deep.
func inside(v any, visit func(object)) {
	switch v := v.(type) {
	case object:
		visit(v)
		for _, inner := range v {
			inside(inner, visit)
		}
	case []any:
		for _, inner := range v {
			inside(inner, visit)
		}
	}
}

func below(v any, keys ...string) any {
	for _, key := range keys {
		o, _ := v.(object)
		v = o[key]
	}
	return v
}

// ofPanels makes a check of what is complained of one panel; "" where it is as it should be.
func ofPanels(complaint func(p object) string) func(board object) []string {
	return func(board object) (out []string) {
		for _, p := range panelsOf(board) {
			if text := complaint(p); text != "" {
				out = append(out, fmt.Sprintf("%v: %s", p["title"], text))
			}
		}
		return out
	}
}

// overridesOf are the properties that a panel sets of each of its columns that is shown.
func overridesOf(p object) []object {
	var out []object
	for _, o := range objects(below(p, "fieldConfig", "overrides")) {
		set := object{}
		for _, property := range objects(o["properties"]) {
			set[property["id"].(string)] = property["value"]
		}
		if set["custom.hidden"] != true {
			out = append(out, set)
		}
	}
	return out
}

func checkStates(p object) string {
	if mode := below(p, "fieldConfig", "defaults", "color", "mode"); p["type"] == "state-timeline" && mode != "fixed" {
		return fmt.Sprint(mode)
	}
	return ""
}

func checkCurrent(board object) (out []string) {
	for _, v := range objects(below(board, "templating", "list")) {
		if v["type"] == "datasource" && v["query"] == "prometheus" && below(v, "current", "value") != "default" {
			out = append(out, fmt.Sprintf("$%v", v["name"]))
		}
	}
	return out
}

func checkRaw(board object) (out []string) {
	for _, v := range objects(below(board, "templating", "list")) {
		if v["type"] != "custom" {
			continue
		}
		cooked := regexp.MustCompile(fmt.Sprintf(`\$%[1]v\b|\$\{%[1]v(:[^r][^}]*)?\}`, v["name"]))
		inside(board, func(o object) {
			for _, key := range []string{"expr", "query", "definition"} {
				if expr, ok := o[key].(string); ok && cooked.MatchString(expr) {
					out = append(out, expr)
				}
			}
		})
	}
	return out
}

func checkBase(board object) (out []string) {
	inside(board, func(o object) {
		steps := objects(o["steps"])
		if len(steps) > 0 && (steps[0]["color"] != grey || steps[0]["value"] != nil) {
			out = append(out, fmt.Sprint(steps))
		}
	})
	return out
}

func checkRegions(board object) (out []string) {
	for _, a := range objects(below(board, "annotations", "list")) {
		expr, _ := below(a, "target", "expr").(string)
		starts := strings.Contains(expr, "unless") && strings.Contains(expr, "offset $__interval)") || a["useValueForTime"] == true
		if strings.Contains(expr, "ALERTS") && !strings.Contains(expr, `severity=~"critical|warning"`) || !starts {
			out = append(out, expr)
		}
	}
	return out
}

// noData matches the texts that panels without series may show.
var noData = regexp.MustCompile(`(?i)^unknown|nothing (is known|measured)|^none$|or no rules|or nothing is known`)

func checkUnknown(p object) string {
	if text := below(p, "fieldConfig", "defaults", "noValue"); p["type"] != "row" && !noData.MatchString(fmt.Sprint(text)) {
		return fmt.Sprintf("it shows %v", text)
	}
	return ""
}

func checkCluster(board object) (out []string) {
	inside(board, func(o object) {
		url, _ := o["url"].(string)
		if strings.Contains(url, "var-name=${__") && !strings.Contains(url, "var-cluster=${__") {
			out = append(out, url)
		}
	})
	return out
}

func checkPalette(p object) string {
	if mode := below(p, "fieldConfig", "defaults", "color", "mode"); p["type"] == "timeseries" && mode != "palette-classic-by-name" {
		return fmt.Sprint(mode)
	}
	return ""
}

func checkLegends(p object) string {
	placement := below(p, "options", "legend", "placement")
	if p["type"] == "timeseries" && (placement == "right") != (below(p, "gridPos", "w") == 24.0) {
		return fmt.Sprint(placement)
	}
	return ""
}

func checkShares(p object) string {
	for _, target := range objects(p["targets"]) {
		isShare := below(p, "fieldConfig", "defaults", "unit") == "percentunit" && p["type"] == "timeseries"
		if expr := target["expr"].(string); isShare && !strings.Contains(expr, "clamp_max(") {
			return expr
		}
	}
	return ""
}

func checkOutside(board object) (out []string) {
	inside(board, func(o object) {
		if url, _ := o["url"].(string); strings.HasPrefix(url, "https://") && o["targetBlank"] != true {
			out = append(out, url)
		}
	})
	return out
}

// Measured in Grafana 12.2: the board's width at 1440 pixels with the menu
// docked, what a panel's frame and its icon take, and a title's mean letter.
const (
	dockedWidth = 1108
	frameWidth  = 64
	letterWidth = 7.6
	// The same on a screen of 820 pixels, where letters are measured one by one.
	halfWidth = 796
	halfFrame = 83
	// tablePadding is what a panel takes beside its table.
	tablePadding = 16
)

// leastWidth is that of a column without a width of its own.
const leastWidth = 150

func checkInView(p object) string {
	width := 0.0
	for _, set := range overridesOf(p) {
		column, ok := set["custom.width"].(float64)
		if !ok {
			column = leastWidth
		}
		if width += column; set["displayName"] == "First command" && width > roomOf(p) {
			return fmt.Sprintf("it ends at %v pixels", width)
		}
	}
	return ""
}

// roomOf is the width of a panel's table.
func roomOf(p object) float64 {
	return below(p, "gridPos", "w").(float64)*dockedWidth/gridWidth - tablePadding
}

// leastNames is what names of webhooks and revisions need, by their titles.
var leastNames = map[string]float64{"Webhook": 234, "Revision": 350, "Reason": 160}

func checkNames(p object) string {
	room, flexible := roomOf(p), ""
	for _, set := range overridesOf(p) {
		title, _ := set["displayName"].(string)
		width, fixed := set["custom.width"].(float64)
		if room -= width; !fixed && flexible == "" {
			flexible = title
		}
		if least := leastNames[title]; fixed && width < least {
			return fmt.Sprintf("%s has %v pixels, want %v", title, width, least)
		}
	}
	if least := leastNames[flexible]; least > 0 && room < least {
		return fmt.Sprintf("%s has %.0f pixels, want %v", flexible, room, least)
	}
	return ""
}

func checkTextboxes(board object) (out []string) {
	for _, v := range objects(below(board, "templating", "list")) {
		if v["type"] == "textbox" && v["query"] == "" {
			out = append(out, fmt.Sprint(v["name"]))
		}
	}
	return out
}

// lengthOf is the width of a title, by its narrow, wide and other letters.
func lengthOf(title string) (pixels float64) {
	for _, letter := range title {
		switch {
		case strings.ContainsRune("fijlrtI ", letter):
			pixels += 4
		case strings.ContainsRune("mwMW", letter):
			pixels += 11.5
		default:
			pixels += 8.2
		}
	}
	return pixels
}

func checkTitles(p object) string {
	title, _ := p["title"].(string)
	width, _ := below(p, "gridPos", "w").(float64)
	if float64(len(title))*letterWidth > width*dockedWidth/gridWidth-frameWidth || lengthOf(title) > width*halfWidth/gridWidth-halfFrame {
		return "it is cut off"
	}
	return ""
}

// TestConsoleThresholds finds the color of a value as the console does: that of
// the last threshold below it, and not of one that equals it.
func TestConsoleThresholds(t *testing.T) {
	colorOf := func(thresholds []object, value float64) any {
		i := sort.Search(len(thresholds), func(i int) bool { return thresholds[i]["value"].(float64) >= value })
		if i == 0 {
			return nil
		}
		return thresholds[i-1]["color"]
	}
	if got := colorOf([]object{{"color": "green", "value": 0.0}, {"color": "red", "value": 1.0}}, 1); got == "red" {
		t.Error("the console's trap is not one: thresholds as Grafana has them pass")
	}
	for _, b := range boardsIn(OpenShiftConsole) {
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				if p.Kind != Stat {
					continue
				}
				for _, edge := range p.Thresholds {
					if got := colorOf(consoleThresholds(p.Thresholds), edge.From); got != edge.Color && edge.From > -1e9 {
						t.Errorf("%s, %s: %v is %v, not %s", b.Name, p.Title, edge.From, got, edge.Color)
					}
				}
			}
		}
	}
}

// TestConsoleWords holds what the console has instead of what Grafana has: a
// text for no value at all, and units in words.
func TestConsoleWords(t *testing.T) {
	for name, board := range consoleBoards(t) {
		inside(board, func(o object) {
			if o["type"] == "singlestat" && !slices.ContainsFunc(objects(o["valueMaps"]), func(m object) bool { return m["value"] == "null" && m["text"] != "" }) {
				t.Errorf("%s: %v: no text where there is no value", name, o["title"])
			}
			if o["type"] == "singlestat" && o["format"] == "s" && o["postfix"] == nil {
				t.Errorf("%s: %v: bare seconds", name, o["title"])
			}
			if o["type"] == "number" && o["unit"] == "s" && !strings.HasSuffix(o["alias"].(string), ", s") {
				t.Errorf("%s: column %v: bare seconds", name, o["alias"])
			}
		})
	}
}

// TestConsoleTypes holds that the choice of a type counts for conversions, whose
// series have none.
func TestConsoleTypes(t *testing.T) {
	expr := consoleExpr(selected.calls())
	if !strings.Contains(expr, `and on (type) max by (type) (webhook_auditor_webhook_info{type=~"$type"})`) {
		t.Errorf("conversions are there whatever the type:\n%s", expr)
	}
	parse(t, expr)
}
