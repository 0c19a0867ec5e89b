package observed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// auditEvent is what is read of an event of audit.k8s.io/v1.
type auditEvent struct {
	APIVersion, Stage, AuditID, RequestURI, Verb string
	User                                         auditUser
	ImpersonatedUser                             *auditUser
	ObjectRef                                    struct{ Resource, Namespace, Name, APIGroup, APIVersion, Subresource string }
	ResponseStatus                               struct {
		Code    int
		Message string
	}
	RequestObject  json.RawMessage
	ResponseObject json.RawMessage
	StageTimestamp time.Time
	Annotations    map[string]string
}

type auditUser struct{ Username string }

// lineError is a line that is no event.
type lineError struct {
	file   string
	line   int64
	reason string
}

// decoded is what the lines of a block hold.
type decoded struct {
	bytes, lines int64
	breaks       []lineError
	from, to     time.Time
	rows         []inventory.AuditRow
	writes       []inventory.AuditWrite
	request      *inventory.AuditRequest
	// asked is the auditID of the event that is kept.
	asked string
}

// decodeBlock decodes the lines that concern webhooks or policies. The others are nearly
// all of a log: of these it checks no more than that each is one JSON object by its
// ends.
func decodeBlock(b block, asked string) decoded {
	d := decoded{bytes: int64(len(b.lines)), asked: asked}
	number := b.first - 1
	for line := range bytes.Lines(b.lines) {
		number++
		line = bytes.TrimSpace(line)
		if b.tooLong && number == b.first || len(line) == 0 {
			continue
		}
		d.lines++
		if err := d.line(line); err != nil {
			d.breaks = append(d.breaks, lineError{b.file, number, shortened(err).Error()})
		}
	}
	if b.tooLong {
		d.lines++
		d.breaks = append(d.breaks, lineError{b.file, b.first, fmt.Sprintf("it is longer than %d MiB", maxEvent>>20)})
	}
	d.span(b.lines)
	return d
}

// span reads the times of the first and the last event.
func (d *decoded) span(lines []byte) {
	const key = `"stageTimestamp":"`
	for _, at := range []int{bytes.Index(lines, []byte(key)), bytes.LastIndex(lines, []byte(key))} {
		if at < 0 {
			return
		}
		text, _, _ := bytes.Cut(lines[at+len(key):], []byte(`"`))
		if t, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
			d.from, d.to = earliest(d.from, t), latest(d.to, t)
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// eventStart is how an API server begins a line; exports do not.
const eventStart = `{"kind":"Event","apiVersion":"audit.k8s.io/v1",`

// hints are in each line that concerns webhooks, policies or their registrations, and
// in objects that only mention them; one of the marks as well is in what outcomes and
// changesRegistration look for.
var (
	hints = [][]byte{[]byte("webhook"), []byte("admission"), []byte("denied request")}
	marks = [][]byte{
		[]byte(".admission.k8s.io/"), []byte("admission webhook "), []byte("calling webhook "), []byte("conversion webhook "), []byte("denied request: "),
		[]byte(`-webhook":"`), []byte(`"resource":"mutating`), []byte(`"resource":"validating`),
	}
)

func containsAny(line []byte, of [][]byte) bool {
	return slices.ContainsFunc(of, func(n []byte) bool { return bytes.Contains(line, n) })
}

// line reads one line: an event, or what an export wraps around one.
func (d *decoded) line(line []byte) error {
	if begin := bytes.IndexByte(line, '{'); begin > 0 { // CloudWatch's export to S3 begins with the time
		line = line[begin:]
	}
	if line[0] != '{' || line[len(line)-1] != '}' {
		return errors.New("it is no JSON object: cut off, or not of an audit log")
	}
	plain := bytes.HasPrefix(line, []byte(eventStart))
	concerns := containsAny(line, hints) && containsAny(line, marks) || d.asked != "" && bytes.Contains(line, []byte(d.asked))
	switch {
	case plain && !concerns:
		return nil
	case plain:
		return d.event(line)
	}
	found, err := d.unwrap(line, 0)
	if err == nil && found == 0 {
		err = errors.New("no event of audit.k8s.io/v1 is in it")
	}
	return err
}

// maxWrapped is how deep an export may wrap events.
const maxWrapped = 6

// unwrap reads the events below any field of an export: objects, arrays of them, and
// strings that hold JSON, as CloudWatch's message and Azure's log do.
func (d *decoded) unwrap(text []byte, depth int) (int, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || depth > maxWrapped {
		return 0, nil
	}
	var parts []json.RawMessage
	switch text[0] {
	case '{':
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			return 0, err
		}
		if string(fields["apiVersion"]) == `"audit.k8s.io/v1"` {
			return 1, d.event(text)
		}
		if fields["protoPayload"] != nil {
			return 0, errors.New("it is an entry of Google's Cloud Audit Logs, which holds no event of the API server")
		}
		for _, field := range fields {
			parts = append(parts, field)
		}
	case '[':
		if err := json.Unmarshal(text, &parts); err != nil {
			return 0, err
		}
	case '"':
		var inner string
		if err := json.Unmarshal(text, &inner); err != nil || !strings.HasPrefix(strings.TrimSpace(inner), "{") {
			return 0, err
		}
		parts = []json.RawMessage{json.RawMessage(inner)}
	}
	found := 0
	for _, part := range parts {
		n, err := d.unwrap(part, depth+1)
		if err != nil {
			return found, err
		}
		found += n
	}
	return found, nil
}

// event reads an event. Those before the response have neither the annotations nor, for
// a create, the name.
func (d *decoded) event(text []byte) error {
	var e auditEvent
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	d.from, d.to = earliest(d.from, e.StageTimestamp), latest(d.to, e.StageTimestamp)
	if e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return nil
	}
	at, err := e.outcomes()
	if err != nil {
		return err
	}
	rows := e.rows(at)
	d.rows = append(d.rows, rows...)
	if e.changesRegistration() {
		verb := e.Verb
		if e.operation() == "CREATE" {
			verb = "create"
		}
		d.writes = append(d.writes, inventory.AuditWrite{
			Time: e.StageTimestamp, Verb: verb, Resource: e.ObjectRef.Resource, Name: e.ObjectRef.Name, User: e.user(), Registered: e.registered(),
		})
	}
	if d.asked != "" && e.AuditID == d.asked {
		d.request = e.request(at)
	}
	return nil
}

// The keys of annotations. Source: k8s.io/apiserver
// pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go,
// pkg/admission/plugin/policy/validating/dispatcher.go, pkg/endpoints/filters/audit.go.
const (
	keyMutation             = "mutation.webhook.admission.k8s.io/"
	keyMutatingFailedOpen   = "failed-open.mutation.webhook.admission.k8s.io/"
	keyValidatingFailedOpen = "failed-open.validating.webhook.admission.k8s.io/"
	keyValidationFailure    = "validation.policy.admission.k8s.io/validation_failure"
	keyMutatingLatency      = "apiserver.latency.k8s.io/mutating-webhook"
	keyValidatingLatency    = "apiserver.latency.k8s.io/validating-webhook"
)

// standing is what became of a request at one webhook.
type standing struct {
	outcome                inventory.AuditOutcome
	configuration, message string
}

type standings map[inventory.Series]standing

// note keeps the worse of two outcomes.
func (s standings) note(series inventory.Series, o standing) {
	rank := func(o inventory.AuditOutcome) int { return slices.Index(inventory.AuditOutcomes, o) }
	known, found := s[series]
	if found && rank(known.outcome) <= rank(o.outcome) {
		known, o = o, known
	}
	o.configuration = cmp.Or(o.configuration, known.configuration)
	s[series] = o
}

// outcomes are those of the annotations and of the message of the response.
func (e *auditEvent) outcomes() (standings, error) {
	out := standings{}
	for key, value := range e.Annotations {
		switch {
		case strings.HasPrefix(key, keyMutation):
			var called struct {
				Configuration, Webhook string
				Mutated                bool
			}
			if err := json.Unmarshal([]byte(value), &called); err != nil {
				return nil, fmt.Errorf("annotation %s: %w", key, err)
			}
			o := standing{inventory.AuditUnchanged, called.Configuration, ""}
			if called.Mutated {
				o.outcome = inventory.AuditMutated
			}
			out.note(inventory.Series{Type: inventory.Mutating, Name: called.Webhook}, o)
		case strings.HasPrefix(key, keyMutatingFailedOpen):
			out.note(inventory.Series{Type: inventory.Mutating, Name: value}, standing{outcome: inventory.AuditFailedOpen})
		case strings.HasPrefix(key, keyValidatingFailedOpen):
			out.note(inventory.Series{Type: inventory.Validating, Name: value}, standing{outcome: inventory.AuditFailedOpen})
		case key == keyValidationFailure:
			var failures []struct{ Policy, Message string }
			if err := json.Unmarshal([]byte(value), &failures); err != nil {
				return nil, fmt.Errorf("annotation %s: %w", key, err)
			}
			for _, f := range failures {
				out.note(inventory.Series{Type: inventory.ValidatingPolicy, Name: f.Policy}, standing{inventory.AuditViolated, "", pattern(f.Message)})
			}
		}
	}
	e.refusal(out)
	return out, nil
}

// refusals are how messages begin that name what refused the request, with the type of
// it where it can be but one. The prefix of a policy's names the object.
var refusals = []struct {
	*regexp.Regexp
	of      inventory.Type
	outcome inventory.AuditOutcome
}{
	{regexp.MustCompile(`^admission webhook "([^"]+)" denied the request(?:: )?`), "", inventory.AuditDenied},
	{regexp.MustCompile(`^(?:Internal error occurred: )?failed calling webhook "([^"]+)": `), "", inventory.AuditFailed},
	{regexp.MustCompile(`^(?:Internal error occurred: )?admission webhook "([^"]+)" `), "", inventory.AuditFailed},
	{regexp.MustCompile(`^(?:\S+ "[^"]*" is forbidden: )?ValidatingAdmissionPolicy '([^']+)' (?:with binding '[^']*' )?denied request: `), inventory.ValidatingPolicy, inventory.AuditDenied},
	{regexp.MustCompile(`^(?:\S+ "[^"]*" is forbidden: )?policy ['"]([^'"]+)['"] (?:with binding ['"][^'"]*['"] )?denied request: `), inventory.MutatingPolicy, inventory.AuditDenied},
	{regexp.MustCompile(`^(?:Internal error occurred: )?conversion webhook for (\S+), Kind=\w+ failed: `), inventory.Conversion, inventory.AuditFailed},
}

// refusal notes what refused the request, by the start of the message: what follows is
// what a webhook writes.
func (e *auditEvent) refusal(out standings) {
	message := e.ResponseStatus.Message
	if e.ResponseStatus.Code < 400 {
		return
	}
	for _, r := range refusals {
		groups := r.FindStringSubmatch(message)
		if groups == nil {
			continue
		}
		series := inventory.Series{Type: r.of, Name: strings.Clone(groups[1])}
		switch r.of {
		case "": // a mutating webhook that was called has an annotation
			series.Type = inventory.Mutating
			if _, mutating := out[series]; !mutating {
				series.Type = inventory.Validating
			}
		case inventory.Conversion:
			series.Name = e.ObjectRef.Resource + "." + e.ObjectRef.APIGroup
		}
		out.note(series, standing{r.outcome, "", pattern(strings.TrimPrefix(message, groups[0]))})
		return
	}
}

// variable is what differs between messages of the same cause: quoted names, and words
// with a digit.
var variable = regexp.MustCompile(`"[^"]*"|'[^']*'|\S*\d\S*`)

const maxMessage = 160

// pattern is a message without its names and numbers.
func pattern(message string) string {
	message = strings.Join(strings.Fields(text.Clean(variable.ReplaceAllString(message, "…"))), " ")
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage-1]) + "…"
	}
	return message
}

// rows are what the event adds to each webhook, and to all of a type where the request
// was slow.
func (e *auditEvent) rows(at standings) []inventory.AuditRow {
	sum := inventory.AuditSum{Requests: 1, First: e.StageTimestamp, Last: e.StageTimestamp}
	slow := map[inventory.Type]inventory.AuditSum{}
	for of, key := range map[inventory.Type]string{inventory.Mutating: keyMutatingLatency, inventory.Validating: keyValidatingLatency} {
		s := sum
		if d, err := time.ParseDuration(e.Annotations[key]); err == nil && d > 0 {
			s.Slow, s.SlowSeconds = 1, d.Seconds()
			at[inventory.Series{Type: of}] = standing{outcome: inventory.AuditSlow}
		}
		slow[of] = s
	}
	var out []inventory.AuditRow
	for series, o := range at {
		row := inventory.AuditRow{AuditKey: e.key(), AuditSum: sum}
		if s, timed := slow[series.Type]; timed {
			row.AuditSum = s
		}
		row.Series, row.Outcome, row.Message = series, o.outcome, o.message
		out = append(out, row)
	}
	return out
}

// key is what the request is about.
func (e *auditEvent) key() inventory.AuditKey {
	o := e.ObjectRef
	return inventory.AuditKey{
		Resource:  inventory.Resource{Group: o.APIGroup, Name: o.Resource, Subresource: o.Subresource},
		Operation: e.operation(), Namespace: o.Namespace, User: e.user(),
	}
}

func (e *auditEvent) user() string {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser.Username
	}
	return e.User.Username
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

// registrations are the resources that register webhooks and policies.
var registrations = []string{
	"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
	"validatingadmissionpolicies", "validatingadmissionpolicybindings",
}

func (e *auditEvent) changesRegistration() bool {
	read := slices.Contains([]string{"get", "list", "watch"}, e.Verb)
	done := e.ResponseStatus.Code >= 200 && e.ResponseStatus.Code < 300 && !strings.Contains(e.RequestURI, "dryRun=")
	return done && !read && e.ObjectRef.Subresource == "" && slices.Contains(registrations, e.ObjectRef.Resource)
}

// registered is the webhook configuration that was written: as it was answered or, at
// the level Request, as it was sent, which a patch does not hold.
func (e *auditEvent) registered() *inventory.Objects {
	text := e.ResponseObject
	if len(text) == 0 && e.Verb != "patch" {
		text = e.RequestObject
	}
	validating, mutating := &admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{}
	switch e.ObjectRef.Resource {
	case "validatingwebhookconfigurations":
		if json.Unmarshal(text, validating) == nil && validating.Name == e.ObjectRef.Name {
			return &inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{validating}}
		}
	case "mutatingwebhookconfigurations":
		if json.Unmarshal(text, mutating) == nil && mutating.Name == e.ObjectRef.Name {
			return &inventory.Objects{Mutating: []*admissionv1.MutatingWebhookConfiguration{mutating}}
		}
	}
	return nil
}

// request is the event that was asked for.
func (e *auditEvent) request(at standings) *inventory.AuditRequest {
	out := &inventory.AuditRequest{
		AuditKey: e.key(), ID: e.AuditID, Verb: e.Verb, Name: e.ObjectRef.Name, Version: e.ObjectRef.APIVersion,
		Time: e.StageTimestamp, Code: e.ResponseStatus.Code, Text: e.ResponseStatus.Message,
		At: map[inventory.Series]inventory.AuditOutcome{}, Configurations: map[inventory.Series]string{},
	}
	for series, o := range at {
		if series.Name != "" {
			out.At[series], out.Configurations[series] = o.outcome, o.configuration
		}
	}
	if e.ObjectRef.APIGroup != "" {
		out.Version = e.ObjectRef.APIGroup + "/" + out.Version
	}
	if len(e.RequestObject) > 0 && (e.Verb == "create" || e.Verb == "update") {
		_ = json.Unmarshal(e.RequestObject, &out.Object) // the object of a patch is no object
	}
	return out
}
