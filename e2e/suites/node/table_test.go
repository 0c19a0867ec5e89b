//go:build linux && node

package node

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// table is what was measured, in the order of the tests.
type table []row

// row is one way to break a webhook, and what the auditor reported when.
type row struct {
	broken, answer, finding string
	refused, found          time.Duration
	healed, resolved        time.Duration
}

func (t table) String() string {
	var out strings.Builder
	out.WriteString("| broken how | the API server answers | after | finding | after | requests pass again | finding gone |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range t {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s |\n", r.broken, r.answer, seconds(r.refused), r.finding, seconds(r.found), seconds(r.healed), seconds(r.resolved))
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
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"outages":    m.outages.String(),
		"functions":  "| a dead webhook on | ends, in the whole cluster | `impact` names |\n| --- | --- | --- |\n" + m.functions,
		"departures": "| its only Pod leaves by | `impact` says before | requests refused, of five a second |\n| --- | --- | --- |\n" + m.departures,
		"recovery":   m.recovery,
	} {
		begin, end := []byte("<!-- begin "+name+" -->\n"), []byte("<!-- end "+name+" -->\n")
		before, rest, begins := bytes.Cut(document, begin)
		_, after, ends := bytes.Cut(rest, end)
		if !begins || !ends {
			return fmt.Errorf("%s has no section %s", path, name)
		}
		document = slices.Concat(before, begin, []byte(text), end, after)
	}
	return os.WriteFile(path, document, 0o644)
}
