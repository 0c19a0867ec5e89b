// Package report renders a classify.Report: one Document, written as text, JSON,
// Markdown or SARIF, and compared with an earlier one. It evaluates nothing, logs
// nothing and reads no clock.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const Project = "https://github.com/webhook-auditor/webhook-auditor"

const runbooks = Project + "/blob/main/pkg/classify/"

func RunbookURL(check string) string { return runbooks + check + ".md" }

// documentVersion is the version of the JSON: it changes when a field goes or
// changes its meaning, not when one is added.
const documentVersion = "v2"

// Document is a Report as "audit -o json" prints it; all other formats are
// rendered from it. ReadDocument reads it.
type Document struct {
	Version      string                 `json:"version"`
	Taken        time.Time              `json:"taken" jsonschema:"Taken is when the facts were true: now for a cluster and for manifests, else when the newest of the inputs was collected."`
	Server       string                 `json:"server" jsonschema:"Server is the API server's version."`
	Platform     inventory.Platform     `json:"platform,omitempty" jsonschema:"Platform is \"aks\", \"eks\", \"gke\" or \"openshift\"; absent where it is none of them, or not recognized."`
	ReleaseNotes []classify.ReleaseNote `json:"releaseNotes,omitempty" jsonschema:"ReleaseNotes are what the server's release and the next one change for its webhooks; absent where its version is not known."`
	Webhooks     []Webhook              `json:"webhooks" jsonschema:"Webhooks are sorted by type, configuration and name."`
	Policies     []AdmissionPolicy      `json:"policies,omitempty" jsonschema:"Policies are the admission policies, sorted by type and name; absent where there are none, or none could be read."`
	Findings     []Finding              `json:"findings" jsonschema:"Findings are sorted, the worst first."`
	Stops        []string               `json:"stops,omitempty" jsonschema:"Stops are what stops now, as webhooks that refuse requests without them fail: functions of the cluster, and writes of resources."`
	Errors       []Error                `json:"errors" jsonschema:"Errors are what cannot be read."`
	Totals       Totals                 `json:"totals"`
	Inputs       []inventory.Input      `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read; absent for a cluster."`
	Observed     *inventory.Observation `json:"observed,omitempty" jsonschema:"Observed is where observed values come from; absent without a source."`
}

type Webhook struct {
	inventory.Ref
	FailurePolicy  string           `json:"failurePolicy"`
	MatchPolicy    string           `json:"matchPolicy"`
	TimeoutSeconds int              `json:"timeoutSeconds"`
	Owner          string           `json:"owner" jsonschema:"Owner is the tool and the release that installed it, \"\" if unknown."`
	Backend        Backend          `json:"backend"`
	Reach          Reach            `json:"reach"`
	Approved       bool             `json:"approved"`
	Observed       *Observed        `json:"observed,omitempty" jsonschema:"Observed is what was measured of it; absent without a source."`
	Source         inventory.Source `json:"source,omitzero" jsonschema:"Source is where it was read; absent for a cluster."`
}

type AdmissionPolicy struct {
	inventory.Series
	FailurePolicy string           `json:"failurePolicy"`
	ParamKind     string           `json:"paramKind,omitempty" jsonschema:"ParamKind is the kind of its params, as \"v1 ConfigMap\"; absent without any."`
	Bindings      []string         `json:"bindings" jsonschema:"Bindings are the names of those that put it into effect, sorted."`
	Owner         string           `json:"owner" jsonschema:"Owner is the tool and the release that installed it, \"\" if unknown."`
	Source        inventory.Source `json:"source,omitzero" jsonschema:"Source is where it was read; absent for a cluster."`
}

func newAdmissionPolicy(p *inventory.AdmissionPolicy) AdmissionPolicy {
	bindings := lists.Map(p.Bindings, func(b *inventory.PolicyBinding) string { return b.Object.Name })
	out := AdmissionPolicy{
		Series: p.Series(), FailurePolicy: string(p.FailurePolicy), Bindings: append([]string{}, bindings...),
		Owner: p.Object.Owner.String(), Source: p.Object.Source,
	}
	if p.ParamKind != nil {
		out.ParamKind = p.ParamKind.APIVersion + " " + p.ParamKind.Kind
	}
	return out
}

// registered is what selects it as TYPE/NAME does a webhook.
func (p AdmissionPolicy) registered() Webhook {
	return Webhook{Ref: inventory.Ref{Type: p.Type, Configuration: p.Name, Name: p.Name}}
}

// Registered are the webhooks and, with their types and names alone, the policies.
func (d Document) Registered() []Webhook {
	return slices.Concat(d.Webhooks, lists.Map(d.Policies, AdmissionPolicy.registered))
}

// Reach are the resources of each class that a webhook is called for. It is that of
// the Report: a copy for each of many webhooks would be a tenth of the memory.
type Reach map[classify.Class][]inventory.Resource

// MarshalJSON writes every class, the empty ones too.
func (r Reach) MarshalJSON() ([]byte, error) {
	out := make(map[classify.Class][]inventory.Resource, len(classify.Classes))
	for _, class := range classify.Classes {
		out[class] = append([]inventory.Resource{}, r[class]...)
	}
	return json.Marshal(out)
}

type Backend struct {
	Service *inventory.ServiceRef `json:"service,omitempty"`
	URL     string                `json:"url,omitempty"`
}

func (b Backend) String() string {
	if b.Service == nil {
		return inventory.Backend{Kind: inventory.BackendURL, BareURL: b.URL}.String()
	}
	return inventory.Backend{Service: *b.Service}.String()
}

type Finding struct {
	Check    string            `json:"check"`
	Severity classify.Severity `json:"severity"`
	inventory.Ref
	Resource     string           `json:"resource" jsonschema:"Resource is set only where the check is about one."`
	Message      string           `json:"message" jsonschema:"Message completes the sentence \"webhook NAME …\", or \"policy NAME …\"."`
	Brief        string           `json:"brief,omitempty" jsonschema:"Brief says what breaks and why in a sentence of its own; absent where the Message does."`
	Details      []string         `json:"details,omitempty" jsonschema:"Details stand below the Brief, a line each: the Message has them too."`
	Fix          string           `json:"fix"`
	Look         string           `json:"look,omitempty" jsonschema:"Look is a command that shows the cause; absent for files."`
	Runbook      string           `json:"runbook" jsonschema:"Runbook is the address of the check's runbook."`
	Alert        classify.Alert   `json:"alert,omitzero" jsonschema:"Alert is what the finding raises where the auditor runs: it is a warning where a critical finding stops nothing that the cluster depends on; absent where there is none."`
	Acknowledged bool             `json:"acknowledged"`
	Source       inventory.Source `json:"source,omitzero" jsonschema:"Source is where the webhook was read; absent for a cluster."`
	// Stops is how many functions of the cluster stop, as the webhook fails now.
	Stops int `json:"-"`
}

// AlertNote says that the alert on the finding is of another severity; "" where it is not.
func (f Finding) AlertNote() string {
	if f.Alert.Severity == 0 || f.Alert.Severity == f.Severity {
		return ""
	}
	return ", alerts as a " + f.Alert.Severity.String()
}

// Error is an object or a file that cannot be read.
type Error struct {
	Source  string `json:"source" jsonschema:"Source is a file, or the object of a cluster."`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	// Forbidden says that the user lacks the right to read it, Uncompared that it was read, and is
	// too much to be compared.
	Forbidden, Uncompared bool `json:"-"`
}

func (e Error) String() string {
	if e.Source == "" {
		return e.Message
	}
	return inventory.Source{File: e.Source, Line: e.Line}.String() + ": " + e.Message
}

// ByCause has one error for all objects that the same rights are lacking for.
func ByCause(errs []Error) []Error {
	var out []Error
	for _, group := range lists.Group(errs, Error.withoutObject) {
		e := group[0]
		if len(group) > 1 {
			objects := lists.Map(group, func(e Error) string { return e.Source })
			e = Error{Source: strings.Join(objects, ", "), Message: e.withoutObject(), Forbidden: true}
		}
		out = append(out, e)
	}
	return out
}

// withoutObject is what rights lack of each object alike; of other errors all there is.
func (e Error) withoutObject() string {
	if !e.Forbidden {
		return e.String()
	}
	return strings.NewReplacer("on "+e.Source, "on each", " "+e.Source, "").Replace(e.Message)
}

type Totals struct {
	Webhooks int           `json:"webhooks"`
	Policies int           `json:"policies" jsonschema:"Policies are the admission policies."`
	Findings FindingTotals `json:"findings"`
}

// FindingTotals count the findings that are not acknowledged.
type FindingTotals struct {
	Critical int `json:"critical"`
	Warning  int `json:"warning"`
	Info     int `json:"info"`
}

func NewDocument(r *classify.Report) Document {
	d := Document{
		Version:  documentVersion,
		Taken:    r.Snapshot.Taken.UTC(),
		Server:   r.Snapshot.Server.String(),
		Platform: r.Platform,

		ReleaseNotes: r.ReleaseNotes,
		Webhooks:     make([]Webhook, 0, len(r.Profiles)),
		Findings:     make([]Finding, 0, len(r.Findings)),
		Stops:        r.Stops,
		Inputs:       newInputs(r.Snapshot),
		Observed:     r.Snapshot.Observed,
	}
	for _, f := range r.Findings {
		finding := NewFinding(f)
		if len(r.Snapshot.Inputs) == 0 {
			finding.Look = f.Look
		}
		d.Findings = append(d.Findings, finding)
	}
	d.Totals = totals(len(r.Profiles), len(r.Snapshot.Policies), d.Findings)
	for _, p := range r.Profiles {
		d.Webhooks = append(d.Webhooks, newWebhook(p, r.Snapshot))
	}
	slices.SortStableFunc(d.Webhooks, Webhook.compare)
	d.Policies = lists.Map(r.Snapshot.Policies, newAdmissionPolicy)
	d.Errors = append([]Error{}, lists.Map(r.Errors, newError)...)
	return d
}

func totals(webhooks, policies int, findings []Finding) Totals {
	open, _ := separateAcknowledged(findings)
	return Totals{Webhooks: webhooks, Policies: policies, Findings: countFindings(open)}
}

func newInputs(s *inventory.Snapshot) []inventory.Input {
	return each(s.Inputs, func(i *inventory.Input) { i.Taken = i.Taken.UTC() })
}

func newWebhook(p *classify.Profile, s *inventory.Snapshot) Webhook {
	return Webhook{
		Ref:            p.Ref,
		FailurePolicy:  string(p.FailurePolicy),
		MatchPolicy:    string(p.MatchPolicy),
		TimeoutSeconds: int(p.Timeout.Seconds()),
		Owner:          p.Object.Owner.String(),
		Backend:        newBackend(p.Webhook.Backend),
		Reach:          Reach(p.ByClass),
		Approved:       p.Approved,
		Observed:       newObserved(s.Observed, p.Series()),
		Source:         p.Object.Source,
	}
}

func (w Webhook) compare(o Webhook) int {
	return cmp.Or(cmp.Compare(w.Type, o.Type), cmp.Compare(w.Configuration, o.Configuration),
		cmp.Compare(w.Name, o.Name))
}

func newBackend(b inventory.Backend) Backend {
	if b.Kind == inventory.BackendURL {
		return Backend{URL: b.BareURL}
	}
	return Backend{Service: &b.Service}
}

func NewFinding(f *classify.Finding) Finding {
	return Finding{
		Check:        f.Check.Name,
		Severity:     f.Severity,
		Ref:          f.Webhook,
		Resource:     f.Resource.String(),
		Message:      f.Message,
		Brief:        f.Brief,
		Details:      f.Details,
		Fix:          f.Fix,
		Runbook:      RunbookURL(f.Check.Name),
		Alert:        f.Alert,
		Acknowledged: f.Acknowledged,
		Source:       f.Source,
		Stops:        len(f.Stops),
	}
}

func NewErrors(errs []inventory.Error) []Error {
	return append([]Error{}, lists.Map(errs, newError)...)
}

// newError keeps the position apart, so that editors can jump to it.
func newError(e inventory.Error) Error {
	out := Error{
		Source: e.Source.File, Line: e.Source.Line, Message: e.Message,
		Forbidden: e.Forbidden, Uncompared: e.Uncompared,
	}
	switch {
	case out.Source == "":
		out.Source = e.Object
	case e.Object != "" && e.Object != out.Source:
		out.Message = e.Object + ": " + e.Message
	}
	return out
}

// WriteJSON writes what this package hands out as JSON: a Document, another view model, a
// schema.
func WriteJSON[V any](w io.Writer, view V) error {
	err := writeEscaped(w, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(view)
	})
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

func ReadDocument(r io.Reader) (Document, error) {
	var d Document
	decoder := json.NewDecoder(r)
	if err := decoder.Decode(&d); err != nil {
		return Document{}, fmt.Errorf("reading report: must be what audit -o json prints: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Document{}, fmt.Errorf("reading report: must be what audit -o json prints and nothing else: something follows at byte %d", decoder.InputOffset())
	}
	if d.Version != documentVersion && d.Version != "v1" { // v1 has the type admit for mutating
		return Document{}, fmt.Errorf("reading report: version is %q, must be %q: write it again with audit -o json of this release", d.Version, documentVersion)
	}
	return d, nil
}

// each returns a copy of the list with a change of each element.
func each[T any](list []T, change func(*T)) []T {
	out := slices.Clone(list)
	for i := range out {
		change(&out[i])
	}
	return out
}

// writeEscaped writes what encode encodes, with escapes for what a terminal would
// interpret or not show: the encoders leave the control characters beyond ASCII as they
// are, and those that turn the direction of text. JSON has none of these outside of texts.
func writeEscaped(w io.Writer, encode func(io.Writer) error) error {
	var encoded, out bytes.Buffer
	if err := encode(&encoded); err != nil {
		return err
	}
	for _, r := range encoded.String() {
		if r < 0x7f || unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
	}
	_, err := out.WriteTo(w)
	return err
}

// Select returns the Document of the webhooks and policies of the Report that keep selects:
// their findings, what these stop, and the totals. Errors stay, as they may hide more.
func (d Document) Select(r *classify.Report, keep func(Webhook) bool) Document {
	selected := map[inventory.Ref]bool{}
	for _, w := range d.Registered() {
		selected[w.Ref] = selected[w.Ref] || keep(w)
	}
	d.Webhooks = slices.DeleteFunc(append([]Webhook{}, d.Webhooks...), func(w Webhook) bool { return !selected[w.Ref] })
	d.Policies = slices.DeleteFunc(slices.Clone(d.Policies),
		func(p AdmissionPolicy) bool { return !selected[p.registered().Ref] })
	d.Findings = slices.DeleteFunc(append([]Finding{}, d.Findings...), func(f Finding) bool { return !selected[f.Ref] })
	d.Totals = totals(len(d.Webhooks), len(d.Policies), d.Findings)
	d.Stops = classify.StopsOf(lists.Filter(r.Findings, func(f *classify.Finding) bool { return selected[f.Webhook] }))
	return d
}

// Select returns the Top of the webhooks of the Document, without policies, which have
// no backend to select by. Their shares stay those of all webhooks.
func (t Top) Select(d Document) Top {
	selected := d.series()
	others := func(w TopWebhook) bool { return !selected[w.Series] }
	t.Webhooks, t.NotCalled, t.Policies = slices.DeleteFunc(t.Webhooks, others), slices.DeleteFunc(t.NotCalled,
		others), []TopWebhook{}
	return t
}

func (d Document) series() map[inventory.Series]bool {
	out := map[inventory.Series]bool{}
	for _, w := range d.Webhooks {
		out[w.Series()] = true
	}
	return out
}

// When is whether requests fail now.
type When int

// What fails now, what can fail, and what to look at once.
const (
	BrokenNow When = iota
	AtRisk
	ToReview
)

// Urgency orders findings: each view has the most urgent first.
type Urgency struct {
	When     When
	Severity classify.Severity
	// Stops is how many functions of the cluster stop, where calls fail now.
	Stops int
}

// NewUrgency is that of a finding of a check, nil where this program does not have it.
func NewUrgency(c *classify.Check, s classify.Severity, stops int) Urgency {
	switch {
	case s <= classify.Info:
		return Urgency{When: ToReview, Severity: s}
	case c == nil || !c.Fails():
		return Urgency{When: AtRisk, Severity: s}
	}
	return Urgency{When: BrokenNow, Severity: s, Stops: stops}
}

// Compare is negative where u is more urgent.
func (u Urgency) Compare(o Urgency) int {
	return cmp.Or(cmp.Compare(u.When, o.When), cmp.Compare(o.Severity, u.Severity), cmp.Compare(o.Stops, u.Stops))
}

func (f Finding) urgency() Urgency {
	return NewUrgency(classify.FindCheck(f.Check), f.Severity, f.Stops)
}
