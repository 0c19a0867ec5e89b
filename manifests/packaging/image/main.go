// Command image builds the auditor's container image as an OCI archive: no
// daemon, no base image, nothing in it but one static binary.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// architectures are those that the image is for.
var architectures = []string{"amd64", "arm64"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	var b build
	flag.StringVar(&b.root, "root", "../..", "where the module of the program is")
	flag.StringVar(&b.program, "program", "./cmd/webhook-auditor", "the program, as go build takes it")
	flag.StringVar(&b.ldflags, "ldflags", "-s -w", "flags of the linker")
	flag.StringVar(&b.version, "version", "unknown", "the version of the program")
	out := flag.String("out", "../../dist/webhook-auditor-image.tar", "the archive to write")
	flag.Parse()
	b.created = committed(b.root)
	if err := b.write(*out); err != nil {
		return err
	}
	digest, err := check(*out)
	if err != nil {
		return fmt.Errorf("reading %s back: %w", *out, err)
	}
	fmt.Printf("%s: version %s for %s, %s\n", *out, b.version, strings.Join(architectures, " and "), digest)
	return nil
}

// committed is when what is built was committed: the same source makes the same
// image. Without git it is the epoch.
func committed(root string) time.Time {
	show := exec.Command("git", "show", "--no-patch", "--format=%cI", "HEAD")
	show.Dir = root
	output, err := show.Output()
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(output)))
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return at.UTC()
}

// build is what an image is made from.
type build struct {
	root, program, ldflags, version string
	created                         time.Time
}

// compile makes a static binary, with the flags of "make build": what is compiled for
// both is compiled once.
func (b build) compile(architecture, into string) (string, error) {
	path := filepath.Join(into, architecture)
	compiler := exec.Command("go", "build", "-ldflags", b.ldflags, "-o", path, b.program)
	compiler.Dir = b.root
	compiler.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if output, err := compiler.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling for %s: %w\n%s", architecture, err, output)
	}
	return path, nil
}
