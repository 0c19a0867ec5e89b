// Package dryrun calls the webhooks of one request as an API server does in a dry run:
// what each changes of the object, and what the API server makes of that. How a review
// gets to a webhook is for the caller to say.
package dryrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Caller is how reviews get to webhooks.
type Caller struct {
	// Send sends a review, and returns the body of the answer. The error completes
	// "failed to call webhook: ", but where it wraps ErrNotCalled.
	Send func(ctx context.Context, w *inventory.Webhook, review []byte) ([]byte, error)
	// Skip says why a webhook is not called, "" where it is.
	Skip func(w *inventory.Webhook) string
	// Types are those of the API server's own kinds, as far as they are known.
	Types *runtime.Scheme
	// Schema is that of a custom resource in the version of the request, nil of other kinds.
	Schema *structuralschema.Structural
	// Apply has the lists and maps of the kind, for an apply.
	Apply managedfields.TypeConverter
}

// ErrNotCalled says that an API server would get an answer where this program does not.
var ErrNotCalled = errors.New("not called from here")

// Request is a request whose webhooks are called.
type Request struct {
	admission.Request
	// Sent is the object that is written, nil for a delete; Stored is the object as it is.
	Sent, Stored map[string]any
	// IsApplied says that what is sent is merged into the stored object.
	IsApplied bool
	User      authenticationv1.UserInfo
	Options   map[string]any
	// Answer is what the API server answers to the same request as a dry run.
	Answer Answer
}

// Answer is that of an API server to a dry run.
type Answer struct {
	Code     int            `json:"code"`
	Message  string         `json:"message,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
	Object   map[string]any `json:"-"`
}

// Outcome is what became of the request at one step.
type Outcome string

// The outcomes. Ignored is a failed call with failurePolicy Ignore; Refused is what the API
// server refuses whatever the failurePolicy.
const (
	Allowed   Outcome = "allowed"
	Denied    Outcome = "denied"
	Failed    Outcome = "failed"
	Ignored   Outcome = "failedOpen"
	Refused   Outcome = "refused"
	NotCalled Outcome = "notCalled"
)

// Step is a call of a webhook, or a mutating policy.
type Step struct {
	inventory.Ref
	Round        int                `json:"round" jsonschema:"Round is 1 where it is called again, as the object was changed after it."`
	Outcome      Outcome            `json:"outcome" jsonschema:"Outcome is allowed, denied, failed, failedOpen, refused or notCalled."`
	Milliseconds int64              `json:"milliseconds"`
	Message      string             `json:"message,omitempty" jsonschema:"Message is the error that clients get, or why it is not called."`
	Warnings     []string           `json:"warnings,omitempty"`
	Patch        []inventory.Change `json:"patch,omitempty" jsonschema:"Patch is what it changed."`
	Again        []inventory.Change `json:"again,omitempty" jsonschema:"Again is what it changed of its own output: it is not idempotent."`
	Maybe        string             `json:"maybe,omitempty" jsonschema:"Maybe is why an API server may not call it."`
}

// Difference is a field that the API server has otherwise.
type Difference struct {
	Path    string `json:"path"`
	Webhook string `json:"webhook,omitempty" jsonschema:"Webhook set the field here; absent of what the API server set: defaults, built-in plugins, policies."`
}

// Result is what became of the request.
type Result struct {
	Steps       []Step       `json:"steps" jsonschema:"Steps are mutating policies and the calls, in their order; validating webhooks are called at once."`
	Refused     string       `json:"refused,omitempty" jsonschema:"Refused is the error that clients get; absent where the request is let pass."`
	Server      Answer       `json:"server" jsonschema:"Server is the answer of the API server to the same request with dryRun=All."`
	Differences []Difference `json:"differences" jsonschema:"Differences are the fields that the API server has otherwise, after its dry run."`
	// Stored is the object as it was; Before and After are before and after the webhooks.
	Stored, Before, After map[string]any `json:"-"`
}

type run struct {
	Request
	matcher *admission.Matcher
	Caller
	result Result
	object map[string]any
	// reinvocations are to be called in round 1, where any changed the object; invoked may be.
	reinvocations, invoked map[inventory.Ref]bool
	changed                bool
}

// Call sends the request through its chain. Each mutating webhook that changes the object
// gets its own output as well.
func Call(ctx context.Context, m *admission.Matcher, r Request, c Caller) Result {
	x := &run{
		Request: r, matcher: m, Caller: c, result: Result{Server: r.Answer, Stored: r.Stored},
		reinvocations: map[inventory.Ref]bool{}, invoked: map[inventory.Ref]bool{},
	}
	var err error
	if x.object, err = x.firstObject(); err != nil {
		x.result.Refused = err.Error()
	}
	x.result.Before = x.object
	x.round(ctx, 0)
	if x.changed {
		x.round(ctx, 1)
	}
	x.result.After = x.object
	x.validate(ctx)
	inventory.MarkOverwritten(lists.Map(x.result.Steps,
		func(s Step) inventory.Patch { return inventory.Patch{Webhook: s.Name, Changes: s.Patch} }))
	x.compare()
	return x.result
}

// firstObject is the object as admission begins with it; nil of a delete.
func (x *run) firstObject() (map[string]any, error) {
	object, err := x.Sent, error(nil)
	if x.IsApplied {
		object, err = x.merged()
	}
	if err != nil || object == nil {
		return nil, err
	}
	if object, err = x.decode(object); err != nil {
		return nil, err
	}
	object = x.wiped(x.withDefaults(x.pruned(object)))
	if metadata := mapAt(object, "metadata"); metadata != nil && x.Namespace != "" && !x.Resource.IsNamespaces() {
		metadata["namespace"] = x.Namespace
	}
	object = x.withPlugins(object)
	return x.decode(base(object, x.Answer.Object)) // in the form that it has after a patch
}

// seenRequest is the request as admission has it now.
func (x *run) seenRequest() admission.Request {
	if x.object == nil {
		return x.WithObject(x.Stored, x.Stored)
	}
	return x.WithObject(x.object, x.Stored)
}

// round asks the mutating policies, then the mutating webhooks. Source: Dispatch in
// k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.
func (x *run) round(ctx context.Context, number int) {
	output := x.object
	x.policies(number)
	if number == 1 && !reflect.DeepEqual(output, x.object) {
		x.requireAgain()
	}
	for _, w := range x.matcher.Snapshot.Webhooks {
		if w.Type != inventory.Mutating || x.result.Refused != "" || number == 1 && !x.reinvocations[w.Ref] {
			continue
		}
		step, called := x.begin(w, number)
		if !called {
			continue
		}
		if step.Outcome == "" && x.callMutating(ctx, w, &step) {
			x.requireAgain()
			x.changed = true
		}
		x.add(step)
		if w.Reinvocation == admissionregistrationv1.IfNeededReinvocationPolicy {
			x.invoked[w.Ref] = true
		}
	}
}

// requireAgain has all that were called before and may be called again.
func (x *run) requireAgain() {
	maps.Copy(x.reinvocations, x.invoked)
	clear(x.invoked)
}

// policies are the mutating ones, as far as they can be computed.
func (x *run) policies(number int) {
	if x.object == nil {
		return
	}
	for _, p := range x.matcher.Snapshot.Policies {
		for _, b := range p.Bindings {
			if p.Type != inventory.MutatingPolicy ||
				number == 1 && p.Reinvocation != admissionregistrationv1.IfNeededReinvocationPolicy {
				continue
			}
			request, step := x.seenRequest(), Step{Ref: p.Ref, Round: number, Outcome: Allowed}
			verdict := x.matcher.MatchPolicy(request, p, b)
			if verdict.Match == admission.No {
				continue
			}
			changes, after, err := request.Mutations(admission.PolicyStep{Policy: p, Binding: b, Verdict: verdict})
			if err == nil {
				after, err = x.decode(after)
			}
			if err != nil {
				step.Outcome, step.Message = NotCalled, "its changes cannot be computed here: "+err.Error()
			} else {
				step.Patch = changes
				x.changed = x.changed || !reflect.DeepEqual(x.object, after)
				x.object = x.withDefaults(after)
			}
			x.result.Steps = append(x.result.Steps, step)
		}
	}
}

// begin is the step of a webhook, and whether it is called for the object as it is now.
func (x *run) begin(w *inventory.Webhook, number int) (Step, bool) {
	request := x.seenRequest()
	verdict := request.Match(w)
	step := Step{Ref: w.Ref, Round: number}
	if verdict.Match == admission.Maybe {
		step.Maybe = verdict.Detail
	}
	kind := request.KindFor(w)
	switch {
	case verdict.Refused:
		step.Outcome, step.Message = Refused, verdict.Detail
	case w.SideEffects != admissionregistrationv1.SideEffectClassNone &&
		w.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun:
		step.Outcome, step.Message = NotCalled, fmt.Sprintf("it declares sideEffects %s, and gets no dry run", w.SideEffects)
	case x.Skip(w) != "":
		step.Outcome, step.Message = NotCalled, x.Skip(w)
	case kind != x.Kind:
		step.Outcome, step.Message = NotCalled, fmt.Sprintf("it gets the object as %s, which the API server alone converts to", kind)
	}
	return step, verdict.Match != admission.No
}

// add adds a step; the first that refuses is the answer.
func (x *run) add(s Step) {
	if x.result.Refused == "" && (s.Outcome == Denied || s.Outcome == Failed || s.Outcome == Refused) {
		x.result.Refused = s.Message
	}
	x.result.Steps = append(x.result.Steps, s)
}

// callMutating calls a mutating webhook, and again with what it made of the object. It
// reports whether the API server takes the object for changed: it does not yet have the
// defaults of what the patch replaces.
func (x *run) callMutating(ctx context.Context, w *inventory.Webhook, step *Step) (changed bool) {
	patch := x.call(ctx, w, step)
	operations, err := jsonpatch.DecodePatch(patch)
	if len(patch) == 0 || err == nil && len(operations) == 0 {
		return false
	}
	if err != nil {
		x.fail(w, step, fmt.Errorf("received undecodable patch in webhook response: %w", err))
		return false
	}
	if x.object == nil {
		step.Outcome, step.Message = Refused, fmt.Sprintf("admission webhook %q attempted to modify the object, which is not supported for this operation", w.Name)
		return false
	}
	after, changes, err := x.patched(patch)
	if err != nil {
		step.Outcome, step.Message = Refused, fmt.Sprintf("its patch does not apply: %v", err)
		return false
	}
	input := x.object
	changed = !reflect.DeepEqual(input, after)
	x.object, step.Patch = x.withDefaults(after), changes
	if len(inventory.Differences(input, x.object)) > 0 {
		step.Again = x.changedAgain(ctx, w)
	}
	return changed
}

// changedAgain is what a webhook changes of its own output; nothing where the output is such
// that the API server does not call it again.
func (x *run) changedAgain(ctx context.Context, w *inventory.Webhook) []inventory.Change {
	second, isCalled := x.begin(w, 1)
	if !isCalled || second.Outcome != "" {
		return nil
	}
	patch := x.call(ctx, w, &second)
	if second.Outcome != Allowed || len(patch) == 0 {
		return nil
	}
	secondOutput, changes, err := x.patched(patch)
	if err != nil || len(inventory.Differences(x.object, x.withDefaults(secondOutput))) == 0 {
		return nil
	}
	return changes
}

// patched is the object as the API server decodes it after the patch, and its changes.
func (x *run) patched(patch []byte) (map[string]any, []inventory.Change, error) {
	after, changes, err := inventory.ApplyPatch(x.object, patch)
	if err == nil {
		operations, _ := jsonpatch.DecodePatch(patch) // as above
		text, _ := json.Marshal(x.object)
		text, _ = operations.Apply(text)
		after, err = x.decodeText(after, text)
	}
	return after, changes, err
}

// call sends a review of the object and fills in the step. It returns the patch of the answer.
func (x *run) call(ctx context.Context, w *inventory.Webhook, step *Step) []byte {
	review, err := x.newReview(w, x.object)
	if err != nil {
		x.fail(w, step, err)
		return nil
	}
	body, _ := json.Marshal(review)
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	began := time.Now()
	answer, err := x.Send(ctx, w, body)
	step.Milliseconds = time.Since(began).Milliseconds()
	if errors.Is(err, ErrNotCalled) {
		step.Outcome, step.Message = NotCalled, strings.TrimSuffix(err.Error(), ": "+ErrNotCalled.Error())
		return nil
	}
	var response *admissionv1.AdmissionResponse
	if err != nil {
		err = fmt.Errorf("failed to call webhook: %w", cmp.Or(ctx.Err(), err))
	} else {
		response, err = verify(answer, review, w.Type)
	}
	if err != nil {
		x.fail(w, step, err)
		return nil
	}
	step.Outcome, step.Warnings = Allowed, response.Warnings
	if !response.Allowed {
		step.Outcome, step.Message = Denied, StatusText(webhookerrors.ToStatusErr(w.Name, response.Result).Status())
		return nil
	}
	return response.Patch
}

// StatusText is the message of a status, with the causes that it has besides.
func StatusText(status metav1.Status) string {
	var out strings.Builder
	out.WriteString(status.Message)
	for _, cause := range ptr.Deref(status.Details, metav1.StatusDetails{}).Causes {
		if !strings.Contains(status.Message, cause.Message) {
			out.WriteString("; " + strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
		}
	}
	return out.String()
}

// fail is a call without a valid answer.
func (x *run) fail(w *inventory.Webhook, step *Step, err error) {
	step.Outcome, step.Message = Failed, fmt.Sprintf("failed calling webhook %q: %v", w.Name, err)
	if !w.FailsClosed() {
		step.Outcome = Ignored
	}
}

// validate calls the validating webhooks at once, with what the API server would store.
func (x *run) validate(ctx context.Context) {
	if x.result.Refused != "" {
		return
	}
	switch {
	case x.object != nil && x.Answer.Object != nil:
		x.object = x.Answer.Object
	case x.object != nil:
		x.object = x.prepared()
	}
	isInvalid := x.Answer.Code == http.StatusUnprocessableEntity && strings.Contains(x.Answer.Message, " is invalid: ")
	var steps []*Step
	var calls sync.WaitGroup
	for _, w := range x.matcher.Snapshot.Webhooks {
		if w.Type != inventory.Validating {
			continue
		}
		step, called := x.begin(w, 0)
		if !called {
			continue
		}
		steps = append(steps, &step)
		switch {
		case step.Outcome != "":
		case isInvalid:
			step.Outcome, step.Message = NotCalled, "before that, the API server finds the object invalid"
		default:
			calls.Go(func() { x.call(ctx, w, &step) })
		}
	}
	calls.Wait()
	for _, s := range steps {
		x.add(*s)
	}
}

// ofServer are fields that the API server alone sets, after the webhooks.
var ofServer = []string{"/metadata/name", "/metadata/managedFields", "/metadata/uid", "/metadata/creationTimestamp", "/metadata/resourceVersion", "/metadata/generation", "/metadata/selfLink", "/status"}

func (x *run) compare() {
	x.result.Differences = []Difference{}
	if x.result.After == nil || x.Answer.Object == nil || x.result.Refused != "" {
		return
	}
	for _, p := range inventory.Differences(x.result.After, x.Answer.Object) {
		isWithin := func(outer string) bool { return inventory.IsWithin(p.Pointer, outer) }
		sets := func(c inventory.Change) bool { return isWithin(c.Path) || inventory.IsWithin(c.Path, p.Pointer) }
		if slices.ContainsFunc(ofServer, isWithin) {
			continue
		}
		d := Difference{Path: p.Pointer}
		for _, s := range x.result.Steps {
			if slices.ContainsFunc(s.Patch, sets) {
				d.Webhook = s.Name
			}
		}
		x.result.Differences = append(x.result.Differences, d)
	}
}
