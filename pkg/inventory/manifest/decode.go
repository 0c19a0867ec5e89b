package manifest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// decode fills an object as the API server does: keys are case-sensitive and
// unknown ones ignored. Keys that are there twice are refused: which of the two
// counts would be a guess. Warnings are problems that leave the object readable.
func decode(data []byte, into metav1.Object) (warnings []*problem, p *problem) {
	duplicates, err := kjson.UnmarshalStrict(data, into, kjson.DisallowDuplicateFields)
	if _, invalid := errors.AsType[base64.CorruptInputError](err); invalid {
		data, warnings = withoutBundles(data)
		duplicates, err = kjson.UnmarshalStrict(data, into, kjson.DisallowDuplicateFields)
	}
	mismatch, isMismatch := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case isMismatch:
		return warnings, typeProblem(data, mismatch)
	case err != nil:
		return warnings, problemf(1, "%v", err)
	case len(duplicates) > 0:
		return warnings, duplicateProblem(data, duplicates[0])
	}
	// Who owns which field is not read, and much of what an object is made of.
	fields := into.GetManagedFields()
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	return warnings, nil
}

// withoutBundles empties the CA bundles that are not base64, and says where they
// are: the rest of a webhook can be judged without.
func withoutBundles(data []byte) ([]byte, []*problem) {
	var out []*problem
	data = slices.Clone(data)
	walkJSON(data, located{span: valueAt(data, 0)}, func(v located) bool {
		text := data[v.start:v.end]
		if !strings.HasSuffix(v.path, "caBundle") || text[0] != '"' {
			return false
		}
		if _, err := base64.StdEncoding.DecodeString(unquote(text)); err != nil {
			out = append(out, &problem{line: lineAt(data, v.start), path: v.path, message: fmt.Sprintf("not base64: %v", err)})
			copy(text, `""`+strings.Repeat(" ", len(text)-2))
		}
		return false
	})
	return data, out
}

// typeProblem says which value has the wrong type, and what it must be.
func typeProblem(data []byte, mismatch *json.UnmarshalTypeError) *problem {
	p := problemf(1, "%v", mismatch)
	walkJSON(data, located{span: valueAt(data, 0)}, func(v located) bool {
		text := data[v.start:v.end]
		is, must, known := typeOf(text), wanted(mismatch.Type), v.end
		if is == "a list" || is == "a mapping" {
			known = v.start + 1
		}
		if int64(known) < mismatch.Offset {
			return false
		}
		p = &problem{line: lineAt(data, v.start), path: v.path, message: fmt.Sprintf("%s where %s is wanted", is, must)}
		switch {
		case must != "a string":
		case is == "a number":
			p.message += fmt.Sprintf(": write %q in quotes", text)
		case is == "a boolean":
			p.message += ": write it in quotes"
		}
		return true
	})
	return p
}

func duplicateProblem(data []byte, duplicate error) *problem {
	p := problemf(1, "%v", duplicate)
	field, ok := errors.AsType[kjson.FieldError](duplicate)
	seen := false
	walkJSON(data, located{span: valueAt(data, 0)}, func(v located) bool {
		if !ok || v.path != field.FieldPath() {
			return false
		}
		p = problemf(lineAt(data, v.keyEnd), "the key %q is there twice: remove one", v.key)
		twice := seen
		seen = true
		return twice
	})
	return p
}

// wanted names a type of the API for an error message.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "base64 text"
		}
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	}
	return "a whole number in range"
}

// typeOf names the type of a JSON value for an error message.
func typeOf(value []byte) string {
	switch value[0] {
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case '[':
		return "a list"
	case '{':
		return "a mapping"
	}
	return "a number"
}
