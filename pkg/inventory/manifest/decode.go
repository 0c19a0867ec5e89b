package manifest

import (
	"bytes"
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
	w := newWalker(data)
	before := 0
	w.walk("", func(path string, token json.Token, isKey bool) bool {
		text, isString := token.(string)
		end := int(w.InputOffset())
		if isString && !isKey && strings.HasSuffix(path, "caBundle") {
			if _, err := base64.StdEncoding.DecodeString(text); err != nil {
				out = append(out, &problem{line: w.line(), path: path, message: fmt.Sprintf("not base64: %v", err)})
				start := before + bytes.IndexByte(data[before:end], '"')
				copy(data[start:end], `""`+strings.Repeat(" ", end-start-2))
			}
		}
		before = end
		return false
	})
	return data, out
}

// typeProblem says which value has the wrong type, and what it must be.
func typeProblem(data []byte, mismatch *json.UnmarshalTypeError) *problem {
	p := problemf(1, "%v", mismatch)
	w := newWalker(data)
	w.walk("", func(path string, token json.Token, isKey bool) bool {
		if isKey || w.InputOffset() < mismatch.Offset {
			return false
		}
		must := wanted(mismatch.Type)
		p = &problem{line: w.line(), path: path, message: fmt.Sprintf("%s where %s is wanted", tokenType(token), must)}
		if number, ok := token.(json.Number); ok && must == "a string" {
			p.message += fmt.Sprintf(": write %q in quotes", number)
		} else if _, ok := token.(bool); ok && must == "a string" {
			p.message += ": write it in quotes"
		}
		return true
	})
	return p
}

func duplicateProblem(data []byte, duplicate error) *problem {
	p := problemf(1, "%v", duplicate)
	field, ok := errors.AsType[kjson.FieldError](duplicate)
	if !ok {
		return p
	}
	w, seen := newWalker(data), false
	w.walk("", func(path string, token json.Token, isKey bool) bool {
		if !isKey || path != field.FieldPath() {
			return false
		}
		p = problemf(w.line(), "the key %q is there twice: remove one", token)
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

// tokenType names the type of a JSON value for an error message.
func tokenType(token json.Token) string {
	switch token.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case nil:
		return "null"
	}
	if token == json.Delim('[') {
		return "a list"
	}
	return "a mapping"
}

// metadataName returns the first name in the metadata of an object that cannot
// be decoded.
func metadataName(data []byte) string {
	name := ""
	newWalker(data).walk("", func(path string, token json.Token, isKey bool) bool {
		if path != "metadata.name" || isKey {
			return false
		}
		name, _ = token.(string)
		return true
	})
	return name
}
