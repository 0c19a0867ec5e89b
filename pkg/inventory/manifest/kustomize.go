package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	goyaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// kustomizationNames are what kustomize looks for in a folder.
var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// build is what kustomize makes of a kustomization, without a network and plugins.
type build struct {
	filesys.FileSystem
	// kustomization is the file, as the user names it, and folder the same on disk.
	kustomization, folder string
	objects               []made
	// used are the files that it read, and the folders of the kustomizations among them.
	used map[string]bool
	// whole is set to read schemas too, blanked where one was left out.
	whole, blanked bool
	// missing says what a kustomization names that is not there: kustomize would say that the
	// file itself is not there.
	missing, err error
}

// made is an object that kustomize made, of the file origin.
type made struct {
	*resource.Resource
	json   []byte
	origin string
}

// kustomize has kustomize build a file. Where a patch needs the schema of a CRD, it is built
// again with the schemas.
func kustomize(file string) *build {
	b := &build{FileSystem: filesys.MakeFsOnDisk(), kustomization: file, used: map[string]bool{}}
	if b.folder, b.err = filepath.Abs(filepath.Dir(file)); b.err == nil {
		b.folder, b.err = filepath.EvalSymlinks(b.folder)
	}
	if b.err != nil {
		return b
	}
	b.run()
	if b.err != nil && b.blanked && b.missing == nil {
		b.whole = true
		b.run()
	}
	return b
}

func (b *build) run() {
	var all resmap.ResMap
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // as the command line does: webhooks last
	quietly(func() { all, b.err = krusty.MakeKustomizer(options).Run(b, b.folder) })
	if b.err = cmp.Or(b.missing, b.err); b.err != nil {
		return
	}
	for _, r := range all.Resources() {
		m := made{Resource: r, origin: b.kustomization}
		if origin, err := r.GetOrigin(); err == nil && origin != nil && origin.Path != "" {
			m.origin = filepath.Join(filepath.Dir(b.kustomization), origin.Path)
		}
		_ = r.SetOrigin(nil) // an annotation that was read is removed
		if m.json, b.err = r.MarshalJSON(); b.err != nil {
			return
		}
		b.objects = append(b.objects, m)
	}
}

// quietly runs what writes warnings of its own: kustomize's name no file, and cannot be
// turned off.
var quietly = func() func(func()) {
	var one sync.Mutex
	return func(run func()) {
		one.Lock()
		defer one.Unlock()
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			run()
			return
		}
		defer null.Close()
		stderr, logged := os.Stderr, log.Writer()
		os.Stderr = null
		log.SetOutput(null)
		defer func() {
			os.Stderr = stderr
			log.SetOutput(logged)
		}()
		run()
	}
}()

func (b *build) ReadFile(full string) ([]byte, error) {
	data, err := b.FileSystem.ReadFile(full)
	if err != nil {
		return nil, err
	}
	relative, _ := filepath.Rel(b.folder, full) // both are absolute
	name := filepath.Join(filepath.Dir(b.kustomization), relative)
	b.used[name] = true
	if !slices.Contains(kustomizationNames, filepath.Base(name)) {
		if b.whole {
			return data, nil
		}
		blanked := blankSchemas(data)
		b.blanked = b.blanked || len(blanked) < len(data)
		return blanked, nil
	}
	b.used[filepath.Dir(name)] = true
	b.missing = cmp.Or(b.missing, local(name, data))
	if relative == filepath.Base(relative) {
		data = withOrigins(data)
	}
	return data, nil
}

// withOrigins has kustomize note of which file each object is.
func withOrigins(data []byte) []byte {
	tree := map[string]any{}
	if yaml.UnmarshalStrict(data, &tree) != nil {
		return data // kustomize says why
	}
	noted, _ := tree["buildMetadata"].([]any)
	tree["buildMetadata"] = append(noted, types.OriginAnnotations)
	noting, _ := yaml.Marshal(tree) // it was read from YAML
	return noting
}

var (
	crdLine    = regexp.MustCompile(`(?m)^[ -]*kind: *"?CustomResourceDefinition"?\s*$`)
	schemaLine = regexp.MustCompile(`^([ -]*)openAPIV3Schema:\s*$`)
)

// blankSchemas leaves the schemas of CRDs empty, which no check reads and which are most of
// what kustomize would parse and copy. Each line stays where it is.
func blankSchemas(data []byte) []byte {
	if !crdLine.Match(data) {
		return data
	}
	out, indent := make([]byte, 0, len(data)/8), -1
	for line := range bytes.Lines(data) {
		content := bytes.TrimLeft(line, " ")
		switch {
		case indent >= 0 && (len(line)-len(content) > indent || isBlank(bytes.TrimSpace(content))):
			out = append(out, '\n')
			continue
		case schemaLine.Match(line):
			indent = bytes.IndexByte(line, 'o')
			line = append(bytes.TrimRight(line, "\r\n"), " {}\n"...)
		default:
			indent = -1
		}
		out = append(out, line...)
	}
	return out
}

// failure is why it cannot be built, without the paths of this machine.
func (b *build) failure() string {
	reason := strings.Join(strings.Fields(b.err.Error()), " ")
	if outside := outsideError.FindString(reason); outside != "" {
		reason = outside
	} else if causes := recursedError.FindAllStringIndex(reason, -1); causes != nil {
		reason = reason[causes[len(causes)-1][1]:]
	}
	reason = builtinError.ReplaceAllString(reason, "")
	if above := strings.TrimSuffix(b.folder, filepath.Clean(filepath.Dir(b.kustomization))); above != "" {
		reason = strings.ReplaceAll(reason, above, "")
	}
	reason = strings.Replace(reason, b.kustomization+" names", "it names", 1)
	return fmt.Sprintf("kustomization %s cannot be built: %s", b.kustomization, reason)
}

// What kustomize says of a base is around what it says of the cause; what it says of a file
// that it may not read comes before what it tries next.
var (
	recursedError = regexp.MustCompile(`recursed (accumulation of|merging from) path '[^']*': `)
	builtinError  = regexp.MustCompile("trouble configuring builtin \\w+ with config: `[^`]*`: ")
	outsideError  = regexp.MustCompile(`file '[^']*' is not in or below '[^']*'`)
)

// local refuses a kustomization that names something elsewhere, or not there.
func local(file string, data []byte) error {
	tree := map[string]any{}
	_ = yaml.Unmarshal(data, &tree) // kustomize says what cannot be read
	for _, name := range pathsIn(tree, "") {
		full := filepath.Join(filepath.Dir(file), name)
		info, err := os.Stat(full)
		isThere := func(name string) bool { _, err := os.Stat(filepath.Join(full, name)); return err == nil }
		switch {
		case err != nil:
			return fmt.Errorf("%s names %s, which is not there (nothing is fetched)", file, name)
		case info.IsDir() && !slices.ContainsFunc(kustomizationNames, isThere):
			return fmt.Errorf("%s names %s, which has no kustomization.yaml", file, name)
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

func (r *reader) built(input *input, b *build, incomplete bool) {
	input.roots = append(input.roots, b.kustomization)
	u := &unit{name: filepath.Dir(b.kustomization), kustomized: true}
	input.units = append(input.units, u)
	for _, m := range b.applied() {
		source := origin{file: b.kustomization, place: place{line: 1}}
		if !isSkipped(schema.FromAPIVersionAndKind(m.GetApiVersion(), m.GetKind())) {
			source = r.originOf(m, source)
		}
		f := &file{input: input, unit: u, name: source.file, plain: true, member: b.kustomization}
		f.incomplete = incomplete
		r.value(value{file: f, place: source.place, json: m.json})
	}
	r.finish(&file{input: input, name: b.kustomization, plain: true})
}

// applied are the objects without the custom resources of a bundle's input, which are examples.
func (b *build) applied() []made {
	isVersion := func(m made) bool { return m.GetKind() == "ClusterServiceVersion" }
	if len(basesOfBundles(filepath.Dir(b.kustomization))) == 0 && !slices.ContainsFunc(b.objects, isVersion) {
		return b.objects
	}
	groups := map[string]bool{}
	for _, m := range b.objects {
		if _, group, dotted := strings.Cut(m.GetName(), "."); dotted && m.GetKind() == inventory.KindCRD {
			groups[group] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(b.objects), func(m made) bool { return groups[m.GetGvk().Group] })
}

// origin is where an object stands that kustomize changed.
type origin struct {
	place
	file string
	size int
}

// originsIn are those of the objects in a file, by "Kind/name". The longest counts: a patch
// is a part of its object.
func originsIn(file string) map[string]origin {
	out := map[string]origin{}
	data, _ := os.ReadFile(file) // a file that cannot be read is no origin
	s := splitter{emit: func(d document) {
		var parsed goyaml.Node
		if goyaml.Unmarshal(d.data, &parsed) != nil || len(parsed.Content) == 0 {
			return
		}
		position := place{line: d.line + parsed.Content[0].Line - 1, node: parsed.Content[0], base: d.line - 1}
		name := join(position.part("kind").word(), position.part("metadata").part("name").word())
		if len(d.data) > out[name].size {
			out[name] = origin{place: position, file: file, size: len(d.data)}
		}
	}}
	_ = s.split(bytes.NewReader(blankSchemas(data)))
	return out
}

// originOf is where the object stands that was made, unless its file does not show it.
// Kustomize keeps no name of before its prefixes and suffixes.
func (r *reader) originOf(m made, unknown origin) origin {
	if r.origins[m.origin] == nil {
		r.origins[m.origin] = originsIn(m.origin)
	}
	longest := ""
	for name := range r.origins[m.origin] {
		kind, name, _ := strings.Cut(name, "/")
		if kind == m.GetKind() && strings.Contains(m.GetName(), name) && len(name) > len(longest) {
			longest = name
		}
	}
	if source, isShown := r.origins[m.origin][join(m.GetKind(), longest)]; isShown {
		return source
	}
	return unknown
}
