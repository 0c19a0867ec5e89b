// Command benchmark measures "webhook-auditor audit" on large inputs: on a
// manifest of 50 MB beside kube-score, and beside decoding it alone, on the same
// file in the same run, and on a must-gather of 20,000 files and 2 GB. It writes
// a table in Markdown.
//
//	cd e2e/benchmark && go run .
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// rounds is how often each program runs; the best counts, for whatever else
// the machine does only makes it slower. The programs take turns.
const rounds = 5

func main() {
	do := run
	if len(os.Args) == 3 && os.Args[1] == "decode" {
		do = func() error { return decode(os.Args[2]) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

// run writes hundreds of megabytes into a folder of its own, and removes it.
func run() error {
	dir, err := os.MkdirTemp("", "webhook-auditor-benchmark-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	auditor, score := filepath.Join(dir, "webhook-auditor"), filepath.Join(dir, "kube-score")
	for _, build := range []*exec.Cmd{
		exec.Command("go", "build", "-C", "../..", "-trimpath", "-ldflags=-s -w", "-o", auditor, "./cmd/webhook-auditor"),
		exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", score, "github.com/zegl/kube-score/cmd/kube-score"),
	} {
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", build, err, out)
		}
	}
	file, hand, tree := filepath.Join(dir, "manifests.yaml"), filepath.Join(dir, "hand.yaml"), filepath.Join(dir, "must-gather.local.1")
	if err := errors.Join(writeManifests(file, asKubectl), writeManifests(hand, byHand), writeMustGather(tree)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	return compare([]program{
		{"50 MB as kubectl writes it", "webhook-auditor audit", []string{auditor, "audit", file, "--fail-on=never"}},
		{"50 MB as kubectl writes it", "kube-score score", []string{score, "score", file}},
		{"50 MB as kubectl writes it", "sigs.k8s.io/yaml", []string{self, "decode", file}},
		{"50 MB with lists in brackets", "webhook-auditor audit", []string{auditor, "audit", hand, "--fail-on=never"}},
		{"50 MB with lists in brackets", "kube-score score", []string{score, "score", hand}},
		{"50 MB with lists in brackets", "sigs.k8s.io/yaml", []string{self, "decode", hand}},
		{"must-gather, 20,000 files, 2 GB", "webhook-auditor audit", []string{auditor, "audit", tree, "--fail-on=never"}},
	})
}

// program is one row of the table.
type program struct {
	input, name string
	command     []string
}

// cost is what a run took.
type cost struct {
	wall, cpu time.Duration
	mib       int64
}

func compare(programs []program) error {
	best := make([]cost, len(programs))
	for round := range rounds {
		for i, p := range programs {
			c, err := p.measure()
			if err != nil {
				return err
			}
			if round == 0 || c.wall < best[i].wall {
				best[i] = c
			}
		}
	}
	fmt.Printf("%d cores, %s/%s, best of %d\n\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, rounds)
	fmt.Printf("| input | program | wall | CPU | peak memory |\n| --- | --- | --: | --: | --: |\n")
	for i, p := range programs {
		c := best[i]
		fmt.Printf("| %s | `%s` | %.2f s | %.2f s | %d MiB |\n", p.input, p.name, c.wall.Seconds(), c.cpu.Seconds(), c.mib)
	}
	return nil
}

// measure runs the program once. A program that finds something reports it with an exit
// code other than 0; only one that a signal ended, or that could not look, does
// not count.
func (p program) measure() (cost, error) {
	command := exec.Command(p.command[0], p.command[1:]...)
	command.Stderr = os.Stderr
	began := time.Now()
	err := command.Run()
	wall := time.Since(began)
	state := command.ProcessState
	if state == nil || !state.Exited() || p.name != "kube-score score" && err != nil {
		return cost{}, fmt.Errorf("running %s: %w", p.name, err)
	}
	usage := state.SysUsage().(*syscall.Rusage)
	return cost{wall, state.UserTime() + state.SystemTime(), usage.Maxrss >> 10}, nil
}
