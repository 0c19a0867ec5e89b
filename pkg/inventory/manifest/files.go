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
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const stdinName = "<stdin>"

type input struct {
	path    string
	absent  bool
	archive bool
	layout  layout
	// listed is set where a file lists the webhook configurations, be it none, and
	// policiesListed where one lists admission policies.
	listed, policiesListed bool
	// hosted are the folders of hosted clusters, which are left out.
	hosted map[string]bool
	// collected is when it was collected, as its timestamp file says; newest is
	// when the newest of its files was written. Zero is unknown.
	collected, newest time.Time

	objects, skipped int
	// manifests are the objects that are still to be applied; stored is set where an
	// API server has stored one.
	manifests []noted
	stored    bool
	// kinds are those of which an object was read.
	kinds   map[string]bool
	partial []string
	// placeholders stand for CA bundles, patches are taken for parts of other objects, and ended
	// are in a version that no server takes any more.
	placeholders, patches, ended remarks
	// roots are the files that kustomize built; unread says what of the input is not read, and
	// duplicates which objects have one name.
	roots, unread, duplicates []string
	packed                    []string
	// units are the parts of a directory that are applied together, by folder those of files.
	// What is found of them is kept once all are read.
	units   []*unit
	folders map[string]*unit
	found   []object
	// templates are the files that look like those of a chart.
	templates []*file
}

// file is one that is read: it is named by the user, or in a directory or archive.
type file struct {
	input *input
	unit  *unit
	name  string
	// lenient is set where something that is no object of Kubernetes need not be
	// valid YAML: a directory holds other files, too.
	lenient bool
	// plain is set where it is no file of a must-gather or the like, as far as it is known.
	plain bool
	// incomplete is set where workloads lack what the patches of a kustomization add that cannot
	// be built.
	incomplete bool
	// implied is the type of objects that do not state theirs.
	implied schema.GroupVersionKind
	member  string
	// failed is set where an object of it cannot be read, listed where there is a
	// list in it.
	failed, listed bool
	// installation is what OLM makes of a ClusterServiceVersion of the file, of which it is a copy.
	installation *installation
}

// reason leaves out the path, which the error's source has.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

// name is the file name of positions in the input.
func (in *input) name() string {
	if in.path == "-" {
		return stdinName
	}
	return in.path
}

func (r *reader) path(input *input) {
	if input.path == "-" {
		input.path = r.stdinName
		r.file(&file{input: input, name: input.name(), plain: true}, r.stdin)
		return
	}
	f := &file{input: input, name: input.name(), plain: true}
	opened, err := os.Open(input.path)
	if err != nil {
		input.absent = true
		r.failed(f, 0, err)
		return
	}
	defer opened.Close()
	switch info, err := opened.Stat(); {
	case err != nil:
		r.failed(f, 0, err)
	case info.IsDir():
		r.directory(input)
	case slices.Contains(kustomizationNames, filepath.Base(input.path)):
		if b := kustomize(input.path); b.err != nil {
			input.unread = append(input.unread, b.failure())
		} else {
			r.built(input, b, false)
			r.keep(input)
		}
	default:
		r.file(f, opened)
	}
}

// directory reads the files of a directory and of those below it. Links are
// followed inside of the directory only.
func (r *reader) directory(input *input) {
	root, err := os.OpenRoot(input.path)
	if err != nil {
		r.failed(&file{input: input, name: input.path}, 0, err)
		return
	}
	defer root.Close()
	d := survey(input)
	r.builtBelow(input, d)
	// What is visited returns no error.
	_ = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		full := filepath.Join(input.path, name)
		switch {
		case err != nil:
			r.failed(&file{input: input, name: full}, 0, err)
		case d.skipped[full] && entry.IsDir():
			return fs.SkipDir
		case d.skipped[full] || entry.IsDir():
		default:
			r.inDirectory(input, root, name)
		}
		return nil
	})
	r.keep(input)
	r.rendered(input)
}

func (r *reader) inDirectory(input *input, root *os.Root, name string) {
	input.recognize(path.Join(filepath.Base(input.path), name))
	f, read := input.member(filepath.Join(input.path, name), name)
	if !read {
		return
	}
	f.unit = input.unitOf(filepath.Dir(f.name))
	info, err := root.Stat(name)
	_, outside := os.Stat(filepath.Join(input.path, name))
	switch {
	case err != nil && outside == nil:
		r.failed(f, 0, errors.New("a link out of the folder: name what it leads to as a path of its own"))
		return
	case err != nil:
		r.failed(f, 0, err)
		return
	case info.IsDir():
		return
	case !info.Mode().IsRegular():
		r.failed(f, 0, errors.New("not a regular file"))
		return
	}
	opened, err := root.Open(name)
	if err != nil {
		r.failed(f, 0, err)
		return
	}
	defer opened.Close()
	r.member(f, info, opened)
}

// unitOf is that of the files of the folder.
func (in *input) unitOf(name string) *unit {
	if in.folders[name] == nil {
		in.folders[name] = &unit{name: name}
		in.units = append(in.units, in.folders[name])
	}
	return in.folders[name]
}

// member says how to read a file of a directory or archive, and false for one that
// is not read.
func (in *input) member(full, name string) (*file, bool) {
	in.noteHosted(name)
	if in.archive && len(in.unread) == 0 && in.layout == plain && slices.Contains(kustomizationNames, path.Base(name)) {
		in.unread = append(in.unread, fmt.Sprintf("kustomization %s is in an archive, where none is built, and its files are read as they are: unpack it", full))
	}
	role, read := in.layout.role(name)
	if !read && packedFile.MatchString(name) {
		in.packed = append(in.packed, full)
	}
	in.listed = in.listed || read && configurationList.MatchString(name)
	in.policiesListed = in.policiesListed || read && policyList.MatchString(name)
	f := &file{
		input: in, name: full, lenient: in.layout == plain, plain: in.layout == plain, implied: role.implied,
		member: name,
	}
	return f, read || in.isTimestamp(name)
}

// packedFile matches manifests, and archives, that are packed inside of a folder or an archive.
var packedFile = regexp.MustCompile(`\.(ya?ml|json)\.(gz|bz2|xz|zst)$|\.(tar|tgz|tar\.gz|tar\.xz|zip)$`)

func (r *reader) member(f *file, info fs.FileInfo, data io.Reader) {
	if f.input.isTimestamp(info.Name()) {
		f.input.readTimestamp(data)
		return
	}
	f.input.newest = later(f.input.newest, info.ModTime())
	r.text(f, data)
}

// file reads a file that the user names, whatever its format.
func (r *reader) file(f *file, data io.Reader) {
	buffered := bufio.NewReaderSize(data, tarMagicEnd)
	if start, _ := buffered.Peek(len(gzipMagic)); string(start) == gzipMagic {
		r.gzip(f, buffered)
		return
	}
	r.unpacked(f, buffered, buffered)
}

func (r *reader) text(f *file, data io.Reader) {
	defer r.finish(f)
	line, err := eachDocument(data, func(d document) {
		if d.tooLarge {
			r.failed(f, d.line, fmt.Errorf("a document of more than %d MiB: split the file", maxDocument>>20))
			return
		}
		d.pieces(func(piece document) {
			t := text{file: f, line: piece.line, data: piece.data}
			if p := t.read(r.value); p != nil {
				r.unparsed(t, p)
			}
		})
	})
	if err != nil {
		r.failed(f, line, err)
	}
}

// eachDocument cuts a file of YAML or JSON into its documents; an error has its line.
func eachDocument(data io.Reader, emit func(document)) (int, error) {
	buffered := bufio.NewReader(data)
	if err := skipMark(buffered); err != nil {
		return 1, err
	}
	s := splitter{emit: emit}
	err := s.split(buffered)
	return s.line, err
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
