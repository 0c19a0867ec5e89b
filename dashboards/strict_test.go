package dashboards

import (
	"errors"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestStrictDecoding reads the boards with the types that Grafana generates
// from its own schema.
func TestStrictDecoding(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	files := must.Get(Render(JSON, Options{}))(t)
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			//lint:ignore SA1019 v2 boards are refused from files; see schemaVersion
			var board dashboard.Dashboard
			complain(t, board.UnmarshalJSONStrict(file))
			complain(t, board.Validate())
			if board.SchemaVersion != schemaVersion {
				t.Errorf("schemaVersion %d", board.SchemaVersion)
			}
		})
	}
}

func complain(t *testing.T, err error) {
	t.Helper()
	var list cog.BuildErrors
	if errors.As(err, &list) {
		for _, e := range list {
			t.Error(e)
		}
		return
	}
	if err != nil {
		t.Error(err)
	}
}
