package manifest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kustomizationNames are what kustomize looks for in a folder.
var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomization is what one of them names.
type kustomization struct {
	file      string
	component bool
	// deprecated is a field that kustomize warns of on the standard error, "" without one.
	deprecated string
	// folders and files are those that it names, and missing what it names that is neither.
	folders, files, missing []string
}

// kustomizations are those of the folders below the path, by folder.
func kustomizations(path string) map[string]kustomization {
	out := map[string]kustomization{}
	// What cannot be read here is reported where the folder is read.
	_ = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(kustomizationNames, entry.Name()) {
			folder := filepath.Dir(file)
			if k, ok := readKustomization(file); ok {
				out[folder] = k
			}
		}
		return nil
	})
	return out
}

func readKustomization(file string) (kustomization, bool) {
	k, tree := kustomization{file: file}, map[string]any{}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxObject {
		return k, false
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return k, false
	}
	_ = yaml.Unmarshal(data, &tree) // kustomize says what cannot be read
	k.component = tree["kind"] == "Component"
	if i := slices.IndexFunc(deprecatedFields, func(name string) bool { return tree[name] != nil }); i >= 0 {
		k.deprecated = deprecatedFields[i]
	}
	for _, name := range pathsIn(tree, "") {
		full := filepath.Join(filepath.Dir(file), name)
		switch info, err := os.Stat(full); {
		case err != nil:
			k.missing = append(k.missing, name)
		case info.IsDir():
			k.folders = append(k.folders, full)
		default:
			k.files = append(k.files, full)
		}
	}
	return k, true
}

// deprecatedFields are those of which kustomize prints a warning. Source:
// CheckDeprecatedFields in sigs.k8s.io/kustomize/api/types.
var deprecatedFields = []string{"bases", "commonLabels", "imageTags", "patchesJson6902", "patchesStrategicMerge", "vars"}

// pathFields are the fields of a kustomization whose values are paths, or URLs, of which
// none is fetched.
var pathFields = []string{"bases", "components", "configurations", "crds", "env", "envs", "files", "generators", "patchesStrategicMerge", "path", "resources", "transformers", "validators"}

// pathsIn are the paths in a value of the field. What has several lines is no path.
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

// kustomize reads what kustomize makes of the folders that no other one includes, and
// returns the folders and files that are not to be read as they are.
func (r *reader) kustomize(in *input) map[string]bool {
	all, included, done := kustomizations(in.path), map[string]bool{}, map[string]bool{}
	for _, k := range all {
		for _, folder := range k.folders {
			included[folder] = true
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		if included[folder] || all[folder].component {
			continue
		}
		maps.Copy(done, r.kustomization(in, all[folder].file))
	}
	for _, folder := range slices.Sorted(maps.Keys(done)) {
		if field := all[folder].deprecated; field != "" {
			in.unbuilt = append(in.unbuilt, fmt.Sprintf("kustomize warns that %s in %s is deprecated: it is built all the same", field, all[folder].file))
			break
		}
	}
	return done
}

// kustomization reads what kustomize makes of the file, and returns the folders and files
// that it is made of; none where it cannot be built.
func (r *reader) kustomization(in *input, file string) map[string]bool {
	used := map[string]bool{}
	built, err := build(filepath.Dir(file), used)
	if err != nil {
		in.unbuilt = append(in.unbuilt, fmt.Sprintf("kustomization %s cannot be built, and its files are read as they are: %s", file, strings.Join(strings.Fields(err.Error()), " ")))
		return nil
	}
	r.built(in, file, built, originsIn(used))
	return used
}

// build is what kustomize makes of the folder, without a network and plugins; used are
// the folders and files that it is made of.
func build(folder string, used map[string]bool) ([]*resource.Resource, error) {
	if err := local(folder, used); err != nil {
		return nil, err
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	return resources.Resources(), nil
}

// local refuses a kustomization that names what is not there, or is elsewhere.
func local(folder string, used map[string]bool) error {
	if used[folder] {
		return nil
	}
	used[folder] = true
	for _, name := range kustomizationNames {
		k, ok := readKustomization(filepath.Join(folder, name))
		if !ok {
			continue
		}
		if len(k.missing) > 0 {
			return fmt.Errorf("%s names %s, which is not there (nothing is fetched)", k.file, k.missing[0])
		}
		for _, file := range k.files {
			used[file] = true
		}
		for _, base := range k.folders {
			if err := local(base, used); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%s has no kustomization.yaml", folder)
}

// origin is where an object stands that kustomize changed.
type origin struct {
	file string
	line int
	// hooks are the lines of its webhooks, without their text.
	hooks []span
}

// originsIn are those of the objects in the files, by "Kind/name". The longest counts: a
// patch is a part of its object.
func originsIn(used map[string]bool) map[string]origin {
	out, size := map[string]origin{}, map[string]int{}
	for _, file := range slices.Sorted(maps.Keys(used)) {
		opened, err := os.Open(file)
		if err != nil || !isManifest(file) {
			continue
		}
		s := splitter{emit: func(d document) {
			o := blockOutline(d.data)
			if name := o.name(d.data); len(d.data) > size[name] {
				found := origin{file: file, line: d.line}
				for _, element := range o.elements {
					found.hooks = append(found.hooks, span{line: element.line})
				}
				out[name], size[name] = found, len(d.data)
			}
		}}
		_ = s.split(opened) // what cannot be read has no origin
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

// built reads what kustomize made.
func (r *reader) built(in *input, kustomization string, resources []*resource.Resource, origins map[string]origin) {
	in.roots = append(in.roots, kustomization)
	for _, made := range resources {
		data, err := made.AsYAML()
		if err != nil {
			continue // unreachable: it was read from YAML
		}
		at := originOf(made, origins)
		if at.line == 0 {
			at = origin{file: kustomization, line: 1}
		}
		meta := schema.FromAPIVersionAndKind(made.GetApiVersion(), made.GetKind())
		shown := outline{span: span{end: len(data), line: 1}, words: map[string]string{"apiVersion": meta.GroupVersion().String(), "kind": meta.Kind}, list: "webhooks", elements: at.hooks}
		r.read(text{file: &file{input: in, name: at.file, lenient: true, plain: true, member: kustomization}, line: at.line, data: data, shown: shown})
	}
	r.note(&file{input: in, name: kustomization, plain: true}, outcome{fileDone: true})
}
