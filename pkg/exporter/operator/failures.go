package operator

import (
	"errors"
	"maps"
	"slices"
)

// failures remembers which operations failed when they were last tried: one
// that is not due is not one that works again.
type failures struct {
	failing map[string]error
	// failed counts those that failed since the last report; recovered is
	// set if one succeeded again since.
	failed    int
	recovered bool
}

// note records how an operation ended.
func (f *failures) note(operation string, err error) {
	if err != nil {
		f.failing[operation] = err
		f.failed++
		return
	}
	if f.failing[operation] != nil {
		delete(f.failing, operation)
		f.recovered = true
	}
}

// keepOnly forgets the operations that are no longer this replica's.
func (f *failures) keepOnly(operation string) {
	for o := range f.failing {
		if o != operation {
			f.note(o, nil)
		}
	}
}

// report returns how many operations failed since the last report, and
// whether one works again.
func (f *failures) report() (failed int, recovered bool) {
	failed, recovered = f.failed, f.recovered
	f.failed, f.recovered = 0, false
	return failed, recovered
}

// err joins all that fails.
func (f *failures) err() error {
	var errs []error
	for _, operation := range slices.Sorted(maps.Keys(f.failing)) {
		errs = append(errs, f.failing[operation])
	}
	return errors.Join(errs...)
}
