package report

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// FixPart is a part of a fix: a command as it is to be run, or prose.
type FixPart struct {
	Text    string
	Command bool
}

// FixParts splits a fix into its prose and its commands, of which each stands by
// itself: the brackets and semicolons around a command are left out.
func FixParts(fix string) []FixPart {
	var out []FixPart
	for _, part := range fixParts(fix) {
		if !part.Command {
			part.Text = strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(part.Text, "); "), "("))
		}
		if part.Text != "" {
			out = append(out, part)
		}
	}
	return out
}

// placeholder matches what a user fills in: no object has a name in capitals.
var placeholder = regexp.MustCompile(`[ /='][A-Z][A-Z-]{3,}(?:[ /'-]|$)`)

func Complete(command string) bool { return !placeholder.MatchString(command) }

// quotedOrCommand matches the commands of a fix, and the quoted names before
// them: what a name holds is no command.
var quotedOrCommand = regexp.MustCompile(`'[^']*'|"[^"]*"|(` + command + `)`)

func fixParts(fix string) []FixPart {
	var out []FixPart
	end := 0
	for _, m := range quotedOrCommand.FindAllStringSubmatchIndex(fix, -1) {
		if m[2] < 0 {
			continue
		}
		out = append(out, FixPart{Text: fix[end:m[0]]}, FixPart{fix[m[0]:m[1]], true})
		end = m[1]
	}
	return append(out, FixPart{Text: fix[end:]})
}

// partLines has a line for each part of a fix.
func partLines(label, fix string) []Line {
	out := lists.Map(FixParts(fix), func(p FixPart) Line {
		if p.Command {
			return Line{Label: " ", Command: p.Text}
		}
		return Line{Label: " ", Text: p.Text}
	})
	if len(out) > 0 {
		out[0].Label = label
	}
	return out
}

// fixLines are the fix of a finding: commands for a cluster, YAML for a file, as the next
// release undoes what is patched in a cluster.
func fixLines(f Finding) []Line {
	var out []Line
	for _, line := range partLines("fix", f.Fix) {
		edits := patchEdits(line.Command)
		if len(edits) == 0 || f.Source.File == "" {
			out = append(out, line)
			continue
		}
		for _, e := range edits {
			out = append(out, e.lines(line.Label, f.Source)...)
			line.Label = " "
		}
	}
	return out
}

type edit struct {
	Op, Path string
	Value    any
}

// jsonPatch matches the patch in a command for kubectl.
var jsonPatch = regexp.MustCompile(`kubectl patch .* --type=json -p '(\[.*\])'`)

// patchEdits are those of a command that patches; none of any other.
func patchEdits(command string) []edit {
	m := jsonPatch.FindStringSubmatch(command)
	var edits []edit
	if m == nil || json.Unmarshal([]byte(strings.ReplaceAll(m[1], `'\''`, `'`)), &edits) != nil {
		return nil
	}
	return lists.Filter(edits, func(e edit) bool { return e.Op != "test" })
}

// index matches an index in a JSON pointer.
var index = regexp.MustCompile(`/(\d+)`)

// lines say where in the file to write what.
func (e edit) lines(label string, source inventory.Source) []Line {
	field, last := strings.TrimSuffix(e.Path, "/-"), ""
	item := field != e.Path
	field = strings.ReplaceAll(index.ReplaceAllString(strings.TrimPrefix(field, "/"), "[$1]"), "/", ".")
	last = field[strings.LastIndexByte(field, '.')+1:]
	if e.Op == "remove" {
		return []Line{{Label: label, Text: fmt.Sprintf("remove %s (%s)", field, source)}}
	}
	out := []Line{{Label: label, Text: fmt.Sprintf("write %s (%s):", field, source)}}
	value := e.Value
	if item {
		out[0].Text = fmt.Sprintf("add to %s (%s):", field, source)
		value = []any{e.Value}
	}
	text, err := yaml.Marshal(map[string]any{last: value})
	if err != nil {
		return out // unreachable: it was read from JSON
	}
	for line := range strings.Lines(string(text)) {
		out = append(out, Line{Label: " ", Command: strings.TrimSuffix(line, "\n")})
	}
	return out
}
