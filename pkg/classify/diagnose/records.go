package diagnose

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

const (
	// maxWrapped bounds how much of a record is searched for the end of its error, and for
	// words around that: a terminal wraps one error, not a log.
	maxWrapped = 4 << 10
	// maxNested bounds JSON in strings of JSON, as log collectors nest it.
	maxNested = 4
)

// message is one of a text, and how often it came: Events are counted.
type message struct {
	text  string
	times int
}

// counted is how kubectl prints how often an Event came.
var counted = regexp.MustCompile(`\(x(\d+) over \w+\)`)

// messages cuts a text into the messages that it holds: the strings of JSON and YAML,
// the lines of logs and of tables of Events.
func messages(outer message, nested int) []message {
	var out []message
	if values, ok := decoded(outer.text); ok && nested < maxNested {
		for _, m := range texts(values, outer.times, nil) {
			out = append(out, messages(m, nested+1)...)
		}
		return out
	}
	for _, r := range records(drawn.ReplaceAllString(outer.text, "")) {
		if nested < maxNested && strings.HasPrefix(r, "{") && json.Valid([]byte(r)) {
			out = append(out, messages(message{r, outer.times}, nested)...)
			continue
		}
		times := outer.times
		if m := counted.FindStringSubmatch(r); m != nil {
			times, _ = strconv.Atoi(m[1])
		}
		out = append(out, message{value(r), max(times, 1)})
	}
	return out
}

// quotedValue is a value of a structured log that has quotes of its own.
var quotedValue = regexp.MustCompile(`\b\w+=("(?:[^"\\]|\\.)*\\"(?:[^"\\]|\\.)*")`)

// value is the value of a line of a structured log that an error stands in; the line, where
// that is unknown.
func value(line string) string {
	for _, position := range quotedValue.FindAllStringSubmatchIndex(line, -1) {
		s, err := strconv.Unquote(line[position[2]:position[3]])
		if err != nil || len(parsed(unwrapped(s))) == 0 {
			continue
		}
		return around(line[:position[0]], s)
	}
	return line
}

// around is the error with the words before it that show its cause.
func around(before, content string) string {
	if framed := frameOf(before); framed.Cause != "" {
		return framed.FindString(before) + ": " + content
	}
	return content
}

// drawn is what terminals, mails, tables and viewers of logs draw around lines.
var drawn = regexp.MustCompile(`(?m)\x1b\[[\d;]*[A-Za-z]|^[ \t]*[+|][-+=|: ]*$|^[ \t]*(?:[╷│╵┃|>#]+[ \t]*)+|^[\w.-]+ +\| ` +
	`|[ \t]*[│┃][ \t\r]*$|[ \t]+[|\\][ \t\r]*$|\\$`)

// stamp is what CI systems put before each line that a command prints, and printed is how
// kubectl, Helm and Terraform begin an error.
var (
	stamp   = regexp.MustCompile(`^\x{feff}?\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d[\d.,]*Z?\]?(?: \d\d[OE]\+?)?(?: - +| {1,2}|$)(?:##\[\w+\])?`)
	printed = regexp.MustCompile(`(?m)^(?:[│╷|] )?(?:[Ee]rror: |Error from server|The [A-Z]\w+ ")`)
)

// unstamped is the text without stamps, where all its lines have one and it is no log.
func unstamped(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		position := stamp.FindStringIndex(line)
		switch {
		case position != nil:
			lines[i] = line[position[1]:]
		case strings.TrimSpace(line) != "":
			return text
		}
	}
	if out := strings.Join(lines, "\n"); printed.MatchString(out) {
		return out
	}
	return text
}

// rejoined undoes the wrapping of a terminal that breaks lines at its width, within words: what
// is as wide as the widest line goes on in the next one. That is certain where several are.
func rejoined(text string) (joined string, isCertain bool) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") || objectOfYAML.MatchString(text) {
		return text, false
	}
	indentations := margins(strings.Split(text, "\n"))
	lines := strings.Split(drawn.ReplaceAllString(text, ""), "\n")
	width, full := 40, 0
	for i := range lines {
		lines[i] = indentations[i] + strings.TrimRight(lines[i], "\r")
		width = max(width, utf8.RuneCountInString(lines[i]))
	}
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line)
		n := utf8.RuneCountInString(line)
		switch {
		case i+1 == len(lines):
		case n < width-1 || record.MatchString(lines[i+1]) || lines[i+1] == line:
			b.WriteByte('\n')
		case n < width: // a blank at the end is lost
			b.WriteByte(' ')
		default:
			full++
		}
	}
	return b.String(), full > 1
}

// margin is what drawn takes off the beginning of a line.
var margin = regexp.MustCompile(`^[ \t]*(?:[╷│╵┃|>#]+[ \t]*)+`)

// margins are what each line has at its beginning beyond the least: the box is drawn around all alike.
func margins(lines []string) []string {
	widths := lists.Map(lines, func(line string) int { return utf8.RuneCountInString(margin.FindString(line)) })
	least := slices.Min(append(slices.DeleteFunc(slices.Clone(widths), func(n int) bool { return n == 0 }), 1<<10))
	return lists.Map(widths, func(n int) string { return strings.Repeat(" ", max(n-least, 0)) })
}

var objectOfYAML = regexp.MustCompile(`(?m)^(?:- )?apiVersion: `)

// decoded reads the whole text as JSON values or as one YAML document; ok is false
// for any other text.
func decoded(text string) (values []any, ok bool) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(strings.TrimSpace(text), "[{") {
		d := json.NewDecoder(strings.NewReader(text))
		for {
			var value any
			err := d.Decode(&value)
			if err == io.EOF {
				return values, len(values) > 0
			}
			if err != nil {
				return nil, false
			}
			values = append(values, value)
		}
	}
	if objectOfYAML.MatchString(text) {
		var value any
		if yaml.Unmarshal([]byte(text), &value) == nil && value != nil {
			return []any{value}, true
		}
	}
	return nil, false
}

// texts appends the strings of the value, in the order of its lists and keys.
func texts(value any, times int, out []message) []message {
	switch v := value.(type) {
	case string:
		return append(out, message{v, times})
	case []any:
		for _, e := range v {
			out = texts(e, times, out)
		}
	case map[string]any:
		if v["policy"] != nil && v["validationActions"] != nil { // an element of an annotation
			return append(out, message{fmt.Sprintf("{message: %v, policy: %v, binding: %v, validationActions: %v}", v["message"], v["policy"], v["binding"], v["validationActions"]), times})
		}
		series, _ := v["series"].(map[string]any)
		for _, counts := range []map[string]any{v, series} {
			if n, ok := counts["count"].(float64); ok && v["kind"] == "Event" {
				times = int(n)
			}
		}
		logged, _ := v["msg"].(string)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if s, ok := v[key].(string); ok {
				v[key] = around(logged, s)
			}
			if key != "errorVerbose" && (key != "details" || v["kind"] != "Status") { // which have the words of others
				out = texts(v[key], times, out)
			}
		}
	}
	return out
}

// record is how a line of a log, an Event in a table, a condition and an error of
// kubectl begin. Other lines go on with the one before: terminals break them.
var record = regexp.MustCompile(`^(?:\d{4}[-/]\d\d|[IWEF]\d{4} |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\[pod/|\{|time=|level=|ts=|Error from server|[Ee]rror: |error (?:when|\w+ing) |Internal error occurred: |Warning|Process completed with exit code |ERROR: Job failed|\S+/\S+ (?:created|configured|unchanged|deleted|patched|scaled|serverside-applied)\b` +
	`|\s+(?:Normal|Warning)\s+\S+\s` +
	`|(?:\S+\s+)?(?:\d+[smhdy]\w*|<unknown>)\s+(?:\(x\d+ over \w+\)\s+)?(?:Normal|Warning)\s` +
	`|\s+[A-Z]\w+\s+(?:True|False|Unknown)\s)`)

// ruler sets off what a backend quotes of another program.
var ruler = regexp.MustCompile(`(?m)^-{20,}\s*$`)

// isQuoting reports whether the text ends within such a quotation, whose lines are of one error.
func isQuoting(text string) bool {
	return len(text) < maxWrapped && len(ruler.FindAllString(text, -1))%2 != 0
}

// records cuts a text where a line begins a record, and where an error is complete.
func records(text string) []string {
	var out []string
	begin, end := 0, 0
	for line := range strings.Lines(text) {
		ends := record.MatchString(line) && !isQuoting(text[begin:end]) ||
			!strings.HasPrefix(line, indented) && complete(text[begin:end])
		if end > begin && ends {
			out = append(out, text[begin:end])
			begin = end
		}
		end += len(line)
	}
	return append(out, text[begin:])
}

// indented is how kubectl describe and terminals set off what goes on with a column.
var indented = strings.Repeat(" ", 16)

var (
	// unending are the causes whose words may go on in the next line.
	unending = []Cause{causeCertificate, causeTLS, causeServerError}
	// ending are the last words of an error of such a cause.
	ending = regexp.MustCompile(`(?:remote error: tls: [\w ]+|succeeding|handle the request|try again later|more information)$`)
	// ofCall is how the errors begin that end with a cause.
	ofCall = regexp.MustCompile(`failed calling|conversion webhook for`)
)

// complete reports whether the text ends with a whole error of a call, so that its
// next line is about something else.
func complete(text string) bool {
	if len(text) > maxWrapped || !ofCall.MatchString(text) {
		return false
	}
	text = unwrapped(text)
	if strings.Count(text, `"`)%2 != 0 || strings.Count(text, "(") != strings.Count(text, ")") ||
		strings.HasSuffix(text, ":") {
		return false
	}
	found := parsed(text)
	if len(found) == 0 {
		return false
	}
	last := found[len(found)-1].Cause
	if slices.Contains(unending, last) {
		return ending.MatchString(text)
	}
	return slices.ContainsFunc(callCauses, func(c cause) bool { return c.Cause == last })
}
