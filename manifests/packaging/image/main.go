// Command image builds the auditor's container image as an OCI archive: no
// daemon, no base image, nothing in it but one static binary.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

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
	flag.StringVar(&b.built, "built", "", "a binary of the program that is there: it is taken for its architecture")
	architectures := flag.String("architectures", "amd64,arm64", "architectures that the image is for")
	out := flag.String("out", "../../dist/webhook-auditor-image.tar", "the archive to write")
	flag.Parse()
	b.architectures = strings.Split(*architectures, ",")
	b.created = committed(b.root)
	if err := b.write(*out); err != nil {
		return err
	}
	digest, err := check(*out)
	if err != nil {
		return fmt.Errorf("reading %s back: %w", *out, err)
	}
	fmt.Printf("%s: version %s for %s, %s\n", *out, b.version, strings.Join(b.architectures, " and "), digest)
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
	commitTime, err := time.Parse(time.RFC3339, strings.TrimSpace(string(output)))
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return commitTime.UTC()
}

// build is what an image is made from.
type build struct {
	root, program, ldflags, version string
	// built is a binary that is there, "" for none.
	built         string
	architectures []string
	created       time.Time
}

// compile makes a static binary, with the flags of "make build": what is compiled for
// both is compiled once. It takes the binary that is there where that is for the architecture.
func (b build) compile(architecture, folder string) (string, error) {
	if b.built != "" && isFor(b.built, architecture) {
		return b.built, nil
	}
	path := filepath.Join(folder, architecture)
	compiler := exec.Command("go", "build", "-ldflags", b.ldflags, "-o", path, b.program)
	compiler.Dir = b.root
	compiler.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if output, err := compiler.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling for %s: %w\n%s", architecture, err, output)
	}
	return path, nil
}

// isFor reports whether Go recorded that the binary is a static one for Linux on the
// architecture.
func isFor(path, architecture string) bool {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return false
	}
	want := map[string]string{"GOOS": "linux", "GOARCH": architecture, "CGO_ENABLED": "0"}
	for _, setting := range info.Settings {
		if want[setting.Key] == setting.Value {
			delete(want, setting.Key)
		}
	}
	return len(want) == 0
}
