package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// WriteHTML writes the Blocks as a part of a page, without classes but those of tables.
func (b Blocks) WriteHTML(w io.Writer) error {
	if err := blocksHTML.Execute(w, b); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// HTML is what WriteHTML writes, for a template.
func (b Blocks) HTML() (template.HTML, error) {
	var out strings.Builder
	err := b.WriteHTML(&out)
	return template.HTML(out.String()), err
}

var blocksHTML = template.Must(template.New("blocks").Funcs(template.FuncMap{
	"clean": text.Clean,
	"parts": func(s string) []FixPart { return fixParts(text.Clean(shortenLists(s))) },
}).Parse(`
{{- define "command"}}<div class="command"><code class="block" tabindex="0">{{clean .}}</code><button type="button" class="copy" hidden>Copy</button></div>{{end}}
{{- define "line"}}{{with .Label}}{{clean .}} {{end}}{{with .Name}}<strong>{{clean .}}</strong> {{end}}
{{- range parts .Text}}{{if .Command}}<code>{{.Text}}</code>{{else}}{{.Text}}{{end}}{{end}}
{{- with .Aside}} <small>{{clean .}}</small>{{end}}
{{- with .Command}}{{template "command" .}}{{end}}
{{- with .Under}}<ul>{{range .}}<li>{{template "line" .}}</li>{{end}}</ul>{{end}}{{end -}}
{{range .}}{{$list := .Heading}}{{with .Heading}}<h3>{{clean .}}</h3>
{{end}}{{with .Table}}{{.HTML}}
{{end}}{{if $list}}{{with .Lines}}<ul>{{range .}}<li>{{template "line" .}}</li>
{{end}}</ul>
{{end}}{{else}}{{range .Lines}}<p>{{template "line" .}}</p>
{{end}}{{end}}{{range .Commands}}{{template "command" .}}
{{end}}{{end}}`))

// HTML is the table; it is "" without rows.
func (t *Table) HTML() template.HTML {
	if len(t.Rows) == 0 {
		return ""
	}
	w := t.writer(func(s, link string) string {
		s = template.HTMLEscapeString(text.Clean(s))
		if link != "" {
			return `<a href="` + template.HTMLEscapeString(link) + `">` + s + `</a>`
		}
		return s
	})
	style := table.StyleDefault
	style.HTML.ConvertColorsToSpans, style.HTML.EscapeText = false, false
	w.SetStyle(style)
	return template.HTML(w.RenderHTML())
}
