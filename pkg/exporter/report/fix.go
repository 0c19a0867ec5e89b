package report

import (
	"regexp"
	"strings"
)

// FixPart is a part of a fix: a command as it is to be run, or prose.
type FixPart struct {
	Text    string
	Command bool
}

// FixParts splits a fix into its prose and its commands, of which each stands by
// itself: the brackets and semicolons around a command are left out. Indented lines,
// which are commands or manifests, stay together.
func FixParts(fix string) []FixPart {
	var out []FixPart
	block := false
	for _, line := range fixLines(fix) {
		if indented(line) {
			if block {
				out[len(out)-1].Text += "\n" + line
			} else {
				out = append(out, FixPart{line, true})
			}
			block = true
			continue
		}
		block = false
		for _, part := range fixParts(line) {
			if !part.Command {
				part.Text = strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(part.Text, "); "), "("))
			}
			if part.Text != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// quotedOrCommand matches the commands of a fix, and the quoted names before
// them: what a name holds is no command.
var quotedOrCommand = regexp.MustCompile(`'[^']*'|"[^"]*"|(` + command + `)`)

// fixParts splits a line of a fix.
func fixParts(line string) []FixPart {
	var out []FixPart
	end := 0
	for _, m := range quotedOrCommand.FindAllStringSubmatchIndex(line, -1) {
		if m[2] < 0 {
			continue
		}
		out = append(out, FixPart{Text: line[end:m[0]]}, FixPart{line[m[0]:m[1]], true})
		end = m[1]
	}
	return append(out, FixPart{Text: line[end:]})
}
