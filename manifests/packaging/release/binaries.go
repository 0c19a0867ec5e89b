package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// packed is a file of an archive.
type packed struct {
	name, path string
	mode       int64
}

// binaries builds for all platforms, each with its SBOM, and returns the archives.
func (r release) binaries() ([]string, error) {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	var archives []string
	for _, platform := range r.platforms {
		system, architecture, _ := strings.Cut(platform, "/")
		name := program
		if system == "windows" {
			name += ".exe"
		}
		built := filepath.Join(dir, system+"-"+architecture)
		if err := r.build(system, architecture, built); err != nil {
			return nil, err
		}
		stem := filepath.Join(r.out, strings.Join([]string{program, r.version, system, architecture}, "_"))
		if err := r.sbom(built, stem+".cdx.json"); err != nil {
			return nil, err
		}
		license := packed{"LICENSE", filepath.Join(r.root, "LICENSE"), 0o644}
		if err := pack(stem+".tar.gz", []packed{{name, built, 0o755}, license}); err != nil {
			return nil, err
		}
		archives = append(archives, stem+".tar.gz")
	}
	return archives, nil
}

// build has the flags of "make build", so that what is compiled for both is compiled once.
func (r release) build(system, architecture, binary string) error {
	compiler := exec.Command("go", "build", "-ldflags", r.ldflags, "-o", binary, "./cmd/"+program)
	compiler.Dir = r.root
	compiler.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture)
	if output, err := compiler.CombinedOutput(); err != nil {
		return fmt.Errorf("building for %s/%s: %w\n%s", system, architecture, err, output)
	}
	return nil
}

// sbom writes which modules are in a binary, as the linker recorded them.
func (r release) sbom(binary, path string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("reading the modules of %s: %w", binary, err)
	}
	var modules []cyclonedx.Component
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			BOMRef: m.Path, PackageURL: "pkg:golang/" + m.Path + "@" + m.Version,
		})
	}
	modules = append(modules, cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, BOMRef: "std",
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	})
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, Name: program, Version: r.version,
		BOMRef: program, PackageURL: "pkg:golang/" + info.Main.Path + "@" + r.version,
	}}
	bom.Components = &modules
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the SBOM: %w", err)
	}
	defer file.Close()
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("writing the SBOM: %w", err)
	}
	return file.Close()
}

// pack writes a compressed archive without times, so that the same files make the
// same archive.
func pack(path string, files []packed) error {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	defer out.Close()
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	for _, file := range files {
		content, err := os.ReadFile(file.path)
		if err != nil {
			return fmt.Errorf("reading for an archive: %w", err)
		}
		if err := archive.WriteHeader(&tar.Header{
			Name: file.name, Mode: file.mode, Size: int64(len(content)), Typeflag: tar.TypeReg,
		}); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if _, err := archive.Write(content); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := zipped.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return out.Close()
}
