package inventory

import (
	"cmp"
	"strings"
	"time"
)

// AuditLog is what audit logs of API servers record of webhooks and of admission
// policies.
type AuditLog struct {
	Files  []string  `json:"files" jsonschema:"Files are those that were read, Bytes what they hold unpacked."`
	Bytes  int64     `json:"bytes"`
	Lines  int64     `json:"lines" jsonschema:"Lines counts the lines, Broken those that are no audit event; Breaks names the first of them, as \"FILE:LINE: reason\"."`
	Broken int64     `json:"broken"`
	Breaks []string  `json:"breaks,omitempty"`
	From   time.Time `json:"from,omitzero" jsonschema:"From and To are the times of the first and the last event; absent where there is none."`
	To     time.Time `json:"to,omitzero"`
	// Rows are the requests at webhooks and policies, and those in which a
	// webhook made a change.
	Rows []AuditRow `json:"-"`
	// Merged counts the requests whose namespace, user and message are left out, as
	// there are too many different ones.
	Merged int `json:"-"`
	// Request is the event that was asked for by its auditID; nil where it was not
	// found.
	Request *AuditRequest `json:"-"`
	// IsUnanswered says that the log has an earlier stage of it.
	IsUnanswered bool `json:"-"`
}

type AuditOutcome string

// The outcomes, the worst first: of one webhook, a request has the first that
// applies.
const (
	// AuditDenied says that the request was refused on purpose.
	AuditDenied AuditOutcome = "denied"
	// AuditFailed says that the call failed and the request with it.
	AuditFailed AuditOutcome = "failed"
	// AuditFailedOpen says that the call failed and the request went on.
	AuditFailedOpen AuditOutcome = "failedOpen"
	AuditMutated    AuditOutcome = "mutated"
	// AuditViolated says that a policy with the action Audit was not met.
	AuditViolated AuditOutcome = "audited"
	// AuditUnchanged says that a mutating webhook was called and changed nothing.
	AuditUnchanged AuditOutcome = "unchanged"
	AuditChanged   AuditOutcome = "changed"
	// AuditDeleted is of an object whose name was generated, at no webhook.
	AuditDeleted AuditOutcome = "deleted"
)

func (o AuditOutcome) Title() string {
	if o == AuditFailedOpen {
		return "failed open"
	}
	return string(o)
}

// AuditOutcomes are all outcomes at a webhook, the worst first.
var AuditOutcomes = []AuditOutcome{
	AuditDenied, AuditFailed, AuditFailedOpen, AuditMutated, AuditViolated, AuditUnchanged,
}

type AuditKey struct {
	Series
	Outcome   AuditOutcome `json:"outcome,omitempty"`
	Resource  Resource     `json:"resource,omitzero"`
	Operation string       `json:"operation,omitempty"`
	Namespace string       `json:"namespace,omitempty"`
	User      string       `json:"user,omitempty"`
	Message   string       `json:"message,omitempty" jsonschema:"Message is that of a denial or a failure, with … for names and numbers."`
	Object    string       `json:"object,omitempty" jsonschema:"Object is the name of one that is changed, with … for what is generated."`
	Change    string       `json:"change,omitempty" jsonschema:"Change is the operation of the patch: add, replace, remove, move or copy; absent where the log has no patch."`
	Path      string       `json:"path,omitempty" jsonschema:"Path is a JSON pointer with * for each index of a list; absent where the log has no patch."`
	// Owner is the UID of the owner of an Object whose name is generated.
	Owner string `json:"-"`
}

type AuditSum struct {
	Requests int       `json:"requests" jsonschema:"Requests counts those at which it was called, as far as the log records calls: not those that a validating webhook let pass."`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

type AuditRow struct {
	AuditKey
	AuditSum
}

type AuditCall struct {
	Round         int          `json:"round" jsonschema:"Round is 0, and 1 of a reinvocation; calls are in the order of rounds and indexes."`
	Index         int          `json:"index"`
	Configuration string       `json:"configuration"`
	Webhook       string       `json:"-"`
	Outcome       AuditOutcome `json:"-"`
	Patch         []Change     `json:"patch,omitempty" jsonschema:"Patch is what it changed; absent below the level Request."`
}

type AuditRequest struct {
	AuditID   string    `json:"auditID" jsonschema:"AuditID names the event."`
	Time      time.Time `json:"time"`
	User      string    `json:"user"`
	Verb      string    `json:"verb"`
	Resource  Resource  `json:"resource"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Code      int       `json:"code" jsonschema:"Code and Message are those of the response."`
	Message   string    `json:"message"`
	Level     string    `json:"level" jsonschema:"Level is that of the audit policy: below Request, no patch is recorded."`
	// Calls are those of mutating webhooks, in their order.
	Calls     []AuditCall             `json:"-"`
	Operation string                  `json:"-"`
	Version   string                  `json:"-"`
	At        map[Series]AuditOutcome `json:"-"`
	// Object is what it wrote; nil below the level Request.
	Object map[string]any `json:"-"`
}

func (s *AuditSum) Add(o AuditSum) {
	if s.Requests == 0 || o.First.Before(s.First) {
		s.First = o.First
	}
	if o.Last.After(s.Last) {
		s.Last = o.Last
	}
	s.Requests += o.Requests
}

// UserName shortens the name of a ServiceAccount: that of a controller of the
// control plane to its own, others to NAMESPACE/NAME.
func UserName(user string) string {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return cmp.Or(user, "(others)")
	}
	return strings.ReplaceAll(strings.TrimPrefix(rest, "kube-system:"), ":", "/")
}
