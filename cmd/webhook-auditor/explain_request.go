package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// asWritten is what a file leaves open.
const asWritten = "the object is taken as it is written: a field that the API server may fill in is not known, and mutating webhooks may change it before the others see it"

// requestFlags describe a request, together with OPERATION RESOURCE [NAME].
type requestFlags struct {
	subject admission.Subject
	labels  string
	// labeled says whether the labels are known, given whether anything is.
	labeled, given func() bool
	// file holds the object of the request.
	file string
}

func registerRequest(flags *pflag.FlagSet) *requestFlags {
	r := &requestFlags{}
	flags.StringVarP(&r.subject.Namespace, "namespace", "n", "", "namespace of the object (default: default)")
	flags.StringVarP(&r.labels, "labels", "l", "", "object labels (k=v,…); use '' for no labels; unset means unknown")
	flags.StringVar(&r.subject.Version, "api-version", "", "API version of the request, for example v1 or apps/v1 (default: the preferred one)")
	flags.StringVarP(&r.file, "filename", "f", "", "file with the object (- for stdin); OPERATION defaults to create, RESOURCE to the kind of the object")
	r.labeled = func() bool { return flags.Changed("labels") }
	r.given = func() bool {
		return slices.ContainsFunc([]string{"namespace", "labels", "api-version", "filename"}, flags.Changed)
	}
	return r
}

// requestArguments are a request to explain, as the user names it.
type requestArguments struct {
	operation, resource string
	subject             admission.Subject
	notes               []string
}

// read reads OPERATION RESOURCE [NAME], and with --filename the object, which
// says what it is itself; without an operation, it is created.
func (r *requestFlags) read(args []string, s streams) (requestArguments, error) {
	if r.file == "" {
		if len(args) < 2 || len(args) > 3 {
			return requestArguments{}, usageError{errors.New("explain: must be given OPERATION RESOURCE[/SUB] [NAME], for example: webhook-auditor explain create pods -n default; or a CHECK, -f FILE, or --error TEXT")}
		}
		if err := arguments.CheckOperation(args[0]); err != nil {
			return requestArguments{}, usageError{fmt.Errorf("explain: %w", err)}
		}
		return r.describe(requestArguments{operation: args[0], resource: args[1], subject: r.subject}, args[2:])
	}
	if len(args) > 3 {
		return requestArguments{}, usageError{fmt.Errorf("explain: unexpected argument %q", args[3])}
	}
	object, err := r.object(s)
	if err != nil {
		return requestArguments{}, err
	}
	a := requestArguments{operation: "create", resource: qualified(object), subject: r.subject, notes: []string{asWritten}}
	a.subject.Object = object
	if len(args) > 0 {
		a.operation = args[0]
	}
	if len(args) > 1 {
		a.resource = args[1]
	} else {
		a.subject.Version = cmp.Or(a.subject.Version, stringOf(object, "apiVersion"))
	}
	return r.describe(a, args[min(2, len(args)):])
}

// describe adds the name and the labels of the object.
func (r *requestFlags) describe(a requestArguments, name []string) (requestArguments, error) {
	if len(name) > 0 {
		a.subject.Name = name[0]
	}
	if !r.labeled() {
		return a, nil
	}
	set, err := labels.ConvertSelectorToLabelsMap(r.labels)
	if err != nil {
		return requestArguments{}, usageError{fmt.Errorf("--labels %q: %w", r.labels, err)}
	}
	a.subject.Labels = set
	return a, nil
}

// chain is what becomes of the request where the Snapshot was taken.
func (a requestArguments) chain(known knowledge) (admission.Chain, error) {
	a.subject.User = known.user
	request, err := a.request(known.Matcher)
	if err != nil {
		return admission.Chain{}, err
	}
	notes := a.notes
	if known.stored != nil && request.Name != "" && (request.Operation == admission.Update || request.Operation == admission.Delete) {
		note := ""
		if a.subject.Stored, a.subject.Absent, note = known.stored(request); note != "" {
			notes = append(notes, note)
		}
		if request, err = a.request(known.Matcher); err != nil {
			return admission.Chain{}, err
		}
	}
	if len(known.Snapshot.Inputs) == 0 && !known.Snapshot.PoliciesKnown {
		notes = append(notes, "not all admission policies were read: they may refuse or change the request as well")
	}
	request.Notes = slices.Concat(request.Notes, notes)
	return known.Chain(request), nil
}

func (a requestArguments) request(matcher *admission.Matcher) (admission.Request, error) {
	request, err := arguments.Request(matcher, a.operation, a.resource, a.subject)
	if notServed := (arguments.NotServedError{}); errors.As(err, &notServed) {
		return admission.Request{}, fmt.Errorf("explain: %w", err)
	}
	if err != nil {
		return admission.Request{}, usageError{fmt.Errorf("explain: %w", err)}
	}
	return request, nil
}
