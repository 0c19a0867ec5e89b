package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// maxDocument bounds the size of one document, a List of all webhooks of a
// cluster included.
const maxDocument = 64 << 20

// listPart is the size from which the items of a list are passed on that are there: parsed, JSON
// takes several times its size.
const listPart = 8 << 20

// document is a part of a file that can be parsed by itself.
type document struct {
	// line is the number of its first line in the file.
	line int
	data []byte
	// tooLarge is set where data was dropped.
	tooLarge bool
	// tried is the size below which items are not looked for again.
	tried int
}

// The output of kubectl cluster-info dump has the logs of all containers
// between its JSON objects.
const (
	logsStart = "==== START logs for container "
	logsEnd   = "==== END logs for container "
)

// splitter cuts a file into documents, as the YAMLReader of apimachinery does. It
// also counts lines, bounds the size, takes what follows a marker on its line and
// skips container logs, none of which YAMLReader can.
type splitter struct {
	emit    func(document)
	line    int
	inLogs  bool
	current document
}

// split passes each document of a file to emit. After an error the start of a
// document is dropped.
func (s *splitter) split(r io.Reader) error {
	lines := bufio.NewReaderSize(r, 256<<10)
	for atStart := true; ; {
		chunk, err := lines.ReadSlice('\n') // a line, or a part of a very long one
		switch {
		case errors.Is(err, io.EOF) && len(chunk) == 0:
			s.flush()
			return nil
		case atStart:
			s.line++
			s.addLine(chunk)
		default:
			s.current.add(chunk, s.emit)
		}
		atStart = !errors.Is(err, bufio.ErrBufferFull)
		if err != nil && atStart && !errors.Is(err, io.EOF) {
			return err
		}
	}
}

func (s *splitter) addLine(line []byte) {
	switch {
	case s.inLogs:
		s.inLogs = !bytes.HasPrefix(line, []byte(logsEnd))
		return
	case bytes.HasPrefix(line, []byte(logsStart)):
		s.inLogs = true
		s.flush()
		return
	case isMarker(line):
		s.flush()
		copy(line, "   ") // the rest of the line belongs to the document
	}
	if s.current.line == 0 {
		if isBlank(bytes.TrimSpace(line)) {
			return
		}
		s.current.line = s.line
	}
	s.current.add(line, s.emit)
}

func (d *document) add(line []byte, emit func(document)) {
	if d.line == 0 { // a long comment
		return
	}
	if len(d.data)+len(line) > max(listPart, d.tried) {
		d.emitItems(emit)
		d.tried = 2 * len(d.data)
	}
	if len(d.data)+len(line) > maxDocument {
		d.tooLarge, d.data = true, nil
	}
	if !d.tooLarge {
		d.data = append(d.data, line...)
	}
}

func (s *splitter) flush() {
	d := s.current
	s.current = document{}
	if d.line > 0 {
		s.emit(d)
	}
}

// isMarker reports whether the line ends a YAML document or starts one.
func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0
}

// isBlank reports whether the trimmed line is empty, a comment or a directive.
func isBlank(content []byte) bool {
	return len(content) == 0 || content[0] == '#' || content[0] == '%'
}

// itemStart is the start of the first item of a list, as kubectl writes JSON and YAML: a line for
// each bracket. The kind of the list follows its items, each of which has its own.
var itemStart = regexp.MustCompile(`(?m)^(?:items:| *"items": \[)[ \t]*\r?\n( *[{-])\s*"?apiVersion"?:`)

// emitItems emits the items of a list but for the last one, which may not be whole, as a list.
func (d *document) emitItems(emit func(document)) {
	first := itemStart.FindSubmatchIndex(d.data)
	if first == nil {
		return
	}
	head, mark := d.data[:first[2]], d.data[first[2]:first[3]]
	last := bytes.LastIndex(d.data[first[2]:], append([]byte("\n"), mark...))
	if last < 0 {
		return
	}
	items, rest := d.data[first[2]:first[2]+last], d.data[first[2]+last+1:]
	end := "\nkind: List\n"
	if bytes.HasSuffix(mark, []byte("{")) {
		items, end = bytes.TrimRight(items, ", \r\n"), "\n],\"kind\":\"List\"}"
	}
	emit(document{line: d.line, data: slices.Concat(head, items, []byte(end))})
	d.line += bytes.Count(d.data[first[2]:first[2]+last+1], []byte("\n"))
	d.data = slices.Concat(head, rest)
}

// pieceSize is from where a list of YAML is cut: parsed, it takes some 15 times its size.
const pieceSize = 1 << 20

// itemsLine is the key of a list in block style, and keyLine the start of a line after it.
var (
	itemsLine = regexp.MustCompile(`(?m)^items:[ \t]*\r?\n`)
	keyLine   = regexp.MustCompile(`(?m)^[^ #\r\n-]`)
)

// pieces are the document itself, or those of a large list in block style: each has some
// of the items, after the lines that are around all of them.
func (d document) pieces(emit func(document)) {
	items := itemsLine.FindIndex(d.data)
	if len(d.data) <= pieceSize || items == nil {
		emit(d)
		return
	}
	list, around := d.data[items[1]:], bytes.Clone(d.data[:items[0]])
	if end := keyLine.FindIndex(list); end != nil {
		around = append(append(around, bytes.TrimRight(list[end[0]:], "\r\n")...), '\n')
		list = list[:end[0]]
	}
	around = append(around, "items:\n"...)
	indent := list[:len(list)-len(bytes.TrimLeft(list, " "))]
	next := fmt.Appendf(nil, "\n%s-", indent)
	line := d.line + bytes.Count(d.data[:items[1]], []byte("\n")) - bytes.Count(around, []byte("\n"))
	for len(list) > 0 {
		end := len(list)
		if end > pieceSize {
			if found := bytes.Index(list[pieceSize:], next); found >= 0 {
				end = pieceSize + found + 1
			}
		}
		emit(document{line: line, data: slices.Concat(around, list[:end])})
		line += bytes.Count(list[:end], []byte("\n"))
		list = list[end:]
	}
}
