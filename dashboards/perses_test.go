package dashboards

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	v1 "github.com/perses/perses/pkg/model/api/v1"
	"github.com/perses/perses/pkg/model/api/v1/dashboard"
	"github.com/perses/perses/pkg/model/api/v1/utils"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// The kinds of plugins that come with Perses.
var (
	persesPanels    = []string{"TimeSeriesChart", "StatChart", "Table", "BarChart", "StatusHistoryChart"}
	persesVariables = []string{"PrometheusLabelValuesVariable", "StaticListVariable"}
)

// TestPerses reads the boards with Perses' own types, which validate what they
// read, and resolves the variables and panels as its server does.
func TestPerses(t *testing.T) {
	for _, doc := range documents(t, Perses) {
		board := persesBoard(t, doc)
		if _, err := utils.BuildVariableOrder(board.Spec.Variables, nil, nil); err != nil {
			t.Errorf("%s: %v", board.Metadata.Name, err)
		}
		placed := map[string]bool{}
		for _, layout := range board.Spec.Layouts {
			for _, item := range layout.Spec.(*dashboard.GridLayoutSpec).Items {
				key := strings.TrimPrefix(item.Content.Ref, "#/spec/panels/")
				if board.Spec.Panels[key] == nil {
					t.Errorf("%s: no panel %s", board.Metadata.Name, key)
				}
				placed[key] = true
			}
		}
		if len(placed) != len(board.Spec.Panels) {
			t.Errorf("%s: %d of %d panels are placed", board.Metadata.Name, len(placed), len(board.Spec.Panels))
		}
		for _, p := range board.Spec.Panels {
			if !slices.Contains(persesPanels, p.Spec.Plugin.Kind) || len(p.Spec.Queries) == 0 {
				t.Errorf("%s: %s is a %s of %d queries", board.Metadata.Name, p.Spec.Display.Name, p.Spec.Plugin.Kind, len(p.Spec.Queries))
			}
		}
		for _, v := range board.Spec.Variables {
			if kind := v.Spec.(*dashboard.ListVariableSpec).Plugin.Kind; !slices.Contains(persesVariables, kind) {
				t.Errorf("%s: $%s is a %s", board.Metadata.Name, v.Spec.GetName(), kind)
			}
		}
	}
}

func persesBoard(t *testing.T, doc object) v1.Dashboard {
	t.Helper()
	written := must.Get(json.Marshal(doc))(t)
	var board v1.Dashboard
	if err := json.Unmarshal(written, &board); err != nil {
		t.Fatalf("Perses refuses %v: %v", below(doc, "metadata", "name"), err)
	}
	return board
}

// TestPersesColors holds that each color of the boards has a value there.
func TestPersesColors(t *testing.T) {
	for _, form := range []Form{Perses, PersesOperator} {
		for _, doc := range documents(t, form) {
			inside(doc, func(o object) {
				for _, key := range []string{"color", "textColor", "defaultColor"} {
					if color, ok := o[key].(string); ok && !strings.HasPrefix(color, "#") {
						t.Errorf("%v: the color %q", below(doc, "metadata", "name"), color)
					}
				}
			})
		}
	}
}
