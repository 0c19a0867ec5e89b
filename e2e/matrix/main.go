// Command matrix runs end-to-end tests in releases of Kubernetes, built from their
// modules, records what it ran, and writes the tables of it into a document:
//
//	go run ./matrix --write ../docs/operate.md 1.31 1.36
//
// Without arguments it runs all releases of matrix/releases.tsv; --only install,alerts runs
// some columns. What failed is not recorded, nor is what was recorded of it before.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/document"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
)

// column is a part of the matrix: tests of a suite.
type column struct{ name, suite, tests string }

var columns = []column{
	{"install", "install", "^(TestInstall|TestPrintedRules)$"},
	{"findings", "findings", "."},
	{"explain", "explain", "^(TestExplainSaysWhatTheAPIServerDoes|TestExplainError.*)$"},
	{"conditions", "operator", "^(TestConditions|TestVersions)$"},
	{"metrics", "alerts", "^TestSeries$"},
	{"alerts", "alerts", "^TestAlerts$"},
}

func main() {
	write := flag.String("write", "", "the document whose tables are written")
	only := flag.String("only", "", "columns to run, separated by commas; empty: all")
	flag.Parse()
	if err := run(*write, *only, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path, only string, chosen []string) error {
	releases, err := pinned(folder)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		for _, r := range releases {
			chosen = append(chosen, r.name)
		}
	}
	var failures []error
	for _, name := range chosen {
		version, ok := releases.version(name)
		if !ok {
			return fmt.Errorf("there is no release %s in %s/releases.tsv", name, folder)
		}
		failures = append(failures, runRelease(release{name, version}, only))
	}
	records, err := recorded(folder, releases)
	if err != nil {
		return errors.Join(append(failures, err)...)
	}
	sections := []document.Section{runs(records), exported(records)}
	fmt.Printf("\n%s\n%s", sections[0].Text, sections[1].Text)
	if path != "" {
		failures = append(failures, document.Write(path, sections))
	}
	return errors.Join(failures...)
}

// folder is where releases are pinned and recorded, seen from the folder of the module.
const folder = "matrix"

// runRelease runs the columns in a release, and records those that pass.
func runRelease(r release, only string) error {
	build := exec.Command("matrix/build.sh", r.name)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building %s: %w", r.version, err)
	}
	made, err := r.record(folder)
	if err != nil || made.Kubernetes != r.version {
		made = record{Kubernetes: r.version, Seconds: map[string]int{}}
	}
	var failures []error
	for _, c := range columns {
		if only != "" && !slices.Contains(strings.Split(only, ","), c.name) {
			continue
		}
		delete(made.Seconds, c.name)
		began := time.Now()
		if err := c.run(r.name, &made); err != nil {
			fmt.Printf("%s: %s: %v\n", r.version, c.name, err)
			failures = append(failures, fmt.Errorf("%s of %s failed", c.name, r.version))
			continue
		}
		made.Seconds[c.name] = int(time.Since(began).Seconds())
		fmt.Printf("%s: %s: %d s\n", r.version, c.name, made.Seconds[c.name])
	}
	return errors.Join(append(failures, made.write(filepath.Join(folder, "recorded", r.name+".json")))...)
}

// run runs the tests of a column in a release. The series that they saw go into the record.
func (c column) run(release string, made *record) error {
	dir, err := os.MkdirTemp("", "matrix-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	series := filepath.Join(dir, "series.json")
	test := exec.Command("go", "test", "-count=1", "-tags=matrix", "-timeout=30m", "-run="+c.tests, "./suites/"+c.suite)
	test.Env = append(os.Environ(), programs.ReleaseVariable+"="+release, "WEBHOOK_AUDITOR_E2E_SERIES="+series)
	output, err := test.CombinedOutput()
	if err == nil && bytes.Contains(output, []byte("no tests to run")) {
		err = errors.New("there are no such tests")
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(test.Args, " "), err, output)
	}
	text, err := os.ReadFile(series)
	if os.IsNotExist(err) {
		return nil // other tests than that of the series
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &made.Series)
}
