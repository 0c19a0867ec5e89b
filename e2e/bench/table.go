package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
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

func newTable() *table { return &table{} }

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

// print writes the medians of all rounds.
func (t *table) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.Debug)
	fmt.Fprint(w, "figure\t")
	for _, c := range t.columns {
		fmt.Fprintf(w, "%s\t", c.name)
	}
	fmt.Fprintln(w)
	for _, row := range t.rows {
		fmt.Fprintf(w, "%s\t", row)
		for _, c := range t.columns {
			if values := slices.Sorted(slices.Values(c.values[row])); len(values) > 0 {
				fmt.Fprintf(w, "%.4g (%.4g–%.4g)", values[len(values)/2], values[0], values[len(values)-1])
			}
			fmt.Fprint(w, "\t")
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}
