package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

// machines are the architectures as ELF has them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func hello() build {
	return build{
		root: ".", program: "./testdata/hello", ldflags: "-s -w", version: "v1.2.3", architectures: []string{"amd64", "arm64"},
		created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func TestArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "image.tar")
	must.Succeed(t, hello().write(path))
	if _, err := check(path); err != nil {
		t.Errorf("checking the archive: %v", err)
	}
	index := must.Get(read(path, t.TempDir()))(t)
	manifest := must.Get(index.IndexManifest())(t)
	if manifest.MediaType != types.OCIImageIndex {
		t.Errorf("media type %s", manifest.MediaType)
	}
	found := map[string]bool{}
	for _, m := range manifest.Manifests {
		found[m.Platform.OS+"/"+m.Platform.Architecture] = true
		image := must.Get(index.Image(m.Digest))(t)
		if m.MediaType != types.OCIManifestSchema1 {
			t.Errorf("%s: media type %s", m.Platform, m.MediaType)
		}
		checkConfig(t, image, m.Platform.Architecture)
		checkLayer(t, image, machines[m.Platform.Architecture])
	}
	if diff := cmp.Diff(map[string]bool{"linux/amd64": true, "linux/arm64": true}, found); diff != "" {
		t.Errorf("platforms: -want +got\n%s", diff)
	}
}

func checkConfig(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	file := must.Get(image.ConfigFile())(t)
	if file.OS != "linux" || file.Architecture != architecture {
		t.Errorf("config is for %s/%s, want %s", file.OS, file.Architecture, architecture)
	}
	if file.Config.User != "65532:65532" {
		t.Errorf("user %q", file.Config.User)
	}
	if diff := cmp.Diff([]string{"/webhook-auditor"}, file.Config.Entrypoint); diff != "" {
		t.Errorf("entrypoint: -want +got\n%s", diff)
	}
	labels := map[string]string{"title": "webhook-auditor", "version": "v1.2.3", "licenses": "Apache-2.0", "created": "2026-01-02T03:04:05Z"}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if got := file.Config.Labels["org.opencontainers.image."+label]; got != labels[label] {
			t.Errorf("label %s is %q, want %q", label, got, labels[label])
		}
	}
}

// checkLayer wants nothing but one static binary that all users may run.
func checkLayer(t *testing.T, image v1.Image, machine elf.Machine) {
	t.Helper()
	layers := must.Get(image.Layers())(t)
	if len(layers) != 1 {
		t.Fatalf("%d layers, want 1", len(layers))
	}
	content := must.Get(layers[0].Uncompressed())(t)
	defer content.Close()
	files := tar.NewReader(content)
	header := must.Get(files.Next())(t)
	if header.Name != "webhook-auditor" || header.Mode != 0o755 || header.Uid != 0 {
		t.Errorf("the layer starts with %s, mode %o, owner %d", header.Name, header.Mode, header.Uid)
	}
	program := must.Get(io.ReadAll(files))(t)
	binary := must.Get(elf.NewFile(bytes.NewReader(program)))(t)
	if binary.Machine != machine {
		t.Errorf("compiled for %s, want %s", binary.Machine, machine)
	}
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("not static")
		}
	}
	if _, err := files.Next(); err != io.EOF {
		t.Errorf("there is more in the layer: %v", err)
	}
}

// TestBuiltIsTaken: a static binary that is there is packed, for its architecture alone.
func TestBuiltIsTaken(t *testing.T) {
	b := hello()
	path := must.Get(b.compile("arm64", t.TempDir()))(t)
	b.built, b.program = path, "./testdata/none"
	got, err := b.compile("arm64", t.TempDir())
	if err != nil || got != path {
		t.Errorf("%q, %v, want %q", got, err, path)
	}
	if _, err := b.compile("amd64", t.TempDir()); err == nil {
		t.Error("a binary for arm64 is taken for amd64")
	}
}

// TestSameSourceMakesSameImage, to the bit.
func TestSameSourceMakesSameImage(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		path := filepath.Join(t.TempDir(), "image.tar")
		must.Succeed(t, hello().write(path))
		archives[i] = must.Get(os.ReadFile(path))(t)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two builds differ")
	}
}

func TestBrokenArchiveIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.tar")
	must.Succeed(t, hello().write(path))
	content := must.Get(os.ReadFile(path))(t)
	content[len(content)/2] ^= 1 // inside of a layer
	must.Succeed(t, os.WriteFile(path, content, 0o600))
	if _, err := check(path); err == nil {
		t.Error("a changed layer passes")
	}
}
