package report

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	markdowntext "github.com/yuin/goldmark/text"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Runbook is what "explain CHECK" prints: what a check reports, and what to do about it.
type Runbook struct {
	Version  string            `json:"version"`
	Check    string            `json:"check"`
	Severity classify.Severity `json:"severity" jsonschema:"Severity is the usual one: some checks report less where less is at stake."`
	Summary  string            `json:"summary"`
	Finding  *inventory.Ref    `json:"finding,omitempty" jsonschema:"Finding is the webhook or policy whose names the commands have; absent where the input has no such finding, or nothing was read."`
	Markdown string            `json:"markdown" jsonschema:"Markdown is the runbook, without its title."`
}

// NewRunbook returns the runbook of a check. Its commands have the names of the finding in
// the Document that fills in most.
func NewRunbook(c *classify.Check, d Document) Runbook {
	_, markdown, _ := strings.Cut(c.Runbook(), "\n\n")
	out := Runbook{
		Version: documentVersion, Check: c.Name, Severity: c.Severity, Summary: c.Summary, Markdown: markdown,
	}
	webhooks := lists.By(d.Registered(), func(w Webhook) inventory.Ref { return w.Ref })
	most := 0
	for _, f := range d.Findings {
		if f.Check != c.Name {
			continue
		}
		if filled, n := filledIn(markdown, f, webhooks[f.Ref]); n > most {
			most, out.Finding, out.Markdown = n, &f.Ref, filled
		}
	}
	return out
}

// instruction says which variables of a runbook's commands a finding has.
var instruction = regexp.MustCompile("(?:An\\salert's\\sannotation\\s`runbook_variables`\\shas\\sthe\\svariables\\sof\\sthese\\scommands:\\spaste\\sthem\\sfirst\\.\\s" +
	"Without\\san\\salert,\\ss|S)et\\s((?:`[A-Z]+`(?:,\\s|\\sand\\s)?)+)\\sto\\swhat\\sthe\\sfinding\\snames\\.")

// plainName is what a shell takes as it is.
var plainName = regexp.MustCompile(`^[-.:/a-z0-9]+$`)

// filledIn replaces the variables of a runbook that a finding has, and counts them. A
// conversion leaves KIND as it is: a command must never delete a CRD.
func filledIn(markdown string, f Finding, w Webhook) (filled string, variables int) {
	names := map[string]string{"CONFIGURATION": f.Configuration, "NAME": f.Name, "RESOURCE": f.Resource}
	if f.Type == inventory.Conversion {
		names["CRD"] = f.Name
	} else {
		names["KIND"] = strings.ToLower(f.Type.RegisteredBy().Kind)
	}
	if s := w.Backend.Service; s != nil {
		names["NAMESPACE"], names["SERVICE"] = s.Namespace, s.Name
	}
	m := instruction.FindStringSubmatchIndex(markdown)
	if m == nil {
		return markdown, 0
	}
	for name, value := range names {
		if variable := "$" + name; plainName.MatchString(value) && strings.Contains(markdown[m[2]:m[3]], "`"+name+"`") {
			variables++
			pattern := regexp.MustCompile(`"` + regexp.QuoteMeta(variable) + `"|` + regexp.QuoteMeta(variable) + `\b`)
			markdown = pattern.ReplaceAllLiteralString(markdown, value)
		}
	}
	if variables == 0 {
		return markdown, 0
	}
	subject := fmt.Sprintf("The commands have the names of %s %s.", f.Type.Noun(), f.Name)
	return instruction.ReplaceAllLiteralString(markdown, subject), variables
}

func (r Runbook) Text(TextOptions) Blocks {
	return append(Blocks{{Heading: fmt.Sprintf("%s (%s): %s", r.Check, r.Severity, r.Summary)}}, markdownBlocks(r.Markdown)...)
}

// markdownBlocks are the headings and paragraphs of a text in Markdown, each with the
// commands that follow it.
func markdownBlocks(markdown string) Blocks {
	var out Blocks
	source := []byte(markdown)
	root := goldmark.DefaultParser().Parse(markdowntext.NewReader(source))
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			out = append(out, Block{Heading: plainText(n, source)})
		case *ast.FencedCodeBlock:
			last := &out[len(out)-1]
			for line := range strings.Lines(string(n.Lines().Value(source))) {
				last.Commands = append(last.Commands, strings.TrimRight(line, "\n"))
			}
		case *ast.List:
			var items []Line
			for item := n.FirstChild(); item != nil; item = item.NextSibling() {
				items = append(items, Line{Label: "-", Text: plainText(item, source)})
			}
			out = append(out, Block{Lines: items})
		default:
			out = append(out, Block{Lines: Sentences(plainText(n, source))})
		}
	}
	return out
}

// plainText is what is to be read of a piece of Markdown, with commands in quotes.
func plainText(root ast.Node, source []byte) string {
	var b strings.Builder
	// The error would be that of the function, which returns none.
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		content, is := n.(*ast.Text)
		if !is || !entering {
			return ast.WalkContinue, nil
		}
		format := "%s"
		if n.Parent().Kind() == ast.KindCodeSpan && strings.HasPrefix(string(content.Value(source)), "kubectl ") {
			format = "'%s'"
		}
		fmt.Fprintf(&b, format, content.Value(source))
		if content.SoftLineBreak() {
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
