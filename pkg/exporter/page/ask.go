package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Request is a request to the API server: the words that "explain" takes, or an object.
type Request struct {
	Words  []string
	Object string
}

// explains returns what the API server does with a request.
type explains func(*admission.Matcher, Request) (admission.Chain, error)

// maxAsked bounds what the form may send, in bytes, maxAnswered the lines of each part of
// an answer.
const (
	maxAsked    = 64 << 10
	maxAnswered = 50
)

// askPage has the box, and the answer to what was put into it.
type askPage struct {
	Action, Text string
	Examples     []example
	// Problem is why there is no answer.
	Problem string
	// Verdict is the answer in a line, Look the command that shows why, Answer what follows.
	Verdict, Look string
	Answer        report.Blocks
	Drawing       *timeline
}

type example struct{ Name, Text string }

func (h *handler) ask(v *view, r *http.Request) answer {
	p := &askPage{Action: v.link("ask"), Examples: v.examples()}
	err := h.answer(v, p, r)
	if err != nil {
		p.Problem = err.Error()
	}
	return answer{title: "Ask", template: "ask", data: p}
}

func (h *handler) answer(v *view, p *askPage, r *http.Request) error {
	if q := r.URL.Query(); q.Has("text") || q.Has("object") {
		return errors.New("what stands in the address stands in logs and histories: paste it into the box")
	}
	r.Body = http.MaxBytesReader(nil, r.Body, maxAsked)
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf("reading the form, which may have %d bytes: %w; use webhook-auditor explain -f FILE", maxAsked, err)
	}
	p.Text = strings.TrimSpace(r.PostForm.Get("text"))
	words := requestWords(p.Text)
	switch found := diagnose.Parse(p.Text); {
	case p.Text == "":
		return nil
	case len(found) > 0:
		p.Verdict, p.Answer = v.diagnosis(found)
		return nil
	case isObject.MatchString(p.Text):
		return h.explained(v, p, Request{Object: p.Text})
	case words != nil:
		return h.explained(v, p, Request{Words: words})
	}
	if p.Verdict, p.Answer = "Names with "+p.Text, v.find(p.Text); len(p.Answer) == 0 {
		p.Verdict = ""
		return fmt.Errorf("%s; nor is it an object in YAML or JSON, a request such as create pods -n default, or a name of the cluster", diagnose.Unrecognized(p.Text))
	}
	return nil
}

var isObject = regexp.MustCompile(`(?m)(^|[{,\s"])kind"?\s*:`)

// verbs begin a request; the last ones read, which no webhook is asked about.
var verbs = []string{"create", "update", "patch", "apply", "scale", "delete", "connect", "get", "list", "watch"}

// inNamespace matches the namespace of a request as people write it, and articles what they
// write besides.
var (
	inNamespace = regexp.MustCompile(`(?i)\s(?:in|into)\s+(?:the\s+)?(?:namespace\s+|ns\s+)?([a-z0-9][-a-z0-9]*)(?:\s+namespace)?(?:\s|$)`)
	articles    = []string{"a", "an", "the", "named", "called"}
)

// requestWords are those of a request as "explain" and kubectl take it; nil where the
// text is none.
func requestWords(typed string) []string {
	var words []string
	for word := range strings.FieldsSeq(inNamespace.ReplaceAllString(typed, " -n $1 ")) {
		value := len(words) > 0 && strings.HasPrefix(words[len(words)-1], "-")
		if value || !slices.Contains(articles, strings.ToLower(word)) {
			words = append(words, word)
		}
	}
	for len(words) > 0 && slices.Contains([]string{"$", "kubectl", "oc", "webhook-auditor", "explain"}, words[0]) {
		words = words[1:]
	}
	if len(words) < 2 || !slices.Contains(verbs, strings.ToLower(words[0])) {
		return nil
	}
	return words
}

func (h *handler) explained(v *view, p *askPage, q Request) error {
	chain, err := h.Explain(v.Matcher, q)
	if err != nil {
		return err
	}
	e := report.NewExplanation(chain, v.Snapshot)
	e.Inputs = nil // the overview has them
	blocks := e.Details(report.TextOptions{WithoutFlags: true})
	p.Verdict, p.Look, p.Drawing = e.Verdict(), e.Look(), draw(e)
	p.Answer = v.linked(blocks).Bounded(maxAnswered)
	return nil
}

// diagnosis explains the errors of API servers; the first heading is the verdict.
func (v *view) diagnosis(found []diagnose.APIServerError) (string, report.Blocks) {
	explain := func(e diagnose.APIServerError) diagnose.Answer { return diagnose.Explain(v.Report, e) }
	d := report.NewDiagnosis(lists.Map(found, explain), v.Snapshot)
	d.Inputs = nil // the overview has them
	blocks := d.Text(report.TextOptions{WithoutFlags: true})
	verdict := blocks[0].Heading
	blocks[0].Heading = "What to do"
	return verdict, v.linked(blocks).Bounded(maxAnswered)
}

func (v *view) examples() []example {
	worst := lists.Filter(v.profiles, func(p *classify.Profile) bool {
		return p.Type != inventory.Conversion && p.Webhook.Backend.Service.Name != ""
	})
	v.worstFirst(worst)
	failed := `Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post "https://policy.policy.svc:443/?timeout=10s": context deadline exceeded`
	if len(worst) > 0 {
		failed = v.failedCall(worst[0])
	}
	return []example{
		{"an error", failed},
		{"an object", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: default\n"},
		{"a request", "create pods -n default"},
	}
}

// failedCall is the error of a call of the webhook, as API servers word it.
func (v *view) failedCall(p *classify.Profile) string {
	service, why := p.Webhook.Backend.Service, "context deadline exceeded"
	if slices.ContainsFunc(v.ofWebhook[p.Ref], func(f *classify.Finding) bool { return f.Check.Name == "ca-bundle-invalid" }) {
		why = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
	}
	switch p.State.Fault {
	case inventory.ServiceNotFound:
		why = fmt.Sprintf("service %q not found", service.Name)
	case inventory.PortNotFound:
		why = fmt.Sprintf("no service port %d found for service %q", service.Port, service.Name)
	case inventory.NoReadyEndpoints:
		why = fmt.Sprintf("no endpoints available for service %q", service.Name)
	}
	return fmt.Sprintf(`Internal error occurred: failed calling webhook %q: failed to call webhook: Post "https://%s.%s.svc:%d%s?timeout=%ds": %s`,
		p.Name, service.Name, service.Namespace, service.Port, cmp.Or(service.Path, "/"), int(p.Timeout.Seconds()), why)
}

// find searches webhooks, their configurations and backends, and checks.
func (v *view) find(typed string) report.Blocks {
	var webhooks, checks []report.Line
	for _, w := range v.profiles {
		if v.matches(query{Text: typed}, w) {
			where := w.Configuration + ", " + w.Webhook.Backend.String()
			webhooks = append(webhooks, report.Line{Name: w.Name, URL: v.webhook(w.Ref).URL, Text: where})
		}
	}
	for _, c := range classify.Checks {
		if contains(c.Name, typed) || contains(c.Summary, typed) {
			checks = append(checks, report.Line{Name: c.Name, URL: v.check(c).URL, Text: c.Summary})
		}
	}
	return report.Blocks{{Heading: "Webhooks", Lines: webhooks}, {Heading: "Checks", Lines: checks}}.NonEmpty().Bounded(maxAnswered)
}
