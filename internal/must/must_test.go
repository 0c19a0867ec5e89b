package must

import (
	"errors"
	"testing"
)

type recorder struct {
	testing.TB
	ended bool
}

func (r *recorder) Helper()      {}
func (r *recorder) Fatal(...any) { r.ended = true }

func TestErrorsEndTheTest(t *testing.T) {
	for _, err := range []error{nil, errors.New("x")} {
		r := &recorder{TB: t}
		if value := Get(7, err)(r); value != 7 || r.ended != (err != nil) {
			t.Errorf("%v: value %d, ended %v", err, value, r.ended)
		}
	}
}
