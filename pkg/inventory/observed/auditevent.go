package observed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// auditEvent is what is read of an event of audit.k8s.io/v1.
type auditEvent struct {
	APIVersion, Stage, Level, AuditID, Verb, RequestURI string
	User, ImpersonatedUser                              struct{ Username string }
	ObjectRef                                           struct {
		Resource, Namespace, Name, APIGroup, APIVersion, Subresource string
	}
	ResponseStatus struct {
		Code    int
		Message string
	}
	RequestObject  json.RawMessage
	StageTimestamp time.Time
	Annotations    map[string]string
	Items          []json.RawMessage
}

// stageTime is the time of an event; zero where the line has none.
func stageTime(line []byte) time.Time {
	_, rest, _ := bytes.Cut(line, []byte(`"stageTimestamp":`))
	content, _, _ := bytes.Cut(bytes.TrimLeft(rest, ` "`), []byte(`"`))
	t, _ := time.Parse(time.RFC3339Nano, string(content)) // zero in case of an error
	return t
}

const auditVersion = "audit.k8s.io/v1"

// quotedVersion is in each event; one that is a text within another JSON has its quotes escaped.
var quotedVersion = []byte(`"` + auditVersion + `"`)

var errNoEvent = errors.New("no event of " + auditVersion + " is in it")

// marks are in each line that concerns webhooks or policies, or deletes an object.
var marks = [][]byte{
	[]byte(`"delete"`),
	[]byte(".admission.k8s.io/"), []byte("admission webhook "), []byte("calling webhook "), []byte("conversion webhook "), []byte("denied request: "),
}

// line reads one line. Of lines that concern neither webhooks nor policies it
// checks no more than that each is one JSON object by its ends.
func (t *auditTable) line(line []byte) error {
	contains := func(mark []byte) bool { return bytes.Contains(line, mark) }
	switch {
	case line[0] != '{' || line[len(line)-1] != '}':
		return errors.New("it is no JSON object: cut off, or not of an audit log")
	case !contains(quotedVersion):
		return errNoEvent
	case slices.ContainsFunc(marks, contains) || t.logs.RequestID != "" && contains([]byte(t.logs.RequestID)):
		return t.event(line)
	}
	return nil
}

// event reads an event. Those before the response have neither the annotations nor, for
// a create, the name.
func (t *auditTable) event(content []byte) error {
	var e auditEvent
	if err := json.Unmarshal(content, &e); err != nil {
		return err
	}
	for _, item := range e.Items {
		t.covers(stageTime(item))
		if err := t.event(item); err != nil {
			return err
		}
	}
	if len(e.Items) == 0 && (e.APIVersion != auditVersion || e.Stage == "") {
		return errNoEvent
	}
	if e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		t.result.IsUnanswered = t.result.IsUnanswered || t.logs.RequestID != "" && e.AuditID == t.logs.RequestID
		return nil
	}
	name, isDeleted := generated.FindStringSubmatch(e.ObjectRef.Name), e.Verb == "delete" && e.ResponseStatus.Code < 400
	if isDeleted && name != nil {
		key := e.key()
		key.Outcome, key.Object = inventory.AuditDeleted, name[1]+"…"
		t.addRow(key, e.StageTimestamp)
	}
	calls, unreadCall := e.calls()
	outcomes, unreadFailure := e.outcomes(calls)
	for _, key := range outcomes {
		t.addRow(key, e.StageTimestamp)
	}
	for key := range e.changes(calls) {
		t.addRow(key, e.StageTimestamp)
	}
	// An API server that handles it for another one logs it as well, without the webhooks.
	if t.logs.RequestID != "" && e.AuditID == t.logs.RequestID && (t.result.Request == nil || len(outcomes) > 0) {
		t.result.Request = e.request(calls, outcomes)
	}
	return cmp.Or(unreadCall, unreadFailure)
}

// The keys of annotations. Source: k8s.io/apiserver
// pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go,
// pkg/admission/plugin/policy/validating/dispatcher.go.
const (
	keyValidatingFailedOpen = "failed-open.validating.webhook.admission.k8s.io/"
	keyValidationFailure    = "validation.policy.admission.k8s.io/validation_failure"
)

// annotationError says that an annotation of an event cannot be read; the event can.
type annotationError struct {
	key    string
	reason error
}

func (e annotationError) Error() string { return fmt.Sprintf("annotation %s: %v", e.key, e.reason) }

// callKeys are the keys of annotations of a call of a mutating webhook.
var callKeys = regexp.MustCompile(`^(failed-open\.mutation|mutation|patch)\.webhook\.admission\.k8s\.io/round_(\d+)_index_(\d+)$`)

// calls are those of mutating webhooks, in their order. Where an annotation cannot be read,
// the error says so, and the others count.
func (e *auditEvent) calls() (_ []inventory.AuditCall, problem error) {
	made := map[[2]int]inventory.AuditCall{}
	for key, value := range e.Annotations {
		groups := callKeys.FindStringSubmatch(key)
		if groups == nil {
			continue
		}
		var place [2]int
		for i := range place {
			place[i], _ = strconv.Atoi(groups[2+i]) // digits alone
		}
		call, found := made[place]
		if !found {
			call = inventory.AuditCall{Round: place[0], Index: place[1], Outcome: inventory.AuditUnchanged}
		}
		mutated := struct {
			*inventory.AuditCall
			Webhook *string
			Mutated bool
		}{&call, &call.Webhook, false}
		if groups[1] == "failed-open.mutation" {
			call.Webhook, call.Outcome = value, inventory.AuditFailedOpen
		} else if err := json.Unmarshal([]byte(value), &mutated); err != nil {
			problem = annotationError{key, err}
		}
		if mutated.Mutated { // a patch may set what is there
			call.Outcome = inventory.AuditMutated
		}
		call.Patch = slices.DeleteFunc(call.Patch, func(c inventory.Change) bool { return c.Operation == "test" })
		made[place] = call
	}
	inOrder := func(a, b inventory.AuditCall) int { return cmp.Or(a.Round-b.Round, a.Index-b.Index) }
	calls := slices.SortedFunc(maps.Values(made), inOrder)
	return slices.DeleteFunc(calls, func(c inventory.AuditCall) bool { return c.Webhook == "" }), problem
}

// changes are those of the calls, each once. A dry run changes nothing, nor does a request
// that was refused.
func (e *auditEvent) changes(calls []inventory.AuditCall) map[inventory.AuditKey]bool {
	out := map[inventory.AuditKey]bool{}
	if strings.Contains(e.RequestURI, "dryRun=") || e.ResponseStatus.Code >= 400 {
		return out
	}
	for _, call := range calls {
		if call.Outcome != inventory.AuditMutated {
			continue
		}
		key := e.key()
		key.Series = inventory.Series{Type: inventory.Mutating, Name: call.Webhook}
		key.Outcome = inventory.AuditChanged
		key.Object, key.Owner = e.object()
		if call.Patch == nil {
			out[key] = true
		}
		for _, c := range call.Patch {
			key.Change, key.Path = c.Operation, inventory.GeneralPath(c.Path)
			out[key] = true
		}
	}
	return out
}

// generated matches a name that the API server generates.
var generated = regexp.MustCompile(`^(.*)[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// object is the name of the object, with … and its owner where the API server generates it.
func (e *auditEvent) object() (name, owner string) {
	var sent struct {
		Metadata struct {
			GenerateName    string
			OwnerReferences []struct{ UID string }
		}
	}
	if e.ObjectRef.Name != "" || json.Unmarshal(e.RequestObject, &sent) != nil || sent.Metadata.GenerateName == "" {
		return e.ObjectRef.Name, ""
	}
	for _, r := range sent.Metadata.OwnerReferences {
		owner = r.UID
	}
	return sent.Metadata.GenerateName + "…", owner
}

type keysBySeries = map[inventory.Series]inventory.AuditKey

// outcomes are those of the calls, of the annotations and of the message of the response: of
// one webhook or policy, the worst.
func (e *auditEvent) outcomes(calls []inventory.AuditCall) (out keysBySeries, problem error) {
	out = keysBySeries{}
	note := func(webhookType inventory.Type, name string, outcome inventory.AuditOutcome, message string) {
		key := e.key()
		key.Series, key.Outcome = inventory.Series{Type: webhookType, Name: name}, outcome
		rank := func(k inventory.AuditKey) int { return slices.Index(inventory.AuditOutcomes, k.Outcome) }
		if before, found := out[key.Series]; !found || rank(key) < rank(before) {
			key.Message = e.pattern(message)
			out[key.Series] = key
		}
	}
	for _, c := range calls {
		note(inventory.Mutating, c.Webhook, c.Outcome, "")
	}
	for key, value := range e.Annotations {
		switch {
		case strings.HasPrefix(key, keyValidatingFailedOpen):
			note(inventory.Validating, value, inventory.AuditFailedOpen, "")
		case key == keyValidationFailure:
			var failures []struct{ Policy, Message string }
			if err := json.Unmarshal([]byte(value), &failures); err != nil {
				problem = annotationError{key, err}
			}
			for _, f := range failures {
				note(inventory.ValidatingPolicy, f.Policy, inventory.AuditViolated, f.Message)
			}
		}
	}
	if r := e.refusal(calls); r.Name != "" {
		note(r.Type, r.Name, r.Outcome, r.Message)
	}
	return out, problem
}

// refusals are how messages begin that name what refused the request, with the type of
// it where it can be but one. The prefix of a policy's names the object.
var refusals = []struct {
	*regexp.Regexp
	webhookType inventory.Type
	outcome     inventory.AuditOutcome
}{
	{regexp.MustCompile(`^admission webhook "([^"]+)" denied the request(?:: )?`), "", inventory.AuditDenied},
	{regexp.MustCompile(`^(?:Internal error occurred: )?failed calling webhook "([^"]+)": `), "", inventory.AuditFailed},
	{regexp.MustCompile(`^(?:Internal error occurred: )?admission webhook "([^"]+)" `), "", inventory.AuditFailed},
	{regexp.MustCompile(`^(?:\S+ "[^"]*" is forbidden: )?ValidatingAdmissionPolicy '([^']+)' (?:with binding '[^']*' )?denied request: `), inventory.ValidatingPolicy, inventory.AuditDenied},
	{regexp.MustCompile(`^(?:\S+ "[^"]*" is forbidden: )?policy ['"]([^'"]+)['"] (?:with binding ['"][^'"]*['"] )?denied request: `), inventory.MutatingPolicy, inventory.AuditDenied},
	{regexp.MustCompile(`^(?:Internal error occurred: |failed to prune fields: .*: )?conversion (?:webhook )?for (\S+), Kind=\w+ (?:failed: |returned )`), inventory.Conversion, inventory.AuditFailed},
}

// refusal is what refused the request, by the start of the message: what follows is what a
// webhook writes. A mutating webhook that does is the last one that is called.
func (e *auditEvent) refusal(calls []inventory.AuditCall) (out inventory.AuditKey) {
	if e.ResponseStatus.Code < 400 {
		return out
	}
	for _, r := range refusals {
		groups := r.FindStringSubmatch(e.ResponseStatus.Message)
		if groups == nil {
			continue
		}
		out.Type, out.Name, out.Outcome = r.webhookType, strings.Clone(groups[1]), r.outcome
		out.Message = strings.TrimPrefix(e.ResponseStatus.Message, groups[0])
		n := len(calls)
		switch {
		case r.webhookType == inventory.Conversion:
			out.Name = e.ObjectRef.Resource + "." + e.ObjectRef.APIGroup
		case r.webhookType != "":
		case n > 0 && calls[n-1].Webhook == out.Name && calls[n-1].Outcome == inventory.AuditUnchanged:
			out.Type, calls[n-1].Outcome = inventory.Mutating, r.outcome
		default:
			out.Type = inventory.Validating
		}
		return out
	}
	return out
}

// variable is what differs between messages of the same cause: quoted names, and words
// with a digit.
var variable = regexp.MustCompile(`"[^"]*"|'[^']*'|\S*\d\S*`)

const maxMessage = 160

// pattern is a message without its names and numbers, and without what it repeats of the
// secrets of the object.
func (e *auditEvent) pattern(message string) string {
	if message == "" {
		return ""
	}
	message = strings.Join(strings.Fields(text.Clean(variable.ReplaceAllString(e.secrets().Text(message), "…"))), " ")
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage-1]) + "…"
	}
	return message
}

// secrets are those of what was sent: an object, a part of one, or a JSON patch; none below
// the level Request.
func (e *auditEvent) secrets() inventory.Secrets {
	var object any
	var patch []inventory.Change
	_, _ = json.Unmarshal(e.RequestObject, &object), json.Unmarshal(e.RequestObject, &patch) // one of them is nothing
	out := inventory.Redact(e.key().Resource, nil, [][]inventory.Change{patch})
	out.Add(object)
	return out
}

func (e *auditEvent) key() inventory.AuditKey {
	o := e.ObjectRef
	return inventory.AuditKey{
		Resource:  inventory.Resource{Group: o.APIGroup, Name: o.Resource, Subresource: o.Subresource},
		Operation: e.operation(), Namespace: o.Namespace, User: cmp.Or(e.ImpersonatedUser.Username, e.User.Username),
	}
}

// operation is that of admission; for a read, of which conversions alone can fail, the
// verb.
func (e *auditEvent) operation() string {
	switch {
	case slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, e.ObjectRef.Subresource):
		return "CONNECT"
	case e.Verb == "deletecollection":
		return "DELETE"
	case e.Verb == "patch" && e.ResponseStatus.Code == 201: // a server-side apply
		return "CREATE"
	case e.Verb == "patch":
		return "UPDATE"
	}
	return strings.ToUpper(e.Verb)
}

func (e *auditEvent) request(calls []inventory.AuditCall, outcomes keysBySeries) *inventory.AuditRequest {
	key, secrets := e.key(), e.secrets()
	out := &inventory.AuditRequest{
		AuditID: e.AuditID, Time: e.StageTimestamp.UTC(), User: key.User, Verb: e.Verb, Operation: key.Operation,
		Resource: key.Resource, Namespace: key.Namespace, Name: e.ObjectRef.Name, Level: e.Level, Calls: calls,
		Version: path.Join(e.ObjectRef.APIGroup, e.ObjectRef.APIVersion),
		Code:    e.ResponseStatus.Code, Message: secrets.Text(e.ResponseStatus.Message),
		At: map[inventory.Series]inventory.AuditOutcome{},
	}
	for series, o := range outcomes {
		out.At[series] = o.Outcome
	}
	for _, call := range calls {
		for i, c := range call.Patch {
			call.Patch[i].Value = secrets.Hide(c.Value)
		}
	}
	if key.Operation == "CREATE" || e.Verb == "update" {
		_ = json.Unmarshal(e.RequestObject, &out.Object) // the object of a patch is no object
	}
	return out
}
