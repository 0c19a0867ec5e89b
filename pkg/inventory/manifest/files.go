package manifest

import (
	"bufio"
	"bytes"
	"cmp"
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

// stdinName is the file name of positions in the standard input.
const stdinName = "<stdin>"

// feeder finds the files to read and cuts them into jobs.
type feeder struct {
	stdin  io.Reader
	limits limits
	inputs []input
	emit   func(job)
}

// input is what is known of a path before anything in it is parsed.
type input struct {
	path string
	// absent is set where the path cannot be opened.
	absent  bool
	archive bool
	layout  layout
	// listed is set where a file lists the webhook configurations, be it none.
	listed bool
	// hosted are the folders of hosted clusters, which are left out.
	hosted map[string]bool
	// collected is when it was collected, as its timestamp file says; newest is
	// when the newest of its files was written. Zero is unknown.
	collected, newest time.Time
}

// content is a file and how to read it.
type content struct {
	name     string
	r        io.Reader
	lenient  bool
	implied  typeMeta
	complete []completeness
}

func (f *feeder) feed(paths []string, emit func(job)) {
	f.emit = emit
	for _, name := range paths {
		f.inputs = append(f.inputs, input{path: name, hosted: map[string]bool{}})
		f.path(name)
	}
}

// input returns the input that is being read.
func (f *feeder) input() *input { return &f.inputs[len(f.inputs)-1] }

// fail reports what cannot be read.
func (f *feeder) fail(file string, line int, err error) {
	f.emit(done(outcome{errors: []inventory.Error{{Source: inventory.Source{File: file, Line: line}, Message: reason(err)}}}))
}

// reason leaves out the path, which the error's source has.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

func (f *feeder) path(name string) {
	if name == "-" {
		f.file(content{name: stdinName, r: f.stdin})
		return
	}
	file, err := os.Open(name)
	if err != nil {
		f.input().absent = true
		f.fail(name, 0, err)
		return
	}
	defer file.Close()
	switch info, err := file.Stat(); {
	case err != nil:
		f.fail(name, 0, err)
	case info.IsDir():
		f.directory(name)
	default:
		f.file(content{name: name, r: file})
	}
}

// directory reads the files of a directory and of those below it. Links are
// followed inside of the directory only.
func (f *feeder) directory(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.fail(dir, 0, err)
		return
	}
	defer root.Close()
	f.input().layout = survey(root.FS(), filepath.Base(dir))
	walk(root.FS(), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			f.fail(filepath.Join(dir, name), 0, err)
		} else if !entry.IsDir() {
			f.member(root, dir, name)
		}
		return nil
	})
}

// walk visits a tree and passes errors to visit.
func walk(tree fs.FS, visit fs.WalkDirFunc) {
	// visit never returns an error but fs.SkipAll.
	_ = fs.WalkDir(tree, ".", visit)
}

// survey looks for the names by which the layout of a directory is recognized.
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
	timestamp := f.input().layout != plain && f.input().isTimestamp(name)
	if !read && !timestamp {
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
	if timestamp {
		f.input().readTimestamp(file)
		return
	}
	f.input().written(info.ModTime())
	c.r = file
	f.text(c)
}

// content says how to read a file of a directory or archive, and false for one
// that is not read.
func (f *feeder) content(full, name string) (content, bool) {
	in := f.input()
	in.noteHosted(name)
	role, read := in.layout.role(name)
	in.listed = in.listed || read && configurationList.MatchString(name)
	return content{
		name:     full,
		lenient:  in.layout == plain,
		implied:  role.implied,
		complete: in.layout.completeness(len(f.inputs)-1, name),
	}, read
}

// file reads a file that the user names, whatever its format.
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

// text cuts a file of YAML or JSON into jobs.
func (f *feeder) text(c content) {
	defer func() { f.emit(done(outcome{fileDone: true, complete: c.complete})) }()
	r := bufio.NewReader(c.r)
	if err := skipMark(r); err != nil {
		f.fail(c.name, 1, err)
		return
	}
	s := splitter{emit: func(d document) {
		if d.tooLarge {
			f.fail(c.name, d.line, fmt.Errorf("a document of more than %d MiB: split the file", maxDocument>>20))
			return
		}
		f.document(text{
			position: position{c.name, d.line},
			input:    len(f.inputs) - 1,
			data:     d.data,
			implied:  c.implied,
			lenient:  c.lenient,
		})
	}}
	if err := s.split(r); err != nil {
		f.fail(c.name, s.line, err)
	}
}

// document cuts a document into jobs.
func (f *feeder) document(t text) {
	if !isJSON(t.data) {
		f.object(t, blockOutline(t.data))
		return
	}
	s := newJSONScanner(t.data)
	for s.decoder.More() {
		o, err := s.object()
		part := t
		part.data, part.line = t.data[o.start:o.end], t.line+o.line-1
		switch {
		case err == nil:
			f.object(part, o)
		case o.start == 0 && len(o.elements) == 0:
			t.notJSON = s.problem(o, err)
			f.emit(job{len(t.data), func() outcome { return t.read(outline{words: o.words}) }})
			return
		default:
			o.words["kind"] = cmp.Or(o.words["kind"], "List") // it may come after what is broken
			f.object(part, o)
			p := s.problem(o, err)
			f.fail(t.file, t.line+p.line-1, errors.New(p.message))
			return
		}
	}
}

// minCut is the size from which a list of YAML is cut into its items even if these
// may share anchors: a parsed document takes some 15 times its size.
const minCut = 1 << 20

// object makes a job of an object, and of each item of a list.
func (f *feeder) object(t text, o outline) {
	meta := o.meta()
	if meta == (typeMeta{}) {
		meta = t.implied
	}
	if !o.isList(meta) || !t.isJSON() && len(t.data) < minCut && hasAliases(t.data) {
		f.emit(job{len(t.data), func() outcome { return t.read(o) }})
		return
	}
	list := outcome{file: t.file, input: t.input}
	items := list.listStart(t.position, meta, o)
	f.emit(done(list))
	for _, span := range items {
		item := t.item(span, meta)
		f.emit(job{len(item.data), item.readItem})
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
