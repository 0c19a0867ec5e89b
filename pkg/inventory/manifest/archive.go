package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// limits bound the cost of an archive. A large must-gather has 100,000 entries
// and 20 GB, most of it logs that are not read.
type limits struct {
	// objects is the most that is kept of all inputs: some 2 KiB each.
	// The largest clusters have 150,000 Pods.
	objects int
	// entries counts the files of an archive.
	entries int
	// member is the most that is read of one of them, members of all.
	member, members int64
	// ratio is a compression that only bombs have, once free bytes were read: logs
	// come to 30, deflate cannot exceed 1032. Skipped bytes cost CPU, not memory.
	ratio, free int64
}

var defaultLimits = limits{
	objects: 500_000,
	entries: 2_000_000,
	member:  512 << 20,
	members: 8 << 30,
	ratio:   300,
	free:    16 << 30,
}

// tarMagicEnd is where the magic number of a tar archive ends.
const tarMagicEnd = 262

func isGzip(start []byte) bool { return bytes.HasPrefix(start, []byte("\x1f\x8b")) }

func isTar(start []byte) bool {
	return len(start) >= tarMagicEnd && string(start[tarMagicEnd-5:]) == "ustar"
}

// unreadable names the format of an archive that is not read.
func unreadable(start []byte) string {
	for _, known := range []struct{ magic, format string }{
		{"\xfd7zXZ\x00", "an xz archive"},
		{"\x28\xb5\x2f\xfd", "a zstd archive"},
		{"BZh", "a bzip2 archive"},
		{"PK\x03\x04", "a zip archive"},
		{"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"},
	} {
		if bytes.HasPrefix(start, []byte(known.magic)) {
			return known.format
		}
	}
	return ""
}

// gzip reads a compressed file: an archive or a manifest.
func (f *feeder) gzip(c content) {
	packed := &counter{r: c.r}
	r, err := gzip.NewReader(packed)
	if err != nil {
		f.fail(c.name, 0, err)
		return
	}
	defer r.Close()
	c.r = &guard{r: r, packed: packed, limits: f.limits}
	start := make([]byte, tarMagicEnd)
	n, _ := io.ReadFull(c.r, start)
	start = start[:n]
	c.r = io.MultiReader(bytes.NewReader(start), c.r)
	if isTar(start) {
		f.archive(c)
		return
	}
	left := f.limits.members
	c.r = &allowance{r: c.r, budget: &left, left: left}
	f.text(c)
}

// counter counts the bytes read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// guard stops reading a decompression bomb.
type guard struct {
	r      io.Reader
	n      int64
	packed *counter
	limits limits
}

func (g *guard) Read(p []byte) (int, error) {
	if g.n > g.limits.free && g.n > g.limits.ratio*g.packed.n {
		return 0, fmt.Errorf("it unpacks to more than %d times its size: taken for a decompression bomb, not read further", g.limits.ratio)
	}
	n, err := g.r.Read(p)
	g.n += int64(n)
	return n, err
}

// archive reads the files of a tar archive in their order; nothing is unpacked
// to disk.
func (f *feeder) archive(c content) {
	f.input().archive = true
	r := tar.NewReader(c.r)
	budget := f.limits.members
	last := "its start"
	for range f.limits.entries {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			f.fail(c.name, 0, fmt.Errorf("reading the archive after %s: %w: what follows is not read", last, broken(err)))
			return
		}
		last = h.Name
		f.entry(c, h, &allowance{r: r, budget: &budget, left: f.limits.member})
	}
	f.fail(c.name, 0, fmt.Errorf("more than %d entries: what follows %s is not read", f.limits.entries, last))
}

// broken names the unexpected end of an archive.
func broken(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the archive is truncated")
	}
	return err
}

// allowance bounds the bytes read of a member, and of all members.
type allowance struct {
	r      io.Reader
	budget *int64
	left   int64
}

func (a *allowance) Read(p []byte) (int, error) {
	most := min(int64(len(p)), a.left, *a.budget)
	if most <= 0 {
		return 0, a.exhausted()
	}
	n, err := a.r.Read(p[:most])
	a.left -= int64(n)
	*a.budget -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = broken(err)
	}
	return n, err
}

// exhausted names the limit that is exceeded, or returns the end of the member.
func (a *allowance) exhausted() error {
	if n, err := a.r.Read(make([]byte, 1)); n == 0 {
		return err
	}
	if a.left <= 0 {
		return errors.New("too large for an archive of objects: the rest of the file is not read")
	}
	return errors.New("the manifests of the archive are too large together: the rest is not read")
}

// entry reads a file of an archive, if it is one that holds objects.
func (f *feeder) entry(archive content, h *tar.Header, r io.Reader) {
	full := archive.name + "!" + path.Clean(h.Name)
	if path.IsAbs(h.Name) || slices.Contains(strings.Split(h.Name, "/"), "..") {
		f.fail(full, 0, errors.New("its name leads out of the archive: not read"))
		return
	}
	name := path.Clean(h.Name)
	f.input().layout = f.input().layout.with(recognize(name))
	c, read := f.content(full, name)
	switch {
	case h.Typeflag == tar.TypeReg && f.input().isTimestamp(name):
		f.input().readTimestamp(r)
	case !read || h.Typeflag == tar.TypeDir:
	case h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink:
		f.fail(full, 0, fmt.Errorf("a link to %s: links in archives are not followed", h.Linkname))
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse:
		f.fail(full, 0, errors.New("not a regular file"))
	default:
		f.input().written(h.ModTime)
		c.r = r
		f.text(c)
	}
}
