package report

import (
	"html/template"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

func (b Blocks) HTML() (template.HTML, error) {
	var out strings.Builder
	err := blocksHTML.Execute(&out, b)
	return template.HTML(out.String()), err
}

var classes = map[Tone]string{Critical: "state state-bad", Warning: "state state-unknown", Good: "state state-ok", Note: "tag", Dim: "dim"}

var blocksHTML = template.Must(template.New("blocks").Funcs(template.FuncMap{
	"clean": text.Clean, "complete": Complete,
	"label": func(l Line) string { // a command below another line needs no place for one
		if l.Command != "" {
			return strings.TrimSpace(l.Label)
		}
		return l.Label
	},
	"class": func(t Tone) string { return classes[t] },
	"parts": func(s string) []FixPart { return fixParts(text.Clean(shortenLists(s))) },
}).Parse(`
{{- define "command"}}<div class="command"><code class="block" tabindex="0">{{clean .}}</code>{{if complete .}}<button type="button" class="copy" hidden>Copy</button>{{end}}</div>{{end}}
{{- define "link"}}{{if .URL}}<a href="{{.URL}}">{{clean .Text}}</a>{{else}}{{clean .Text}}{{end}}{{end}}
{{- define "line"}}{{with label .}}<span class="label">{{with class $.Tone}}<span class="{{.}}">{{clean $.Label}}</span>{{else}}{{clean .}}{{end}}</span> {{end}}
{{- with .Name}}<strong>{{if $.URL}}<a href="{{$.URL}}">{{clean .}}</a>{{else}}{{clean .}}{{end}}</strong> {{end}}
{{- if and .Tone (not .Label)}}<span class="{{class .Tone}}">{{clean .Text}}</span>{{else}}{{range parts .Text}}{{if .Command}}<code>{{.Text}}</code>{{else}}{{.Text}}{{end}}{{end}}{{end}}
{{- with .Aside}} <small>{{clean .}}</small>{{end}}
{{- with .Command}}{{template "command" .}}{{end}}
{{- with .Under}}<ul>{{range .}}<li>{{template "line" .}}</li>{{end}}</ul>{{end}}{{end -}}
{{- define "table"}}<div class="scroll" role="group" aria-label="{{.Name}}" tabindex="0"><table class="cards">
<thead><tr>{{range .Heads}}<th scope="col"{{if .Number}} class="n"{{end}}>{{.Text}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr>{{range $i, $c := .}}{{if $i}}<td data-title="{{.Heading}}"{{if .Number}} class="n"{{end}}>{{else}}<th scope="row">{{end}}{{with .Class}}<span class="{{.}}">{{template "link" $c}}</span>{{else}}{{template "link" .}}{{end}}{{if $i}}</td>{{else}}</th>{{end}}{{end}}</tr>
{{end}}</tbody></table></div>{{end -}}
{{range .}}{{$list := .Heading}}{{with .Heading}}<h3>{{clean .}}</h3>
{{end}}{{with .Table}}{{.HTML}}
{{end}}{{if $list}}{{with .Lines}}<ul class="lines">{{range .}}<li>{{template "line" .}}</li>
{{end}}</ul>
{{end}}{{else}}{{range .Lines}}<p>{{template "line" .}}</p>
{{end}}{{end}}{{range .Commands}}{{template "command" .}}
{{end}}{{end}}`))

type htmlTable struct {
	Name  string
	Heads []htmlCell
	Rows  [][]htmlCell
}

// htmlCell knows its heading, which a narrow page shows beside it.
type htmlCell struct {
	Heading, Text, URL, Class string
	Number                    bool
}

// HTML is the table; it is "" without rows.
func (t *Table) HTML() (template.HTML, error) {
	if len(t.Rows) == 0 {
		return "", nil
	}
	out := htmlTable{Name: strings.Join(t.Headings[:min(2, len(t.Headings))], " and ")}
	for i, heading := range t.Headings {
		number := i > 0 && slices.ContainsFunc(t.Rows, func(cells []string) bool { return isNumber(cells[i]) }) &&
			!slices.ContainsFunc(t.Rows, func(cells []string) bool { return cells[i] != "" && !isNumber(cells[i]) })
		out.Heads = append(out.Heads, htmlCell{Text: heading, Number: number})
	}
	for _, cells := range t.Rows {
		row := make([]htmlCell, len(cells))
		for i, c := range cells {
			row[i] = htmlCell{t.Headings[i], c, t.Links[c], classes[t.Tones[c]], out.Heads[i].Number}
		}
		out.Rows = append(out.Rows, row)
	}
	var b strings.Builder
	err := blocksHTML.ExecuteTemplate(&b, "table", out)
	return template.HTML(b.String()), err
}
