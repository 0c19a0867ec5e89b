// Command release writes the files of a release: binaries, their SBOM, the chart, the
// bundle, install.yaml, the manifest for krew, the provenance, and the checksums of all,
// the image among them. It publishes nothing.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// platforms are those that binaries are for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

const (
	program = "webhook-auditor"
	home    = "https://github.com/webhook-auditor/webhook-auditor"
)

func main() {
	r := release{}
	flag.StringVar(&r.root, "root", "../..", "root of the repository")
	flag.StringVar(&r.out, "out", "../../dist", "directory to write to")
	flag.StringVar(&r.version, "version", "", "version, as v1.2.3")
	flag.StringVar(&r.image, "image", "", "image that the manifests name, with its tag or digest")
	flag.StringVar(&r.ldflags, "ldflags", "-s -w", "flags of the linker")
	flag.StringVar(&r.url, "url", home+"/releases/download", "URL under which releases are published")
	flag.StringVar(&r.builder, "builder", home+"/blob/main/Makefile#release", "URI of the builder, for the provenance")
	names := flag.String("platforms", strings.Join(platforms, ","), "platforms to build for")
	flag.Parse()
	r.platforms = strings.Split(*names, ",")
	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is made, of what, and where.
type release struct {
	root, out, version, image, url, builder, ldflags string
	platforms                                        []string
}

var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func (r release) check() error {
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("--version: must be a semantic version, as v1.2.3, not %q", r.version)
	}
	if tag := r.image[strings.LastIndex(r.image, "/")+1:]; !strings.ContainsAny(tag, ":@") {
		return fmt.Errorf("--image: must have a tag or a digest, as registry.example.com/webhook-auditor:%s, not %q", r.version, r.image)
	}
	for _, platform := range r.platforms {
		if !slices.Contains(platforms, platform) {
			return fmt.Errorf("--platforms: must be of %s, not %q", strings.Join(platforms, ", "), platform)
		}
	}
	return nil
}

// number is the version as charts and bundles have it.
func (r release) number() string { return strings.TrimPrefix(r.version, "v") }

// write makes all files.
func (r release) write() error {
	if err := r.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	archives, err := r.binaries()
	if err != nil {
		return err
	}
	files := archives
	for _, step := range []func() (string, error){
		r.chart, r.bundle, r.install,
		func() (string, error) { return r.krew(archives) },
	} {
		file, err := step()
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	sboms, err := filepath.Glob(filepath.Join(r.out, program+"_*.cdx.json"))
	if err != nil {
		return err
	}
	// "make image" has written it.
	images, err := filepath.Glob(filepath.Join(r.out, program+"-image.tar"))
	if err != nil {
		return err
	}
	files = slices.Concat(files, sboms, images)
	provenance, err := r.provenance(files)
	if err != nil {
		return err
	}
	return r.checksums(append(files, provenance))
}

// print is what the program prints that "make build" made.
func (r release) print(args ...string) ([]byte, error) {
	command := exec.Command(filepath.Join(r.root, "bin", program), append([]string{"print"}, args...)...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", command, err)
	}
	return output, nil
}

func (r release) install() (string, error) {
	text, err := r.print("install", "--image="+r.image)
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.out, "install.yaml")
	return path, os.WriteFile(path, text, 0o644)
}

// checksums writes a file that sha256sum --check reads.
func (r release) checksums(files []string) error {
	var lines []string
	for _, file := range files {
		sum, err := digest(file)
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+filepath.Base(file)+"\n")
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(strings.Join(lines, "")), 0o644)
}

func digest(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("computing a checksum: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}
