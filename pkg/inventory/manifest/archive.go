package manifest

import (
	"archive/tar"
	"bufio"
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
	// entries counts the files of an archive, of each of which a name is kept.
	entries int
	// member is the most that is read of one of them, members of all.
	member, members int64
}

var defaultLimits = limits{
	objects: 500_000,
	entries: 2_000_000,
	member:  512 << 20,
	members: 8 << 30,
}

// tarMagicEnd is where the magic number of a tar archive ends.
const tarMagicEnd = 262

const gzipMagic = "\x1f\x8b"

func isTar(start []byte) bool {
	if len(start) < tarMagicEnd {
		return false
	}
	return string(start[tarMagicEnd-5:]) == "ustar" || len(bytes.Trim(start, "\x00")) == 0 // one without files
}

// unreadable names the format of an archive that is not read.
func unreadable(start []byte) string {
	for _, archive := range []struct{ magic, format string }{
		{"\xfd7zXZ\x00", "an xz archive"},
		{"\x28\xb5\x2f\xfd", "a zstd archive"},
		{"BZh", "a bzip2 archive"},
		{"PK\x03\x04", "a zip archive"},
		{"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"},
		{gzipMagic, "a gzip archive in another one"},
	} {
		if bytes.HasPrefix(start, []byte(archive.magic)) {
			return archive.format
		}
	}
	return ""
}

func (r *reader) gzip(f *file, data io.Reader) {
	unpacked, err := gzip.NewReader(data)
	if err != nil {
		r.failed(f, 0, err)
		return
	}
	defer unpacked.Close()
	buffered := bufio.NewReaderSize(unpacked, tarMagicEnd)
	r.unpacked(f, buffered, &bounded{buffered, r.limits.members, tooManyBytes})
}

// unpacked reads an archive, or else the text.
func (r *reader) unpacked(f *file, data *bufio.Reader, text io.Reader) {
	start, _ := data.Peek(tarMagicEnd)
	switch format := unreadable(start); {
	case isTar(start):
		r.archive(f, data)
	case format != "":
		r.failed(f, 0, fmt.Errorf("%s: unpack it first", format))
	default:
		r.text(f, text)
	}
}

// archive reads the files of a tar archive in their order; nothing is unpacked
// to disk.
func (r *reader) archive(f *file, data io.Reader) {
	f.input.archive = true
	members := tar.NewReader(data)
	all := &bounded{members, r.limits.members, tooManyBytes}
	last := "its start"
	for range r.limits.entries {
		h, err := members.Next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			r.failed(f, 0, fmt.Errorf("reading the archive after %s: %w: what follows is not read", last, broken(err)))
			return
		}
		last = h.Name
		r.inArchive(f, h, &bounded{all, r.limits.member, "too large for an archive of objects: the rest of the file is not read"})
	}
	r.failed(f, 0, fmt.Errorf("more than %d entries: what follows %s is not read", r.limits.entries, last))
}

func broken(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the archive is truncated")
	}
	return err
}

const tooManyBytes = "the manifests of the archive are too large together: the rest is not read"

type bounded struct {
	r       io.Reader
	left    int64
	failure string
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left > 0 {
		n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		return n, broken(err)
	}
	if n, err := b.r.Read(make([]byte, 1)); n == 0 {
		return 0, broken(err)
	}
	return 0, errors.New(b.failure)
}

func (r *reader) inArchive(archive *file, h *tar.Header, data io.Reader) {
	name, info := path.Clean(h.Name), h.FileInfo()
	full := archive.name + "!" + name
	if path.IsAbs(h.Name) || slices.Contains(strings.Split(h.Name, "/"), "..") {
		r.failed(&file{input: archive.input, name: full}, 0, errors.New("its name leads out of the archive: not read"))
		return
	}
	archive.input.recognize(name)
	f, read := archive.input.member(full, name)
	switch {
	case !read || info.IsDir():
	case h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink:
		r.failed(f, 0, fmt.Errorf("a link to %s: links in archives are not followed", h.Linkname))
	case !info.Mode().IsRegular():
		r.failed(f, 0, errors.New("not a regular file"))
	default:
		r.member(f, info, data)
	}
}
