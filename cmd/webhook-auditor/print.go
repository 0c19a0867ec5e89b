package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
)

// artifact is something that is derived from the code: it can be printed, it is
// committed at its file, and a test compares the two.
type artifact struct {
	name  string
	file  string
	write func(io.Writer) error
}

func artifacts() []artifact {
	return []artifact{
		{"checks", "pkg/classify/README.md", exporter.WriteChecks},
		{"metrics", "pkg/exporter/README.md", exporter.WriteMetrics},
	}
}

func (a artifact) bytes() ([]byte, error) {
	var b bytes.Buffer
	if err := a.write(&b); err != nil {
		return nil, fmt.Errorf("printing %s: %w", a.name, err)
	}
	return b.Bytes(), nil
}

func printCommand(flags *pflag.FlagSet) action {
	dir := flags.String("write", "", "with the name all: write every file that is derived from the code into this checkout")
	return func(_ context.Context, args []string, s streams) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("print: want one of %s", strings.Join(artifactNames(), ", "))}
		}
		if args[0] == "all" && *dir != "" {
			return writeAll(*dir)
		}
		i := slices.IndexFunc(artifacts(), func(a artifact) bool { return a.name == args[0] })
		if i < 0 {
			return usageError{fmt.Errorf("print: no %q: want one of %s", args[0], strings.Join(artifactNames(), ", "))}
		}
		b, err := artifacts()[i].bytes()
		if err != nil {
			return err
		}
		_, err = s.out.Write(b)
		return err
	}
}

func artifactNames() []string {
	var out []string
	for _, a := range artifacts() {
		out = append(out, a.name)
	}
	return out
}

func writeAll(dir string) error {
	for _, a := range artifacts() {
		b, err := a.bytes()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, a.file), b, 0o644); err != nil {
			return fmt.Errorf("writing what is derived: %w", err)
		}
	}
	return nil
}
