package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const (
	binary = "webhook-auditor"
	// user is an unprivileged one, and a number, so that the kubelet sees that
	// it is not root.
	user = "65532:65532"
	tag  = "latest"
	// name is what containerd calls the image that the manifests name.
	name = "docker.io/library/webhook-auditor:" + tag
)

// write builds the image for all architectures and writes it as an OCI archive.
func (b build) write(path string) error {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	index, err := b.index(dir)
	if err != nil {
		return err
	}
	laid := filepath.Join(dir, "layout")
	written, err := layout.Write(laid, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return fmt.Errorf("laying the image out: %w", err)
	}
	names := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": name})
	if err := written.AppendIndex(index, names); err != nil {
		return fmt.Errorf("laying the image out: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making a folder for the archive: %w", err)
	}
	return b.pack(laid, path)
}

func (b build) index(dir string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range b.architectures {
		path, err := b.compile(architecture, dir)
		if err != nil {
			return nil, err
		}
		image, err := b.image(architecture, path)
		if err != nil {
			return nil, fmt.Errorf("making the image for %s: %w", architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return index, nil
}

// image is one layer with one binary, and how to run it.
func (b build) image(architecture, path string) (v1.Image, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	packed, err := b.single(content)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, b.config(architecture))
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: b.created}, CreatedBy: "go build"},
	})
}

func (b build) config(architecture string) *v1.ConfigFile {
	return &v1.ConfigFile{
		OS:           "linux",
		Architecture: architecture,
		Created:      v1.Time{Time: b.created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         user,
			Entrypoint:   []string{"/" + binary},
			ExposedPorts: map[string]struct{}{"8443/tcp": {}},
			Labels: map[string]string{
				"org.opencontainers.image.title":       "webhook-auditor",
				"org.opencontainers.image.description": "Reports which admission and conversion webhooks put the cluster at risk.",
				"org.opencontainers.image.source":      "https://github.com/webhook-auditor/webhook-auditor",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     b.version,
				"org.opencontainers.image.created":     b.created.Format(time.RFC3339),
			},
		},
	}
}

// single packs the binary.
func (b build) single(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header := &tar.Header{
		Name: binary, Mode: 0o755, Size: int64(len(content)), ModTime: b.created, Typeflag: tar.TypeReg,
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// pack makes an archive of a folder, in the order of the names.
func (b build) pack(dir, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(location string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, location)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(location)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: b.created}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err := errors.Join(err, w.Close(), file.Close()); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

// check reads an archive back, compares all digests, and returns that of the
// image.
func check(path string) (string, error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	index, err := read(path, dir)
	if err != nil {
		return "", err
	}
	if err := validate.Index(index); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return digest.String(), err
}

// read unpacks an archive and returns the one image in it.
func read(path, dir string) (v1.ImageIndex, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := unpack(tar.NewReader(file), dir); err != nil {
		return nil, err
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%d images, must be one", len(manifest.Manifests))
	}
	return all.ImageIndex(manifest.Manifests[0].Digest)
}

func unpack(archive *tar.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(header.Name, content, 0o644); err != nil {
			return err
		}
	}
}
