package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table has a row for each figure and a column for each program.
type table struct {
	rows    []string
	columns []*column
}

// column holds what was measured of one program, in all rounds.
type column struct {
	name   string
	table  *table
	values map[string][]float64
}

func (t *table) column(name string) *column {
	for _, c := range t.columns {
		if c.name == name {
			return c
		}
	}
	c := &column{name: name, table: t, values: map[string][]float64{}}
	t.columns = append(t.columns, c)
	return c
}

func (c *column) add(row string, value float64) {
	if !slices.Contains(c.table.rows, row) {
		c.table.rows = append(c.table.rows, row)
	}
	c.values[row] = append(c.values[row], value)
}

// addDelays adds the percentiles 50 and 99 of the delays, in milliseconds.
func (c *column) addDelays(row string, delays []time.Duration) {
	slices.Sort(delays)
	for _, percent := range []int{50, 99} {
		at := delays[(len(delays)-1)*percent/100]
		c.add(fmt.Sprintf("%s, p%d, ms", row, percent), float64(at.Microseconds())/1000)
	}
}

// programs is a Markdown table of the medians of all rounds, with a column for each
// program, and behind those of the second how much the first one needs for each unit of
// theirs.
func (t *table) programs() string {
	rows := [][]string{{"figure"}, {"---"}}
	for _, c := range t.columns {
		rows[0], rows[1] = append(rows[0], c.name), append(rows[1], "---:")
	}
	for _, name := range t.rows {
		row := []string{name}
		for _, c := range t.columns {
			row = append(row, t.cell(name, c))
		}
		rows = append(rows, row)
	}
	var to strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&to, "| %s |\n", strings.Join(row, " | "))
	}
	return to.String()
}

func (t *table) cell(row string, c *column) string {
	if len(c.values[row]) == 0 {
		return "–"
	}
	cell := digits(c.median(row), 3)
	if c != t.columns[0] && c.median(row) > 0 {
		cell += " (" + digits(t.columns[0].median(row)/c.median(row), 2) + " ×)"
	}
	return cell
}

// digits rounds to so many digits, and large numbers to whole ones.
func digits(v float64, n int) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', n, 64)
}

// median is 0 of a row that was not measured.
func (c *column) median(row string) float64 {
	values := slices.Sorted(slices.Values(c.values[row]))
	if len(values) == 0 {
		return 0
	}
	return values[len(values)/2]
}
