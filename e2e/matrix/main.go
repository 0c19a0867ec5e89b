// Command matrix runs end-to-end tests in releases of Kubernetes, built from their
// modules, records what it ran, and writes the tables of it into a document:
//
//	go run ./matrix --write ../manifests/OPERATIONS.md 1.31 1.36
//
// Without arguments it runs all releases of matrix/releases.tsv. What failed is not
// recorded.
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
	flag.Parse()
	if err := run(*write, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string, chosen []string) error {
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
		failures = append(failures, runRelease(name, version))
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

// runRelease runs all columns in a release, and records them once none fails.
func runRelease(name, version string) error {
	made := record{Kubernetes: version, Seconds: map[string]int{}}
	began := time.Now()
	build := exec.Command("matrix/build.sh", name)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building %s: %w", version, err)
	}
	fmt.Printf("%s: built, or there, in %.0f s\n", version, time.Since(began).Seconds())
	series, err := os.CreateTemp("", "series-")
	if err != nil {
		return err
	}
	defer os.Remove(series.Name())
	defer series.Close()
	var failures []error
	for _, c := range columns {
		began := time.Now()
		err := c.run(name, series.Name())
		made.Seconds[c.name] = int(time.Since(began).Seconds())
		fmt.Printf("%s: %s: %d s, %s\n", version, c.name, made.Seconds[c.name], map[bool]string{true: "ok", false: "failed"}[err == nil])
		failures = append(failures, err)
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("in %s: %w", version, err)
	}
	text, err := os.ReadFile(series.Name())
	if err == nil {
		err = json.Unmarshal(text, &made.Series)
	}
	if err != nil {
		return fmt.Errorf("reading the series of %s: %w", version, err)
	}
	return made.write(filepath.Join(folder, "recorded", name+".json"))
}

// run runs the tests of a column in a release.
func (c column) run(release, series string) error {
	test := exec.Command("go", "test", "-count=1", "-tags=matrix", "-timeout=30m", "-run="+c.tests, "./suites/"+c.suite)
	test.Env = append(os.Environ(), programs.ReleaseVariable+"="+release, "WEBHOOK_AUDITOR_E2E_SERIES="+series)
	output, err := test.CombinedOutput()
	if err == nil && bytes.Contains(output, []byte("no tests to run")) {
		err = errors.New("there are no such tests")
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(test.Args, " "), err, output)
	}
	return nil
}
