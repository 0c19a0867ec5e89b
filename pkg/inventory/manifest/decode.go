package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// decode fills an object as the API server does: keys are case-sensitive and
// unknown ones ignored. Keys that are there twice are refused: which of the two
// counts would be a guess.
func decode(data []byte, into metav1.Object) error {
	duplicates, err := kjson.UnmarshalStrict(data, into, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return err
	case len(duplicates) > 0:
		return fmt.Errorf("%w: remove one", duplicates[0])
	}
	// Who owns which field is not read, and much of what an object is made of.
	fields := into.GetManagedFields()
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	return nil
}

// decodeProblem says which value has the wrong type, and what it must be.
func decodeProblem(data []byte, err error) *problem {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return problemf(1, "%v", err)
	}
	before := data[:min(int(mismatch.Offset), len(data))]
	value := before[bytes.LastIndexAny(before[:len(before)-1], "{,")+1:]
	p := problemf(1+bytes.Count(before, []byte("\n")), "%s: must be of type %s, not %.80s", mismatch.Field, mismatch.Type, value)
	if mismatch.Type.Kind() == reflect.String {
		p.message += ": write it in quotes"
	}
	return p
}
