package must

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"slices"
	"testing"
)

// Gzip returns the data, compressed.
func Gzip[D ~string | ~[]byte](t testing.TB, data D) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	Get(w.Write([]byte(data)))(t)
	Succeed(t, w.Close())
	return out.Bytes()
}

// Tar returns the files as an archive, in the order of their names.
func Tar[D ~string | ~[]byte](t testing.TB, files map[string]D) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		Add(t, w, &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, string(files[name]))
	}
	Succeed(t, w.Close())
	return out.Bytes()
}

// Add adds to an archive.
func Add(t testing.TB, w *tar.Writer, h *tar.Header, content string) {
	t.Helper()
	h.Size = int64(len(content))
	Succeed(t, w.WriteHeader(h))
	Get(io.WriteString(w, content))(t)
}
