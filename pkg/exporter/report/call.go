package report

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/dryrun"
)

// CalledRequest is what "explain --call" prints: what became of a request at each webhook.
type CalledRequest struct {
	Version string           `json:"version"`
	Request ExplainedRequest `json:"request"`
	dryrun.Result
	Fights []Fight  `json:"fights" jsonschema:"Fights are paths that two webhooks set to different values."`
	Ignore []string `json:"ignoreDifferences,omitempty" jsonschema:"IgnoreDifferences are rules, as YAML, by which Argo CD and Flux leave out what webhooks change; with --ignore-differences."`
	Notes  []string `json:"notes,omitempty"`
	kind   admission.Kind
}

// Fight is a path that two webhooks set to different values.
type Fight struct {
	Path    string `json:"path"`
	Webhook string `json:"webhook"`
	Later   string `json:"later" jsonschema:"Later is the webhook whose value remains, unless another one sets it again."`
}

// NewCalledRequest returns the view of a request that was sent through its chain. Values
// that may be secret are hidden.
func NewCalledRequest(r admission.Request, result dryrun.Result) CalledRequest {
	out := CalledRequest{
		Version: documentVersion, Result: result, Fights: []Fight{}, kind: r.Kind,
		Request: ExplainedRequest{
			r.Operation, r.Resource.Group, r.Version, r.Resource.Name, r.Resource.Subresource, r.Namespace, r.Name,
		},
	}
	var patches [][]inventory.Change
	for _, s := range result.Steps {
		for _, c := range s.Patch {
			if c.OverwrittenBy != "" && c.OverwrittenBy != s.Name {
				out.Fights = append(out.Fights, Fight{c.Path, s.Name, c.OverwrittenBy})
			}
		}
		patches = append(patches, s.Patch, s.Again)
	}
	objects := []map[string]any{result.Stored, result.Before, result.After, result.Server.Object}
	secrets := inventory.Redact(r.Resource, objects, patches)
	out.Refused, out.Server.Message = secrets.Text(out.Refused), secrets.Text(out.Server.Message)
	out.Server.Warnings = lists.Map(out.Server.Warnings, secrets.Text)
	for i, s := range out.Steps {
		out.Steps[i].Message, out.Steps[i].Warnings = secrets.Text(s.Message), lists.Map(s.Warnings, secrets.Text)
	}
	if result.Server.Object == nil && result.Before != nil {
		out.Notes = append(out.Notes, "not checked, as the API server refuses the request: managedFields, and some defaults and fields of built-in plugins, in the object that webhooks got")
	}
	return out
}

// Text is the verdict, a line for each call with what it changed, and what differs at the
// API server.
func (r CalledRequest) Text(o TextOptions) Blocks {
	var calls, findings []Line
	called := 0
	for _, s := range r.Steps {
		calls = append(calls, callLine(s))
		if s.Outcome != dryrun.NotCalled && !s.Type.IsPolicy() {
			called++
		}
		if len(s.Again) > 0 {
			findings = append(findings, Line{
				Label: "not idempotent", Name: s.Name, Tone: Warning, Text: "changes its own output again: it never settles under GitOps and reinvocation", Under: changeLines(s.Again),
			})
		}
	}
	for _, f := range r.Fights {
		findings = append(findings,
			Line{Label: "fight", Name: f.Path, Tone: Warning, Text: fmt.Sprintf("%s sets it, and %s sets it otherwise", f.Webhook, f.Later)})
	}
	verdict := "let pass"
	switch {
	case r.Refused != "":
		verdict = "refused: " + r.Refused
	case r.Server.Code >= http.StatusBadRequest:
		verdict = "let pass by them, and refused by the API server: " + r.Server.Message
	}
	out := Blocks{{Heading: fmt.Sprintf("%s, as a dry run at %s: %s", r.Request.Title(), inventory.Counted(called, "webhook"), verdict)}}
	rest := Blocks{{Lines: calls}, {Lines: findings}, {Heading: "The API server's own dry run", Lines: r.serverLines(o)}}
	for i, rule := range r.Ignore {
		rest = append(rest, Block{Heading: []string{"Argo CD: spec of the Application", "Flux: spec of the HelmRelease"}[i], Commands: strings.Split(strings.TrimSpace(rule), "\n")})
	}
	return append(out, append(rest, Block{Lines: noteLines(r.Notes)}).NonEmpty()...)
}

func callLine(s dryrun.Step) Line {
	line := Line{
		Label: fmt.Sprintf("%d ms", s.Milliseconds), Name: s.Name, Aside: s.Type.Title(), Text: string(s.Outcome),
		Under: changeLines(s.Patch),
	}
	switch s.Outcome {
	case dryrun.NotCalled:
		line.Label, line.Text, line.Tone = "not called", s.Message, Dim
	case dryrun.Allowed:
		if s.Type.IsPolicy() {
			line.Label, line.Text = "computed", "evaluated by the API server"
		}
	case dryrun.Ignored:
		line.Text, line.Tone = "failed, and is ignored: "+s.Message, Warning
	default:
		line.Text, line.Tone = string(s.Outcome)+": "+s.Message, Critical
	}
	if s.Round > 0 {
		line.Text += ", called again"
	}
	if s.Maybe != "" {
		line.Text += " (an API server may not call it: " + s.Maybe + ")"
	}
	for _, w := range s.Warnings {
		line.Under = append(line.Under, Line{Label: "warning", Text: w, Tone: Warning})
	}
	return line
}

const maxDifferences = 20

func (r CalledRequest) serverLines(o TextOptions) []Line {
	var own []string
	out := []Line{{Label: strconv.Itoa(r.Server.Code), Text: cmp.Or(r.Server.Message, "let pass")}}
	for _, w := range r.Server.Warnings {
		out = append(out, Line{Label: "warning", Text: w, Tone: Warning})
	}
	for _, d := range r.Differences {
		if d.Webhook == "" {
			own = append(own, d.Path)
			continue
		}
		out = append(out, Line{Label: "differs", Name: d.Path, Tone: Warning, Text: d.Webhook + " set it here: it answers the API server otherwise, or the API server dropped it"})
	}
	if !o.Verbose {
		own = lists.Bounded(own, maxDifferences, "… and %d more (-v)")
	}
	if len(own) > 0 {
		out = append(out, Line{Label: "besides", Text: "by the API server (defaults, built-in plugins, policies): " + strings.Join(own, ", ")})
	}
	return out
}

// WithIgnoreRules has the rules by which Argo CD and Flux leave out what webhooks and
// mutating policies change.
func (r CalledRequest) WithIgnoreRules() CalledRequest {
	var pointers, queries, all []string
	for _, p := range inventory.Differences(r.Before, r.After) {
		if all = append(all, p.Pointer); p.InList {
			queries = append(queries, p.Query)
		} else {
			pointers = append(pointers, p.Pointer)
		}
	}
	if len(all) == 0 {
		r.Notes = append(r.Notes, "nothing to ignore: no webhook and no policy changes the object")
		return r
	}
	target := map[string]any{"group": r.kind.Group, "kind": r.kind.Kind}
	argo := maps.Clone(target)
	for key, paths := range map[string][]string{"jsonPointers": pointers, "jqPathExpressions": queries} {
		if len(paths) > 0 {
			argo[key] = paths
		}
	}
	if r.kind.Group == "" {
		delete(target, "group")
	}
	flux := map[string]any{"paths": all, "target": target}
	for _, rule := range []any{
		map[string]any{"ignoreDifferences": []any{argo}, "syncPolicy": map[string]any{"syncOptions": []string{"RespectIgnoreDifferences=true"}}},
		map[string]any{"driftDetection": map[string]any{"mode": "enabled", "ignore": []any{flux}}},
	} {
		text, _ := yaml.Marshal(rule) // texts alone
		r.Ignore = append(r.Ignore, string(text))
	}
	return r
}
