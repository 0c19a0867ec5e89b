//go:build linux && node

package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/document"
)

// table is what was measured, in the order of the tests.
type table []row

// row is one way to break a webhook, and what the auditor reported when.
type row struct {
	broken, answer, finding string
	refused, found          time.Duration
	healed, over            time.Duration
}

func (t table) String() string {
	var out strings.Builder
	out.WriteString("| broken how | the API server answers | after | finding | after | requests pass again | finding gone |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range t {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s |\n", r.broken, r.answer, seconds(r.refused), r.finding, seconds(r.found), seconds(r.healed), seconds(r.over))
	}
	return out.String()
}

// seconds rounds to the precision of a machine under load.
func seconds(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f s", max(d.Seconds(), 1))
}

// measurements are what the tests of a run have measured.
type measurements struct {
	outages    table
	functions  string // rows
	departures string // rows
	recovery   string
}

func (m measurements) write(path string) error {
	if path == "" {
		return nil
	}
	return document.Write(path, []document.Section{
		{Name: "outages", Text: m.outages.String()},
		{Name: "functions", Text: "| a dead webhook on | ends, in the whole cluster | `impact` names |\n| --- | --- | --- |\n" + m.functions},
		{Name: "departures", Text: "| its only Pod leaves by | `impact` says before | requests refused, of five a second |\n| --- | --- | --- |\n" + m.departures},
		{Name: "recovery", Text: m.recovery},
	})
}
