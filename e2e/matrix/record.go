package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/document"
)

// release is one that releases.tsv lists.
type release struct{ name, version string }

type releases []release

func (all releases) version(name string) (string, bool) {
	i := slices.IndexFunc(all, func(r release) bool { return r.name == name })
	if i < 0 {
		return "", false
	}
	return all[i].version, true
}

func pinned(folder string) (releases, error) {
	text, err := os.ReadFile(filepath.Join(folder, "releases.tsv"))
	if err != nil {
		return nil, err
	}
	var out releases
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "#" {
			out = append(out, release{fields[0], fields[1]})
		}
	}
	return out, nil
}

// record is what was run in a release: how long each column took, and the series that
// alerts read with their labels, as the servers exported them.
type record struct {
	Kubernetes string              `json:"kubernetes"`
	Seconds    map[string]int      `json:"seconds"`
	Series     map[string][]string `json:"series"`
}

func (r record) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// record is that of a release.
func (r release) record(folder string) (record, error) {
	var out record
	text, err := os.ReadFile(filepath.Join(folder, "recorded", r.name+".json"))
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("reading the record of %s: %w", r.name, err)
	}
	return out, nil
}

// recorded are the records of the pinned releases, oldest first, as far as there are any.
func recorded(folder string, pinned releases) ([]record, error) {
	var out []record
	for _, r := range pinned {
		one, err := r.record(folder)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// runs is the table of what was run.
func runs(records []record) document.Section {
	var b strings.Builder
	b.WriteString("| Kubernetes |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(columns)) + "\n")
	for _, r := range records {
		fmt.Fprintf(&b, "| %s |", strings.TrimPrefix(r.Kubernetes, "v"))
		for _, c := range columns {
			cell := "–"
			if _, ok := r.Seconds[c.name]; ok {
				cell = "passed"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return document.Section{Name: "matrix", Text: b.String()}
}

// exported is the table of the series that alerts read: a row for each set of labels that
// one has, with the releases in which it has it.
func exported(records []record) document.Section {
	var rows []string
	in := map[string][]string{}
	for _, r := range records {
		minor := strings.Join(strings.Split(strings.TrimPrefix(r.Kubernetes, "v"), ".")[:2], ".")
		for name, labels := range r.Series {
			row := fmt.Sprintf("| `%s` | %s |", name, strings.Join(labels, ", "))
			if in[row] == nil {
				rows = append(rows, row)
			}
			in[row] = append(in[row], minor)
		}
	}
	slices.Sort(rows)
	var b strings.Builder
	b.WriteString("| series | labels | exported by |\n| --- | --- | --- |\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "%s %s |\n", row, where(in[row], len(records)))
	}
	return document.Section{Name: "series", Text: b.String()}
}

func where(releases []string, all int) string {
	if len(releases) == all {
		return "all"
	}
	return strings.Join(releases, ", ")
}
