package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-openapi/jsonpointer"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

type Change struct {
	Operation string `json:"op"`
	Path      string `json:"path" jsonschema:"Path is a JSON pointer."`
	From      string `json:"from,omitempty"`
	Value     any    `json:"value,omitempty" jsonschema:"Value is set with -v alone; \"(hidden)\" where it may be secret."`
	Old       any    `json:"old,omitempty" jsonschema:"Old is the value before, as far as it is known."`
	// OverwrittenBy names the webhook that set another value later.
	OverwrittenBy string `json:"overwrittenBy,omitempty" jsonschema:"OverwrittenBy names the webhook that set another value later, or removed it."`
	// place is the Path after later changes of lists.
	place string
}

type Patch struct {
	Webhook string
	Changes []Change
}

// ApplyPatch returns the object as a JSON patch leaves it, and its changes with the values
// before. It fails as the API server does, with the library that this uses.
func ApplyPatch(object map[string]any, patch []byte) (map[string]any, []Change, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, nil, err
	}
	document, _ := json.Marshal(object) // it was read from JSON
	var changes []Change
	after := object
	for _, o := range operations {
		c := newChange(o, after)
		if document, err = (jsonpatch.Patch{o}).Apply(document); err != nil {
			return nil, nil, err
		}
		after = nil
		if err := utiljson.Unmarshal(document, &after); err != nil {
			return nil, nil, err
		}
		if c.Operation != "test" {
			changes = append(changes, c)
		}
	}
	return after, changes, nil
}

// newChange is an operation on the object. The place of what is appended to a list is its
// index.
func newChange(o jsonpatch.Operation, object map[string]any) Change {
	c := Change{Operation: o.Kind()}
	c.Path, _ = o.Path()
	if o["from"] != nil {
		c.From, _ = o.From()
	}
	if raw := o["value"]; raw != nil {
		_ = utiljson.Unmarshal(*raw, &c.Value) // the library has read it
	}
	if list, ok := strings.CutSuffix(c.Path, "/-"); ok {
		if elements, ok := ValueAt(object, list).([]any); ok {
			c.Path = fmt.Sprintf("%s/%d", list, len(elements))
		}
	}
	if c.From != "" {
		c.Value = ValueAt(object, c.From)
	}
	if c.Operation != "add" || !isIndex(c.Path) {
		c.Old = ValueAt(object, c.Path)
	}
	return c
}

// ValueAt returns the value at a JSON pointer, nil without one.
func ValueAt(v any, pointer string) any {
	p, err := jsonpointer.New(pointer)
	if err != nil {
		return nil
	}
	value, _, _ := p.Get(v) // nil in case of an error
	return value
}

// Place is where two values differ: as a JSON pointer, and for jq, which has elements of lists
// by their names.
type Place struct {
	Pointer, Query string
	InList         bool
}

func (p Place) field(key string) Place {
	if strings.HasSuffix(p.Query, ")") {
		p.Query += " | "
	}
	p.Pointer, p.Query = p.Pointer+"/"+jsonpointer.Escape(key), p.Query+"."+strconv.Quote(key)
	return p
}

func (p Place) element(i int, v any) Place {
	p.Pointer, p.InList = fmt.Sprintf("%s/%d", p.Pointer, i), true
	if name := elementName(v); name != "" {
		p.Query += fmt.Sprintf("[] | select(.name == %q)", name)
	} else {
		p.Query += fmt.Sprintf("[%d]", i)
	}
	return p
}

func elementName(v any) string {
	element, _ := v.(map[string]any)
	name, _ := element["name"].(string)
	return name
}

// Differences are the places at which two objects differ, of what is left out of no patch.
func Differences(old, current map[string]any) []Place { return differences(old, current, Place{}) }

func differences(old, current any, location Place) (out []Place) {
	if isEmpty(old) && isEmpty(current) || reflect.DeepEqual(old, current) {
		return nil
	}
	p := location.Pointer
	if old == nil && (strings.HasSuffix(p, "/labels") || strings.HasSuffix(p, "/annotations")) {
		old = map[string]any{} // each key has its place
	}
	switch x := old.(type) {
	case map[string]any:
		y, ok := current.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			out = append(out, differences(x[key], y[key], location.field(key))...)
		}
		return out
	case []any:
		y, ok := current.([]any)
		if !ok {
			break
		}
		before, after := elementsOf(x), elementsOf(y)
		if !areAligned(before, after) {
			break
		}
		for i, key := range after.keys {
			out = append(out, differences(before.values[key], y[i], location.element(i, y[i]))...)
		}
		for i, key := range before.keys {
			if after.values[key] == nil {
				out = append(out, location.element(i, x[i]))
			}
		}
		return out
	}
	return []Place{location}
}

// elements are those of a list by their names, or else their indexes.
type elements struct {
	keys     []string
	values   map[string]any
	areNamed bool
}

func elementsOf(list []any) elements {
	out := elements{values: map[string]any{}, areNamed: true}
	for i, v := range list {
		key := elementName(v)
		if key == "" {
			key, out.areNamed = fmt.Sprint("#", i), false
		}
		out.keys = append(out.keys, key)
		out.values[key] = v
	}
	return out
}

// areAligned reports whether lists have their common elements in one order, by name, or have
// as many without one. Names may repeat in volumeMounts and env.
func areAligned(x, y elements) bool {
	switch {
	case len(x.values) < len(x.keys) || len(y.values) < len(y.keys):
		return false
	case !x.areNamed || !y.areNamed:
		return len(x.keys) == len(y.keys)
	}
	common := func(own, other elements) []string {
		return lists.Filter(own.keys, func(key string) bool { return other.values[key] != nil })
	}
	return slices.Equal(common(x, y), common(y, x))
}

func isEmpty(v any) bool {
	value := reflect.ValueOf(v)
	return v == nil || (value.Kind() == reflect.Map || value.Kind() == reflect.Slice) && value.Len() == 0
}

// mapsOfUsers have keys that may be numbers.
var mapsOfUsers = []string{"annotations", "binaryData", "data", "labels", "matchLabels", "stringData"}

func isIndex(pointer string) bool {
	path := strings.Split(pointer, "/")
	_, err := strconv.Atoi(path[len(path)-1])
	return err == nil && (len(path) < 2 || !slices.Contains(mapsOfUsers, path[len(path)-2]))
}

// GeneralPath is the pointer with * for each index of a list.
func GeneralPath(pointer string) string {
	path := strings.Split(pointer, "/")
	for i := range path {
		if path[i] == "-" || isIndex(strings.Join(path[:i+1], "/")) {
			path[i] = "*"
		}
	}
	return strings.Join(path, "/")
}

// MarkOverwritten marks the changes that a later call undoes. What is added to a list, or
// removed from it, moves the elements after it.
func MarkOverwritten(patches []Patch) {
	var earlier []*Change
	for _, p := range patches {
		count := len(earlier) // those of other calls
		for i := range p.Changes {
			c := &p.Changes[i]
			if c.Operation == "move" {
				moveEarlier(earlier[:count], Change{Operation: "remove", Path: c.From}, p.Webhook)
			}
			moveEarlier(earlier[:count], *c, p.Webhook)
			c.place = c.Path
			earlier = append(earlier, c)
		}
	}
}

// moveEarlier marks what the change overwrites of the earlier ones, and moves the others.
func moveEarlier(earlier []*Change, c Change, webhook string) {
	shift := 0
	if isIndex(c.Path) {
		shift = map[string]int{"add": 1, "copy": 1, "move": 1, "remove": -1}[c.Operation]
	}
	for _, e := range earlier {
		if shift <= 0 && e.OverwrittenBy == "" && e.isOverwritten(c) {
			e.OverwrittenBy = webhook
		}
		if shift != 0 {
			e.place = shifted(e.place, c.Path, shift)
		}
	}
}

// isOverwritten reports whether a later change sets otherwise what this one set, or a part of it.
func (c *Change) isOverwritten(later Change) bool {
	if rest, ok := restOfPath(c.place, later.Path); ok {
		return !reflect.DeepEqual(ValueAt(later.Value, rest), c.Value)
	}
	rest, ok := restOfPath(later.Path, c.place)
	part := ValueAt(c.Value, rest)
	return ok && part != nil && !reflect.DeepEqual(part, later.Value)
}

// IsWithin reports whether a JSON pointer is of a value, or of a part of it.
func IsWithin(pointer, outer string) bool {
	_, ok := restOfPath(pointer, outer)
	return ok
}

// restOfPath is what a path has more than one that leads to it.
func restOfPath(path, outer string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, outer)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// shifted is the path after an element of a list came or went.
func shifted(path, element string, shift int) string {
	list := element[:strings.LastIndexByte(element, '/')+1]
	rest, ok := strings.CutPrefix(path, list)
	index, below, _ := strings.Cut(rest, "/")
	own, err := strconv.Atoi(index)
	begin, _ := strconv.Atoi(strings.TrimPrefix(element, list))
	if !ok || err != nil || own < begin || own == begin && shift < 0 {
		return path
	}
	return strings.TrimSuffix(fmt.Sprintf("%s%d/%s", list, own+shift, below), "/")
}
