package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Request is a request to the API server as a user describes it: what the command
// line of "explain" takes.
type Request struct{ Operation, Resource, Name, Namespace, Labels, Object string }

// maxAsked bounds what a form may send, in bytes.
const maxAsked = 64 << 10

// askPage has the forms that ask about a request, an error and a change, and the
// answers.
type askPage struct {
	Action     string
	Operations []option
	Request    Request
	Error      string
	Down, Node string
	Delete     string

	Services, Nodes, Configurations []string

	// Problem is why there is no answer.
	Problem   string
	Answer    *resourcePage
	Diagnosis string
	// Verdict and Consequences answer what follows from a change.
	Verdict      string
	Consequences report.Blocks
}

// maxOffered bounds the names that a field offers, maxAnswered the lines of each part
// of an answer.
const (
	maxOffered  = 200
	maxAnswered = 50
)

// offered are the names that a field offers.
func offered(names []string) []string { return names[:min(len(names), maxOffered)] }

// answered are the first lines, and how many more there are.
func answered(lines []string, most int) []string {
	if more := len(lines) - most; more > 0 {
		return append(slices.Clip(lines[:most]), fmt.Sprintf("… and %d more", more))
	}
	return lines
}

// question is the form that was sent, or what a link asks. An object, perhaps a Secret, is
// taken from the form alone: addresses stand in logs and histories.
func question(r *http.Request) (url.Values, error) {
	if r.Method != http.MethodPost {
		q := r.URL.Query()
		if q.Has("object") {
			return nil, errors.New("an object in the address stands in logs and histories: paste it into the form")
		}
		return q, nil
	}
	r.Body = http.MaxBytesReader(nil, r.Body, maxAsked)
	if err := r.ParseForm(); err != nil {
		return nil, fmt.Errorf("reading the form, which may have %d bytes: %w; use webhook-auditor explain -f FILE", maxAsked, err)
	}
	return r.PostForm, nil
}

// ask answers the form that was sent, if any.
func (h *handler) ask(v *view, d *document, r *http.Request) bool {
	q, err := question(r)
	p := &askPage{
		Action: v.to("ask"), Error: q.Get("error"), Down: q.Get("down"), Node: q.Get("node"), Delete: q.Get("delete"),
		Request: Request{q.Get("operation"), q.Get("resource"), q.Get("name"), q.Get("namespace"), q.Get("labels"), q.Get("object")},
	}
	d.Ask = p
	for _, operation := range []string{"create", "update", "patch", "delete", "connect"} {
		p.Operations = append(p.Operations, option{operation, operation, operation == p.Request.Operation})
	}
	services, nodes, configurations := impact.Names(v.Snapshot)
	p.Services, p.Nodes, p.Configurations = offered(services), offered(nodes), offered(configurations)
	switch {
	case err != nil:
	case p.Error != "":
		p.Diagnosis, err = v.diagnosis(p.Error)
	case p.Down+p.Node+p.Delete != "":
		err = h.consequences(r.Context(), v, p)
	case p.Request.Resource+p.Request.Object != "":
		p.Answer, err = h.answer(v, p.Request)
		p.Services, p.Nodes, p.Configurations = nil, nil, nil // a chain is long enough
	}
	if err != nil {
		p.Problem = err.Error()
	}
	return true
}

func (h *handler) answer(v *view, q Request) (*resourcePage, error) {
	chain, err := h.Explain(v.Matcher, q)
	if err != nil {
		return nil, err
	}
	p := &resourcePage{Name: chain.Request.Resource.String()}
	p.show(v, chain)
	return p, nil
}

// diagnosis explains the errors of API servers in a text.
func (v *view) diagnosis(text string) (string, error) {
	found := diagnose.Parse(text)
	if len(found) == 0 {
		return "", fmt.Errorf("%s: paste the complete message", diagnose.Unrecognized(text))
	}
	answers := make([]diagnose.Answer, len(found))
	for i, e := range found {
		answers[i] = diagnose.Explain(v.Report, e)
	}
	var b bytes.Buffer
	err := report.Write(&b, "text", report.NewDiagnosis(answers, v.Snapshot), report.TextOptions{Width: 110})
	const most = 6 * maxAnswered // an error takes several lines
	return strings.Join(answered(strings.Split(b.String(), "\n"), most), "\n"), err
}

func (h *handler) consequences(ctx context.Context, v *view, p *askPage) error {
	var c impact.Change
	if namespace, name, ok := strings.Cut(p.Down, "/"); ok {
		c.Services = []inventory.Key{{Namespace: namespace, Name: name}}
	} else if p.Down != "" {
		return fmt.Errorf("%q is no Service: must be NAMESPACE/NAME", p.Down)
	}
	if p.Node != "" {
		c.Nodes = []string{p.Node}
	}
	if p.Delete != "" {
		c.Configurations = []impact.Configuration{{Name: p.Delete}}
	}
	if err := c.Check(v.Snapshot); err != nil {
		return err
	}
	found, err := h.Impact(ctx, v.Report, c)
	if err != nil {
		return err
	}
	all := report.NewConsequences(found, v.Report)
	p.Verdict, p.Consequences = all.Verdict(), all.Blocks().Bounded(maxAnswered)
	return nil
}

// whatIf asks what happens when something goes away; nothing in a file, which
// cannot answer.
func (l links) whatIf(text, key, value string) link {
	if l.file != nil || value == "" {
		return link{Text: text}
	}
	return link{text, l.to("ask") + "?" + url.Values{key: {value}}.Encode()}
}

// searchPage is what the search over everything finds.
type searchPage struct {
	Query string
	Kinds []foundKind
}

// foundKind are the matches of one kind.
type foundKind struct {
	Title string
	Links []link
	More  int
}

// maxFound bounds the matches of a kind.
const maxFound = 50

// find searches webhooks, their configurations and backends, resources and checks.
func (v *view) find(text string) *searchPage {
	p := &searchPage{Query: text}
	if text == "" {
		return p
	}
	var webhooks, resources, checks []link
	for _, w := range v.profiles {
		if v.matches(query{Text: text}, w) {
			found := v.webhook(w.Ref)
			found.Text += " (" + w.Configuration + ", " + w.Webhook.Backend.String() + ")"
			webhooks = append(webhooks, found)
		}
	}
	seen := map[inventory.Resource]bool{}
	for _, s := range v.Snapshot.Served {
		if contains(s.Resource.String(), text) && !seen[s.Resource] {
			seen[s.Resource] = true
			resources = append(resources, v.resource(s.Resource))
		}
	}
	for _, c := range classify.Checks {
		if contains(c.Name, text) || contains(c.Summary, text) {
			checks = append(checks, v.check(c))
		}
	}
	for _, k := range []foundKind{{"Webhooks", webhooks, 0}, {"Resources", resources, 0}, {"Checks", checks, 0}} {
		if len(k.Links) > 0 {
			k.More = max(len(k.Links)-maxFound, 0)
			k.Links = slices.Clip(k.Links[:min(len(k.Links), maxFound)])
			p.Kinds = append(p.Kinds, k)
		}
	}
	return p
}

// explains returns what the API server does with a request.
type explains func(*admission.Matcher, Request) (admission.Chain, error)

// evaluates returns what a change leads to.
type evaluates func(context.Context, *classify.Report, impact.Change) (*impact.Consequences, error)
