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
func decode(data []byte, target any) error {
	duplicates, err := kjson.UnmarshalStrict(data, target, kjson.DisallowDuplicateFields)
	if err == nil && len(duplicates) > 0 {
		err = fmt.Errorf("%w: remove one", duplicates[0])
	}
	return err
}

// badBundles are the CA bundles that are not base64: why the broken ones cannot be read,
// and what stands for one that is filled in later.
type badBundles struct {
	broken       []*problem
	placeholders []string
}

// decodeObject decodes an object without the CA bundles that are not base64: the rest of
// a webhook can be audited without. One that is null is one that is empty.
func (v value) decodeObject(object metav1.Object) (bad badBundles, p *problem) {
	data := v.json
	err := decode(data, object)
	_, isBundle := errors.AsType[base64.CorruptInputError](err) // no other field is base64
	if isBundle || bytes.Contains(data, []byte(`"caBundle":null`)) {
		var tree any
		if err = decode(data, &tree); err == nil {
			bad.cut(tree, nil, v.showing(data))
			data, err = json.Marshal(tree)
		}
		err = cmp.Or(err, decode(data, object))
	}
	if err != nil {
		return bad, v.decodeProblem(err)
	}
	return bad, nil
}

// placeholderBundle matches what tools replace: ${CA_BUNDLE}, {{ .Values.ca }}, <CA>, XYZ.
var placeholderBundle = regexp.MustCompile(`^\s*(\$[({]?\w.*|\{\{.*\}\}|<.*>|[\w.-]{1,40})\s*$`)

func (b *badBundles) cut(value any, path *field.Path, place place) {
	switch v := value.(type) {
	case []any:
		for i, element := range v {
			b.cut(element, path.Index(i), place.part(i))
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			b.cut(v[key], path.Child(key), place.part(key))
		}
		if null, stated := v["caBundle"]; stated && null == nil {
			v["caBundle"] = "" // the field is its manager's all the same
		}
		bundle, _ := v["caBundle"].(string)
		_, err := base64.StdEncoding.DecodeString(bundle)
		switch {
		case err == nil:
		case placeholderBundle.MatchString(bundle):
			v["caBundle"] = base64.StdEncoding.EncodeToString([]byte("xx")) // as one that is not known: Authority.Blanked
			b.placeholders = append(b.placeholders, strings.TrimSpace(bundle))
		default:
			delete(v, "caBundle")
			b.broken = append(b.broken, problemf(place.part("caBundle").line, "%s: must be base64", path.Child("caBundle")))
		}
	}
}

// emptyBundle is the line break that generators write for an injector to replace.
const emptyBundle = "Cg=="

// emptyBundles are such bundles, one for each.
func emptyBundles(data []byte) []string {
	return slices.Repeat([]string{emptyBundle}, bytes.Count(data, []byte(`"caBundle":"`+emptyBundle+`"`)))
}

// decodeProblem says which field has the wrong type.
func (v value) decodeProblem(err error) *problem {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return problemf(v.line, "%v", err)
	}
	path, at := fieldAt(json.NewDecoder(bytes.NewReader(v.json)), nil, v.showing(v.json), mismatch.Offset)
	p := problemf(at.line, "%s: must be of type %s, not %s", path, mismatch.Type, mismatch.Value)
	if mismatch.Type.Kind() == reflect.String {
		p.message += ": write it in quotes"
	}
	return p
}

// fieldAt reads the next value and returns the path and place of the one in it, or of
// itself, that the decoder has read up to the offset: a scalar to its end, of an object or
// array the first character. The path is nil where none is.
func fieldAt(d *json.Decoder, path *field.Path, place place, offset int64) (*field.Path, place) {
	start, _ := d.Token() // what is no JSON is not decoded
	delim, isDelim := start.(json.Delim)
	switch {
	case d.InputOffset() >= offset:
		return path, place
	case !isDelim:
		return nil, place
	}
	for i := 0; d.More(); i++ {
		child, part := path.Index(i), place.part(i)
		if delim == '{' {
			key, _ := d.Token()
			child, part = path.Child(fmt.Sprint(key)), place.part(key)
		}
		if found, place := fieldAt(d, child, part, offset); found != nil {
			return found, place
		}
	}
	_, _ = d.Token()
	return nil, place
}
