package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// maxDocument is the most that one document may hold, a List of a whole
// cluster's webhooks included.
const maxDocument = 64 << 20

// document is a piece of a file that can be parsed by itself.
type document struct {
	// line is the number of its first line in the file.
	line int
	data []byte
	// json says that it begins as JSON does.
	json bool
	// tooLarge says that data was dropped.
	tooLarge bool
	// trailing says that it follows an object of JSON, and is neither another one
	// nor set apart by a marker.
	trailing bool
}

// add appends what fits.
func (d *document) add(line []byte) {
	if len(d.data)+len(line) > maxDocument {
		d.tooLarge, d.data = true, nil
	}
	if !d.tooLarge {
		d.data = append(d.data, line...)
	}
}

// splitter cuts a stream into documents by looking at how lines begin and at
// the braces of JSON.
type splitter struct {
	r *bufio.Reader
	// line is the number of the last line read.
	line int
	// again is the rest of a line that was handed back.
	again []byte
	// afterJSON says that the last document was an object of JSON.
	afterJSON bool
}

func newSplitter(r io.Reader) *splitter {
	return &splitter{r: bufio.NewReaderSize(r, 256<<10)}
}

// next returns the next document, or io.EOF. After any other error what was
// read of a document is lost: half of one says nothing.
func (s *splitter) next() (document, error) {
	line, err := s.first()
	if err != nil {
		return document{}, err
	}
	d := document{line: s.line, json: beginsJSON(line)}
	d.trailing = s.afterJSON && !opensJSON(line)
	s.afterJSON = false
	var open nesting
	for ; err == nil; line, err = s.readLine() {
		if s.line > d.line && ends(line) {
			s.again = line
			return d, nil
		}
		end := len(line)
		if d.json {
			end = open.end(line)
		}
		d.add(line[:end])
		if d.json && open.depth == 0 {
			s.again, s.afterJSON = line[end:], true
			return d, nil
		}
	}
	if errors.Is(err, io.EOF) {
		return d, nil
	}
	return document{}, err
}

// The output of kubectl cluster-info dump has the logs of all containers
// between its JSON objects.
const (
	logsStart = "==== START logs for container "
	logsEnd   = "==== END logs for container "
)

// first skips what stands between documents and returns the first line of the
// next.
func (s *splitter) first() ([]byte, error) {
	for {
		line, err := s.readLine()
		switch {
		case err != nil:
			return nil, err
		case bytes.HasPrefix(line, []byte(logsStart)):
			s.skipLogs()
			continue
		case ends(line):
			// What follows the marker on its line belongs to the document.
			copy(line, "   ")
			s.afterJSON = false
		}
		if hasContent(line) {
			return line, nil
		}
	}
}

func (s *splitter) skipLogs() {
	for {
		line, err := s.readLine()
		if err != nil || bytes.HasPrefix(line, []byte(logsEnd)) {
			return
		}
	}
}

// readLine returns the next line, cut off after maxDocument and a byte, or the
// error if there is nothing more. It is valid until the next call.
func (s *splitter) readLine() ([]byte, error) {
	if again := s.again; len(again) > 0 {
		s.again = nil
		return again, nil
	}
	line, err := s.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = s.readLong(bytes.Clone(line))
	}
	if len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
		s.line++
		return line, nil
	}
	return nil, err
}

func (s *splitter) readLong(line []byte) ([]byte, error) {
	for {
		more, err := s.r.ReadSlice('\n')
		if len(line) <= maxDocument {
			line = append(line, more...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// ends reports whether the line is one that ends a document.
func ends(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0
}

// hasContent reports whether the line is neither blank nor a comment nor a
// directive.
func hasContent(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#' && line[0] != '%'
}

// beginsJSON reports whether a document that begins with the line is an object
// of JSON. One in YAML's flow style has no quotes after its brace.
func beginsJSON(line []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("{"))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '"' || rest[0] == '}')
}

// opensJSON reports whether the line begins an object or a list.
func opensJSON(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && (line[0] == '{' || line[0] == '[')
}

// nesting follows the braces and brackets of JSON.
type nesting struct {
	depth   int
	quoted  bool
	escaped bool
}

// end returns where in the line the outermost value ends, else its length.
func (n *nesting) end(line []byte) int {
	for i, c := range line {
		switch {
		case n.escaped:
			n.escaped = false
		case n.quoted:
			n.escaped = c == '\\'
			n.quoted = c != '"'
		case c == '"':
			n.quoted = true
		case c == '{' || c == '[':
			n.depth++
		case c == '}' || c == ']':
			if n.depth--; n.depth <= 0 {
				n.depth = 0
				return i + 1
			}
		}
	}
	return len(line)
}
