package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// artifact is something that is derived from the code: it can be printed, its
// files are committed, and a test compares the two.
type artifact struct {
	name, summary string
	// files are what is committed, by path from the root of the project.
	files func() (map[string][]byte, error)
	// print registers the flags of the artifact, if any, and returns what
	// prints it.
	print func(*pflag.FlagSet) func(io.Writer) error
}

func printCommand(flags *pflag.FlagSet) action {
	flags.SetInterspersed(false)
	return func(ctx context.Context, args []string, s streams) error {
		if len(args) == 0 {
			return usageError{fmt.Errorf("print: want one of %s", strings.Join(artifactNames(), ", "))}
		}
		if args[0] == "all" {
			return artifactCommand("all", "write every file that is derived from the code", allFlags).run(ctx, args[1:], s)
		}
		if c := runLevelPatches; c.name == "print "+args[0] {
			return c.run(ctx, args[1:], s)
		}
		i := slices.IndexFunc(artifacts(), func(a artifact) bool { return a.name == args[0] })
		if i < 0 {
			return usageError{fmt.Errorf("print: no %q: want one of %s", args[0], strings.Join(artifactNames(), ", "))}
		}
		a := artifacts()[i]
		return artifactCommand(a.name, a.summary, a.print).run(ctx, args[1:], s)
	}
}

func artifactCommand(name, summary string, print func(*pflag.FlagSet) func(io.Writer) error) command {
	return command{name: "print " + name, summary: summary, flags: func(flags *pflag.FlagSet) action {
		write := print(flags)
		return func(_ context.Context, args []string, s streams) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("print %s: unexpected argument %q", name, args[0])}
			}
			return write(s.out)
		}
	}}
}

func artifactNames() []string {
	var out []string
	for _, a := range artifacts() {
		out = append(out, a.name)
	}
	return append(out, "run-level-patches")
}

// allFlags is "print all --write DIR", the way to renew a checkout.
func allFlags(flags *pflag.FlagSet) func(io.Writer) error {
	dir := flags.String("write", "", "the checkout to write into")
	return func(w io.Writer) error {
		if *dir == "" {
			return usageError{fmt.Errorf("print all: want --write DIR")}
		}
		for _, a := range append(artifacts(), uncommitted()) {
			if err := a.write(*dir, w); err != nil {
				return err
			}
		}
		return nil
	}
}

// write writes the artifact's files where they differ, and says so.
func (a artifact) write(dir string, w io.Writer) error {
	files, err := a.files()
	if err != nil {
		return fmt.Errorf("deriving %s: %w", a.name, err)
	}
	for name, want := range files {
		path := filepath.Join(dir, name)
		if have, err := os.ReadFile(path); err == nil && string(have) == string(want) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing what is derived: %w", err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			return fmt.Errorf("writing what is derived: %w", err)
		}
		fmt.Fprintf(w, "wrote %s\n", name)
	}
	return nil
}
