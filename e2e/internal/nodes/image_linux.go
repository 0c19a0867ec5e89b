package nodes

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// ImageName is what Pods name the image of a program that Image packed.
func ImageName(program string) string { return "docker.io/library/" + program + ":1" }

// Image packs static binaries as an image of the name, as "docker save" does; the
// first binary is what it runs.
func Image(archive, name string, binaries ...string) error {
	contents := map[string][]byte{}
	for _, path := range binaries {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("packing image %s: %w", name, err)
		}
		contents[filepath.Base(path)] = content
	}
	layer, err := pack(contents, 0o755)
	if err != nil {
		return err
	}
	type object = map[string]any
	config, err := json.Marshal(object{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": object{"User": "65532:65532", "Entrypoint": []string{"/" + filepath.Base(binaries[0])}},
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]object{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	image, err := pack(map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest}, 0o644)
	if err != nil {
		return err
	}
	return os.WriteFile(archive, image, 0o600)
}

func pack(files map[string][]byte, mode int64) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
