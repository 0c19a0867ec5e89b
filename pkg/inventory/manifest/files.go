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
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// stdinName is how places in the standard input are written.
const stdinName = "<stdin>"

// feeder finds the files to read and cuts them into tasks.
type feeder struct {
	stdin  io.Reader
	limits limits
	inputs []source
	emit   func(task)
}

// source is what is known of a path before anything in it was parsed.
type source struct {
	path string
	// absent says that it could not be opened.
	absent  bool
	archive bool
	layout  layout
	// listed says that a file lists the webhook configurations, be it none.
	listed bool
	// hosted are the folders of other clusters that were left out.
	hosted map[string]bool
	// stamped is when it was collected, as it says itself; newest is when the
	// newest of its files was written. Zero is unknown.
	stamped, newest time.Time
}

// content is a file and how to read it.
type content struct {
	name    string
	r       io.Reader
	lenient bool
	implied typeMeta
	claims  []claim
}

func (f *feeder) feed(paths []string, emit func(task)) {
	f.emit = emit
	for _, path := range paths {
		f.inputs = append(f.inputs, source{path: path, hosted: map[string]bool{}})
		f.path(path)
	}
}

// in returns the input that is being read.
func (f *feeder) in() *source { return &f.inputs[len(f.inputs)-1] }

// fail reports what could not be read.
func (f *feeder) fail(file string, line int, err error) {
	f.emit(failure(inventory.Source{File: file, Line: line}, reason(err)))
}

// reason leaves out the path that the place says already.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

func (f *feeder) path(path string) {
	if path == "-" {
		f.file(content{name: stdinName, r: f.stdin})
		return
	}
	file, err := os.Open(path)
	if err != nil {
		f.in().absent = true
		f.fail(path, 0, err)
		return
	}
	defer file.Close()
	switch info, err := file.Stat(); {
	case err != nil:
		f.fail(path, 0, err)
	case info.IsDir():
		f.directory(path)
	default:
		f.file(content{name: path, r: file})
	}
}

// directory reads what is in a directory and below it. Links are followed to
// files inside of it, never out.
func (f *feeder) directory(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.fail(dir, 0, err)
		return
	}
	defer root.Close()
	f.in().layout = survey(root.FS(), filepath.Base(dir))
	walk(root.FS(), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			f.fail(filepath.Join(dir, name), 0, err)
		} else if !entry.IsDir() {
			f.member(root, dir, name)
		}
		return nil
	})
}

// walk visits a tree; its errors are those that visit was told.
func walk(tree fs.FS, visit fs.WalkDirFunc) {
	// visit never returns an error but fs.SkipAll.
	_ = fs.WalkDir(tree, ".", visit)
}

// survey looks for names that tell the layout of a directory.
func survey(tree fs.FS, base string) layout {
	found := recognize(base)
	if found != plain {
		return found
	}
	walk(tree, func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			found = found.with(recognize(path.Join(base, name)))
		}
		if found == insights {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// member reads a file of a directory.
func (f *feeder) member(root *os.Root, dir, name string) {
	full := filepath.Join(dir, name)
	c, read := f.content(full, name)
	stamps := f.in().layout != plain && f.in().stamps(name)
	if !read && !stamps {
		return
	}
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
	if stamps {
		f.in().readStamp(file)
		return
	}
	f.in().written(info.ModTime())
	c.r = file
	f.text(c)
}

// content says how to read a file of a directory or archive, and false for one
// that is not read.
func (f *feeder) content(full, name string) (content, bool) {
	in := f.in()
	in.noteHosted(name)
	role, read := in.layout.role(name)
	in.listed = in.listed || read && configurationList.MatchString(name)
	return content{
		name:    full,
		lenient: in.layout == plain,
		implied: role.implied,
		claims:  in.layout.claims(len(f.inputs)-1, name),
	}, read
}

// file reads a file that was named, whatever it is.
func (f *feeder) file(c content) {
	r := bufio.NewReaderSize(c.r, tarMagicEnd)
	c.r = r
	start, _ := r.Peek(tarMagicEnd)
	switch {
	case isGzip(start):
		f.gzip(c)
	case isTar(start):
		f.archive(c)
	default:
		if format := unreadable(start); format != "" {
			f.fail(c.name, 0, fmt.Errorf("%s: unpack it first", format))
			return
		}
		f.text(c)
	}
}

// text cuts a file of YAML or JSON into tasks.
func (f *feeder) text(c content) {
	defer func() { f.emit(task{fileDone: true, claims: c.claims}) }()
	r := bufio.NewReader(c.r)
	if err := skipMark(r); err != nil {
		f.fail(c.name, 1, err)
		return
	}
	s := newSplitter(r)
	objects := false // in a folder, a file that is none of Kubernetes' may hold anything
	for {
		d, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			f.fail(c.name, s.line+1, err)
			return
		case d.trailing && (!c.lenient || objects):
			f.fail(c.name, d.line, errors.New("something follows the JSON object: must be another object, or set apart by a line ---"))
		case d.tooLarge:
			f.fail(c.name, d.line, fmt.Errorf("a document of more than %d MiB: split the file", maxDocument>>20))
		default:
			objects = objects || d.json && bytes.Contains(d.data, []byte(`"apiVersion"`))
			tasks(text{
				place:   place{c.name, d.line},
				input:   len(f.inputs) - 1,
				data:    d.data,
				json:    d.json,
				implied: c.implied,
				lenient: c.lenient,
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
