package manifest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// decode fills an object as the API server does: keys are case-sensitive and
// unknown ones ignored. Keys that are there twice are refused: which of the two
// counts would be a guess.
func decode(data []byte, into any) error {
	duplicates, err := kjson.UnmarshalStrict(data, into, kjson.DisallowDuplicateFields)
	if err == nil && len(duplicates) > 0 {
		err = fmt.Errorf("%w: remove one", duplicates[0])
	}
	return err
}

// badBundles are the CA bundles that are not base64: broken ones by their paths, and what
// stands for one that is filled in later.
type badBundles struct {
	broken       []*field.Path
	placeholders []string
}

// decodeObject decodes an object without the CA bundles that are not base64: the rest of
// a webhook can be audited without.
func decodeObject(data []byte, into metav1.Object) (bad badBundles, p *problem) {
	err := decode(data, into)
	if _, isBundle := errors.AsType[base64.CorruptInputError](err); isBundle { // no other field is base64
		var tree any
		if err = decode(data, &tree); err == nil {
			bad.cut(tree, nil)
			data, err = json.Marshal(tree)
		}
		err = cmp.Or(err, decode(data, into))
	}
	if err != nil {
		return bad, decodeProblem(data, err)
	}
	return bad, nil
}

// placeholderBundle matches what tools replace: ${CA_BUNDLE}, {{ .Values.ca }}, <CA>, XYZ.
var placeholderBundle = regexp.MustCompile(`^\s*(\$[({]?\w.*|\{\{.*\}\}|<.*>|[\w.-]{1,40})\s*$`)

func (b *badBundles) cut(value any, path *field.Path) {
	switch v := value.(type) {
	case []any:
		for i, element := range v {
			b.cut(element, path.Index(i))
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			b.cut(v[key], path.Child(key))
		}
		bundle, _ := v["caBundle"].(string)
		_, err := base64.StdEncoding.DecodeString(bundle)
		switch {
		case err == nil:
		case placeholderBundle.MatchString(bundle):
			v["caBundle"] = base64.StdEncoding.EncodeToString([]byte("x")) // as one that is not known: Authority.Blanked
			b.placeholders = append(b.placeholders, strings.TrimSpace(bundle))
		default:
			delete(v, "caBundle")
			b.broken = append(b.broken, path.Child("caBundle"))
		}
	}
}

// emptyBundle is the line break that generators write for an injector to replace.
const emptyBundle = "Cg=="

// emptyBundles are such bundles, one for each.
func emptyBundles(data []byte) []string {
	return slices.Repeat([]string{emptyBundle}, bytes.Count(data, []byte(`"caBundle":"`+emptyBundle+`"`)))
}

// decodeProblem says which value has the wrong type, and what it must be, in the
// words of the API server's validation.
func decodeProblem(data []byte, err error) *problem {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return problemf(1, "%v", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	path, value := valueAt(d, nil, mismatch.Offset)
	if text, ok := value.(string); ok {
		value = text[:min(len(text), 80)]
	}
	p := problemf(1+bytes.Count(data[:min(int(mismatch.Offset), len(data))], []byte("\n")),
		"%v", field.Invalid(path, value, "must be of type "+typeName(mismatch.Type)))
	p.field = path
	if mismatch.Type.Kind() == reflect.String {
		p.message += ": write it in quotes"
	}
	return p
}

// valueAt reads the next value and returns the one in it, or itself, that the
// decoder has read up to the offset, with its path: a scalar to its end, of an
// object or array the first character.
func valueAt(d *json.Decoder, path *field.Path, offset int64) (*field.Path, any) {
	start, _ := d.Token() // what is no JSON is not decoded
	switch delim, isDelim := start.(json.Delim); {
	case d.InputOffset() >= offset && isDelim:
		return path, field.OmitValueType{}
	case d.InputOffset() >= offset:
		return path, start
	case !isDelim:
		return nil, nil
	default:
		for i := 0; d.More(); i++ {
			child := path.Index(i)
			if delim == '{' {
				key, _ := d.Token()
				child = path.Child(fmt.Sprint(key))
			}
			if found, value := valueAt(d, child, offset); found != nil {
				return found, value
			}
		}
		_, _ = d.Token()
		return nil, nil
	}
}

// typeName names a type as an OpenAPI schema does; bytes are a string in base64.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "array"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "object"
	case reflect.Bool:
		return "boolean"
	}
	return t.Kind().String()
}
