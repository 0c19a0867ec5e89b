package dashboards

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// drawn returns the boards as Grafana reads them.
func drawn(t *testing.T) map[string]object {
	t.Helper()
	files := must.Get(Render(JSON, Options{}))(t)
	out := map[string]object{}
	for name, file := range files {
		board := object{}
		must.Succeed(t, json.Unmarshal(file, &board))
		out[name] = board
	}
	return out
}

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

func panelsOf(board object) []object {
	var out []object
	for _, p := range objects(board["panels"]) {
		out = append(append(out, p), objects(p["panels"])...)
	}
	return out
}

// TestLint holds the rules of Grafana's dashboard-linter that apply. The API
// server's series must not be pinned to a job or an instance: aggregated API
// servers call webhooks too.
func TestLint(t *testing.T) {
	for name, board := range drawn(t) {
		t.Run(name, func(t *testing.T) {
			if board["editable"] != false {
				t.Error("users would edit what the next rollout overwrites")
			}
			for _, key := range []string{"title", "description", "uid"} {
				if board[key] == "" {
					t.Errorf("no %s", key)
				}
			}
			if uid := board["uid"].(string); len(uid) > 40 {
				t.Errorf("uid %s is too long", uid)
			}
			variables := objects(board["templating"].(object)["list"])
			if variables[0]["type"] != "datasource" || variables[0]["name"] != "datasource" {
				t.Error("the data source is not a choice")
			}
			for _, v := range variables {
				lintVariable(t, v)
			}
			for _, p := range panelsOf(board) {
				lintPanel(t, p)
			}
		})
	}
}

// TestControls: Grafana puts each variable, switch and link above the panels, where each
// takes a row of half a screen.
func TestControls(t *testing.T) {
	for name, board := range drawn(t) {
		controls := len(objects(board["links"]))
		for _, v := range slices.Concat(objects(board["templating"].(object)["list"]), objects(board["annotations"].(object)["list"])) {
			if v["hide"] == nil || v["hide"] == 0.0 {
				controls++
			}
			if label, _ := v["label"].(string); v["type"] == "datasource" && len(label) > 6 {
				t.Errorf("%s: the label %q leaves no room for the name of the data source", name, label)
			}
		}
		if controls > 7 {
			t.Errorf("%s: %d controls above the panels", name, controls)
		}
	}
}

func lintVariable(t *testing.T, v object) {
	t.Helper()
	if v["type"] == "query" && v["refresh"] != 2.0 {
		t.Errorf("$%v does not follow the time range", v["name"])
	}
	for _, key := range []string{"label", "description"} {
		if v["hide"] != 2.0 && v[key] == "" {
			t.Errorf("$%v has no %s", v["name"], key)
		}
	}
	if v["type"] == "query" && v["includeAll"] == true && v["allValue"] != ".*" {
		t.Errorf("$%v: All would be a list of every name", v["name"])
	}
}

func lintPanel(t *testing.T, p object) {
	t.Helper()
	if p["type"] == "row" {
		return
	}
	title, _ := p["title"].(string)
	if title == "" || p["description"] == nil || p["description"] == "" {
		t.Errorf("panel %q without title or description", title)
	}
	if uid := p["datasource"].(object)["uid"]; uid != "${datasource}" {
		t.Errorf("%s: asks the data source %v", title, uid)
	}
	if len(objects(p["targets"])) == 0 {
		t.Errorf("%s: nothing to ask", title)
	}
	for _, target := range objects(p["targets"]) {
		if target["expr"] == "" {
			t.Errorf("%s: empty query", title)
		}
		if uid := target["datasource"].(object)["uid"]; uid != "${datasource}" {
			t.Errorf("%s: query %v asks the data source %v", title, target["refId"], uid)
		}
	}
	defaults := p["fieldConfig"].(object)["defaults"].(object)
	if defaults["unit"] == nil || defaults["unit"] == "" {
		t.Errorf("%s: no unit", title)
	}
}

// TestGrid finds panels that overlap or stick out.
func TestGrid(t *testing.T) {
	for name, board := range drawn(t) {
		taken := map[[2]int]string{}
		for _, p := range panelsOf(board) {
			title := fmt.Sprint(p["title"])
			at := p["gridPos"].(object)
			x, y, w, h := int(at["x"].(float64)), int(at["y"].(float64)), int(at["w"].(float64)), int(at["h"].(float64))
			if w < 1 || h < 1 || x+w > gridWidth {
				t.Errorf("%s: %s sticks out: %v", name, title, at)
			}
			for i := range w {
				for j := range h {
					cell := [2]int{x + i, y + j}
					if taken[cell] != "" {
						t.Fatalf("%s: %s lies on %s", name, title, taken[cell])
					}
					taken[cell] = title
				}
			}
		}
	}
}

// TestTraps holds what Grafana stumbles over, though its schema allows it.
func TestTraps(t *testing.T) {
	for name, board := range drawn(t) {
		t.Run(name, func(t *testing.T) {
			ids := map[float64]bool{}
			for _, p := range panelsOf(board) {
				id := p["id"].(float64)
				if id == 0 || ids[id] {
					t.Errorf("%v: id %v is not its own", p["title"], id)
				}
				ids[id] = true
				if p["type"] != "row" {
					panelTraps(t, p)
				}
			}
			if _, ok := board["id"]; ok {
				t.Error("an id would belong to one Grafana alone")
			}
			noNulls(t, name, board)
		})
	}
}

func panelTraps(t *testing.T, p object) {
	t.Helper()
	title := p["title"]
	config := p["fieldConfig"].(object)
	if _, ok := config["overrides"].([]any); !ok {
		t.Errorf("%v: no overrides: Grafana 9 throws", title)
	}
	custom := config["defaults"].(object)["custom"].(object)
	options := p["options"].(object)
	if p["type"] == "timeseries" {
		if style, _ := custom["lineStyle"].(object); style["fill"] != "solid" {
			t.Errorf("%v: lines would be dashed: %v", title, style)
		}
		if custom["drawStyle"] != "line" {
			t.Errorf("%v: drawStyle %v draws nothing", title, custom["drawStyle"])
		}
	}
	emptyStyles(t, fmt.Sprint(title), custom)
	for _, key := range []string{"legend", "reduceOptions"} {
		if part, ok := options[key].(object); ok {
			if _, ok := part["calcs"].([]any); !ok {
				t.Errorf("%v: no calcs in %s", title, key)
			}
		}
	}
	if p["type"] == "stat" && options["colorMode"] != "background" {
		t.Errorf("%v: a gray number", title)
	}
}

func emptyStyles(t *testing.T, title string, style object) {
	t.Helper()
	for key, v := range style {
		if v == "" && key != "axisLabel" {
			t.Errorf("%s: %s is an empty string", title, key)
		}
		if inner, ok := v.(object); ok {
			emptyStyles(t, title, inner)
		}
	}
}

// noNulls allows null where Grafana itself writes it: in the first step of
// thresholds.
func noNulls(t *testing.T, path string, v any) {
	t.Helper()
	switch v := v.(type) {
	case object:
		for key, inner := range v {
			noNulls(t, path+"."+key, inner)
		}
	case []any:
		for _, inner := range v {
			noNulls(t, path+"[]", inner)
		}
	case nil:
		if !strings.HasSuffix(path, ".steps[].value") {
			t.Errorf("%s is null", path)
		}
	}
}

// TestObjects holds what the objects' readers select by, and that kubectl
// apply can still note the object in its annotation.
func TestObjects(t *testing.T) {
	want := map[Form]string{ConfigMap: "grafana_dashboard", OpenShiftConsole: "console.openshift.io/dashboard"}
	for _, form := range []Form{ConfigMap, GrafanaOperator, OpenShiftConsole} {
		names := map[string]bool{}
		for _, doc := range documents(t, form) {
			meta := doc["metadata"].(object)
			names[meta["name"].(string)] = true
			if label := want[form]; label != "" && meta["labels"].(object)[label] == nil {
				t.Errorf("%s %v lacks the label %s", form, meta["name"], label)
			}
			written := must.Get(json.Marshal(doc))(t)
			if limit := 192 << 10; len(written) > limit {
				t.Errorf("%s %v has %d bytes", form, meta["name"], len(written))
			}
		}
		if len(names) != len(boardsIn(form)) {
			t.Errorf("%s: %d names for %d boards", form, len(names), len(boardsIn(form)))
		}
	}
}
