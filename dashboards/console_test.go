package dashboards

import (
	"math"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// consoleBoards returns the boards as the console reads them: the first key of
// each ConfigMap.
func consoleBoards(t *testing.T) map[string]object {
	t.Helper()
	out := map[string]object{}
	for _, doc := range documents(t, OpenShiftConsole) {
		data := doc["data"].(object)
		if len(data) != 1 {
			t.Errorf("%d keys in a ConfigMap: the console reads one", len(data))
		}
		for name, text := range data {
			board := object{}
			must.Succeed(t, yaml.Unmarshal([]byte(text.(string)), &board))
			out[name] = board
		}
	}
	return out
}

func documents(t *testing.T, form Form) []object {
	t.Helper()
	stream := must.Get(Print(form, Options{}))(t)
	var out []object
	for doc := range strings.SplitSeq(string(stream), "---\n") {
		o := object{}
		must.Succeed(t, yaml.Unmarshal([]byte(doc), &o))
		out = append(out, o)
	}
	return out
}

// The words of the console's dialect.
var (
	consoleTypes = []string{"graph", "singlestat", "table"}
	consoleUnits = []string{"Bytes", "bytes", "bps", "Bps", "pps", "ms", "s", "percentunit", "short", "none"}
)

// TestConsole holds what the console's own code asks of a board; what it does
// not understand it skips without a word.
func TestConsole(t *testing.T) {
	for name, board := range consoleBoards(t) {
		t.Run(name, func(t *testing.T) {
			if len(objects(board["rows"])) == 0 {
				t.Error("no rows")
			}
			for _, row := range objects(board["rows"]) {
				if len(objects(row["panels"])) == 0 || row["title"] == "" {
					t.Errorf("row %v: the console wants panels and a title", row["title"])
				}
				for _, p := range objects(row["panels"]) {
					consolePanel(t, p)
				}
			}
			choices, _ := board["templating"].(object) // that of the auditor has none
			for _, v := range objects(choices["list"]) {
				consoleChoice(t, v)
			}
		})
	}
}

func consolePanel(t *testing.T, p object) {
	t.Helper()
	title, _ := p["title"].(string)
	kind, _ := p["type"].(string)
	if title == "" {
		t.Error("a panel without title breaks the page")
	}
	if !slices.Contains(consoleTypes, kind) {
		t.Errorf("%s: the console does not draw %s", title, kind)
	}
	if span, _ := p["span"].(float64); span < 1 || span > 12 || span != math.Trunc(span) {
		t.Errorf("%s: span %v", title, p["span"])
	}
	if _, ok := p["datasource"].(object); ok {
		t.Errorf("%s: names a data source, which the console looks for among its plugins", title)
	}
	targets := objects(p["targets"])
	if len(targets) == 0 {
		t.Errorf("%s: nothing to ask", title)
	}
	for _, target := range targets {
		expr := target["expr"].(string)
		if strings.Contains(expr, "${") {
			t.Errorf("%s: the console knows $name only: %s", title, expr)
		}
	}
	switch kind {
	case "graph":
		consoleUnit(t, title, objects(p["yaxes"])[0]["format"])
	case "singlestat":
		consoleUnit(t, title, p["format"])
		if len(objects(p["options"].(object)["fieldOptions"].(object)["thresholds"])) == 0 {
			t.Errorf("%s: no color", title)
		}
	case "table":
		consoleColumns(t, title, p)
	}
}

func consoleUnit(t *testing.T, title string, unit any) {
	t.Helper()
	if !slices.Contains(consoleUnits, unit.(string)) {
		t.Errorf("%s: the console does not know the unit %v", title, unit)
	}
}

func consoleColumns(t *testing.T, title string, p object) {
	t.Helper()
	styles := objects(p["styles"])
	if len(styles) == 0 {
		t.Errorf("%s: a table without styles is an error card", title)
	}
	for _, s := range styles {
		if !slices.Contains([]string{"string", "number", "hidden"}, s["type"].(string)) {
			t.Errorf("%s: column of type %v", title, s["type"])
		}
		if _, ok := s["alias"].(string); !ok {
			t.Errorf("%s: column %v without alias", title, s["pattern"])
		}
	}
	for _, target := range objects(p["targets"]) {
		if target["instant"] != true || target["format"] != "table" {
			t.Errorf("%s: tables need instant queries", title)
		}
	}
}

// TestConsoleRanks: where the order of the rows says what is worst, the number is a
// label, which the console sorts by: its values go last.
func TestConsoleRanks(t *testing.T) {
	ranked := map[string]string{"What changed just before": "h", "Admission budget of critical resources": "s", "CA bundles": "d", "Serving certificates": "d"}
	for _, board := range consoleBoards(t) {
		inside(board, func(o object) {
			title, _ := o["title"].(string)
			suffix, isRanked := ranked[title]
			if !isRanked || o["type"] != "table" {
				return
			}
			delete(ranked, title)
			first := objects(o["styles"])[0]
			if first["pattern"] != "value" || first["type"] != "number" || !strings.HasSuffix(first["alias"].(string), ", "+suffix) {
				t.Errorf("%s begins with %v", title, first)
			}
			expr, _ := objects(o["targets"])[0]["expr"].(string)
			if !strings.HasPrefix(expr, "count_values by (") || !strings.Contains(expr, `("value", `) {
				t.Errorf("%s: its number is no label:\n%s", title, expr)
			}
			parse(t, expr)
		})
	}
	for title := range ranked {
		t.Errorf("no table %s", title)
	}
}

func consoleChoice(t *testing.T, v object) {
	t.Helper()
	if v["type"] != "query" {
		t.Errorf("variable %v: the console does not know the type %v", v["name"], v["type"])
	}
	if q, _ := v["query"].(string); !strings.HasPrefix(q, "label_values(") || !strings.Contains(q, ", ") {
		t.Errorf("variable %v: the console reads label_values(metric, label) only: %v", v["name"], v["query"])
	}
}
