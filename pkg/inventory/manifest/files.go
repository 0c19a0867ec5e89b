package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// stdinName is how places in the standard input are written.
const stdinName = "<stdin>"

// feeder finds the files to read and cuts them into tasks.
type feeder struct {
	stdin  io.Reader
	inputs []Input
	emit   func(task)
}

func (f *feeder) feed(paths []string, emit func(task)) {
	f.emit = emit
	for _, path := range paths {
		f.inputs = append(f.inputs, f.path(path))
	}
}

// fail reports what could not be read.
func (f *feeder) fail(file string, line int, err error) {
	f.emit(failure(inventory.Source{File: file, Line: line}, reason(err)))
}

// reason leaves out the path that the place says already.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return fmt.Sprintf("%s: %v", pathError.Op, pathError.Err)
	}
	return err.Error()
}

func (f *feeder) path(path string) Input {
	if path == "-" {
		f.stream(stream{name: stdinName, r: f.stdin})
		return Input{Path: path, Kind: "standard input"}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		f.fail(path, 0, err)
		return Input{Path: path}
	case info.IsDir():
		return f.directory(path)
	}
	f.open(path, os.Open)
	return Input{Path: path, Kind: "manifest"}
}

func (f *feeder) open(path string, open func(string) (*os.File, error)) {
	file, err := open(path)
	if err != nil {
		f.fail(path, 0, err)
		return
	}
	defer file.Close()
	f.stream(stream{name: path, r: file})
}

// directory reads the manifests in a directory and below it. Links are followed
// to files inside of it, never out.
func (f *feeder) directory(dir string) Input {
	input := Input{Path: dir, Kind: "directory"}
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.fail(dir, 0, err)
		return input
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			f.fail(filepath.Join(dir, name), 0, err)
		case !entry.IsDir() && manifestName(name):
			f.member(root, dir, name)
		}
		return nil
	})
	if err != nil {
		f.fail(dir, 0, err)
	}
	return input
}

// member reads a file of a directory.
func (f *feeder) member(root *os.Root, dir, name string) {
	full := filepath.Join(dir, name)
	info, err := root.Stat(name)
	switch {
	case err != nil:
		f.fail(full, 0, err)
		return
	case info.IsDir():
		return
	case !info.Mode().IsRegular():
		f.fail(full, 0, errors.New("not a regular file"))
		return
	}
	file, err := root.Open(name)
	if err != nil {
		f.fail(full, 0, err)
		return
	}
	defer file.Close()
	f.stream(stream{name: full, r: file, lenient: true})
}

// manifestName reports whether a file of a directory is read, as kubectl does.
func manifestName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// stream is the content of a file and how to read it.
type stream struct {
	name    string
	r       io.Reader
	lenient bool
	implied typeMeta
}

// stream cuts a file into tasks.
func (f *feeder) stream(in stream) {
	defer func() { f.emit(task{fileDone: true}) }()
	r := bufio.NewReader(in.r)
	if err := skipMark(r); err != nil {
		f.fail(in.name, 1, err)
		return
	}
	s := newSplitter(r)
	for {
		d, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			f.fail(in.name, s.line, err)
			return
		case d.tooLarge:
			f.fail(in.name, d.line, fmt.Errorf("a document of more than %d MiB: split the file", maxDocument>>20))
		default:
			tasks(text{
				place:   place{in.name, d.line},
				data:    d.data,
				json:    d.json,
				implied: in.implied,
				lenient: in.lenient,
			}, f.emit)
		}
	}
}

// skipMark skips the byte order mark of UTF-8 and refuses those of UTF-16.
func skipMark(r *bufio.Reader) error {
	start, _ := r.Peek(3)
	switch {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		_, err := r.Discard(3)
		return err
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return errors.New("UTF-16: convert the file to UTF-8 first, as with iconv")
	}
	return nil
}
