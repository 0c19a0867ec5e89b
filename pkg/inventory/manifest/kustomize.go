package manifest

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kustomizationNames are what kustomize looks for in a folder.
var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// build is what kustomize makes of a kustomization, without a network and plugins.
type build struct {
	filesys.FileSystem
	// kustomization is the file, as the user names it, and folder the same on disk.
	kustomization, folder string
	resources             []*resource.Resource
	// used are the files that it read, and the folders of the kustomizations among them.
	used map[string]bool
	err  error
}

// kustomize has kustomize build a file.
func kustomize(file string) *build {
	b := &build{FileSystem: filesys.MakeFsOnDisk(), kustomization: file, used: map[string]bool{}}
	if b.folder, b.err = filepath.Abs(filepath.Dir(file)); b.err == nil {
		b.folder, b.err = filepath.EvalSymlinks(b.folder)
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(b, b.folder)
	if b.err = cmp.Or(b.err, err); b.err == nil {
		b.resources = made.Resources()
	}
	return b
}

// ReadFile implements filesys.FileSystem.
func (b *build) ReadFile(full string) ([]byte, error) {
	data, err := b.FileSystem.ReadFile(full)
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(b.folder, full)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(filepath.Dir(b.kustomization), relative)
	b.used[name] = true
	if slices.Contains(kustomizationNames, filepath.Base(name)) {
		b.used[filepath.Dir(name)] = true
		err = local(name, data)
		b.err = cmp.Or(b.err, err) // kustomize would say that the file is not there
	}
	return data, err
}

// local refuses a kustomization that names something elsewhere, or not there.
func local(file string, data []byte) error {
	tree := map[string]any{}
	_ = yaml.Unmarshal(data, &tree) // kustomize says what cannot be read
	for _, name := range pathsIn(tree, "") {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), name)); err != nil {
			return fmt.Errorf("%s names %s, which is not there (nothing is fetched)", file, name)
		}
	}
	return nil
}

// pathFields are the fields of a kustomization whose values are paths, or URLs, of which
// none is fetched.
var pathFields = []string{"bases", "components", "configurations", "crds", "env", "envs", "files", "generators", "patchesStrategicMerge", "path", "resources", "transformers", "validators"}

// pathsIn are the paths in a value of the field. A text of several lines is no path.
func pathsIn(value any, field string) []string {
	var out []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if field == "" || key == "path" || key == "files" || key == "env" || key == "envs" {
				out = append(out, pathsIn(v[key], key)...)
			}
		}
	case []any:
		for _, element := range v {
			out = append(out, pathsIn(element, field)...)
		}
	case string:
		_, file, named := strings.Cut(v, "=")
		switch {
		case !slices.Contains(pathFields, field) || strings.Contains(v, "\n"):
		case field == "files" && named: // KEY=FILE
			out = append(out, file)
		default:
			out = append(out, v)
		}
	}
	return out
}

// kustomizations reads what kustomize makes of the folders that no other one includes, and
// returns the folders and files that are not to be read as they are.
func (r *reader) kustomizations(in *input) map[string]bool {
	var builds []*build
	included := map[string]bool{}
	// A folder that cannot be read is reported where its files are read.
	_ = filepath.WalkDir(in.path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !slices.Contains(kustomizationNames, entry.Name()) {
			return nil
		}
		var kind struct{ Kind string }
		data, _ := os.ReadFile(file)
		if _ = yaml.Unmarshal(data, &kind); kind.Kind == "Component" {
			return nil
		}
		b := kustomize(file)
		builds = append(builds, b)
		for folder := range b.used {
			included[folder] = included[folder] || folder != filepath.Dir(file)
		}
		return nil
	})
	done := map[string]bool{}
	for _, b := range builds {
		if !included[filepath.Dir(b.kustomization)] && r.built(in, b) {
			maps.Copy(done, b.used)
		}
	}
	return done
}

// built reads what kustomize made, and reports whether it made anything.
func (r *reader) built(in *input, b *build) bool {
	if b.err != nil {
		in.unbuilt = append(in.unbuilt, fmt.Sprintf("kustomization %s cannot be built, and its files are read as they are: %s", b.kustomization, strings.Join(strings.Fields(b.err.Error()), " ")))
		return false
	}
	in.roots = append(in.roots, b.kustomization)
	origins := originsIn(b.used)
	for _, made := range b.resources {
		data, err := made.MarshalJSON()
		if err != nil {
			continue // unreachable: it was read from YAML
		}
		at := originOf(made, origins)
		if at.line == 0 {
			at = origin{file: b.kustomization, place: place{line: 1}}
		}
		f := &file{input: in, name: at.file, plain: true, member: b.kustomization}
		r.value(value{file: f, place: at.place, json: data})
	}
	r.done(&file{input: in, name: b.kustomization, plain: true})
	return true
}

// origin is where an object stands that kustomize changed.
type origin struct {
	place
	file string
	size int
}

// originsIn are those of the objects in the files, by "Kind/name". The longest counts: a
// patch is a part of its object.
func originsIn(used map[string]bool) map[string]origin {
	out := map[string]origin{}
	for _, file := range slices.Sorted(maps.Keys(used)) {
		opened, err := os.Open(file)
		if err != nil || !isManifest(file) {
			continue
		}
		s := splitter{emit: func(d document) {
			var parsed goyaml.Node
			if goyaml.Unmarshal(d.data, &parsed) != nil || len(parsed.Content) == 0 {
				return
			}
			at := place{line: d.line + parsed.Content[0].Line - 1, node: parsed.Content[0], base: d.line - 1}
			name := join(at.part("kind").word(), at.part("metadata").part("name").word())
			if len(d.data) > out[name].size {
				out[name] = origin{place: at, file: file, size: len(d.data)}
			}
		}}
		_ = s.split(opened) // a file that cannot be read is no origin
		opened.Close()
	}
	return out
}

// originOf is where the object stands that was made, the zero origin of one that is not in
// a file. Kustomize keeps no name of before its prefixes and suffixes.
func originOf(made *resource.Resource, origins map[string]origin) origin {
	longest := ""
	for name := range origins {
		kind, name, _ := strings.Cut(name, "/")
		if kind == made.GetKind() && strings.Contains(made.GetName(), name) && len(name) > len(longest) {
			longest = name
		}
	}
	return origins[join(made.GetKind(), longest)]
}
