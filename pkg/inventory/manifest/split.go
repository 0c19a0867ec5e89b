package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// maxDocument bounds the size of one document, a List of all webhooks of a
// cluster included.
const maxDocument = 64 << 20

// document is a part of a file that can be parsed by itself.
type document struct {
	// line is the number of its first line in the file.
	line int
	data []byte
	// tooLarge is set where data was dropped.
	tooLarge bool
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
	emit func(document)
	// line is the number of the current line.
	line   int
	inLogs bool
	// current is what was read of a document.
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
			s.current.add(chunk)
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
	s.current.add(line)
}

func (d *document) add(line []byte) {
	if d.line == 0 { // a long comment
		return
	}
	if len(d.data)+len(line) > maxDocument {
		d.tooLarge, d.data = true, nil
	}
	if !d.tooLarge {
		d.data = append(d.data, line...)
	}
}

// flush passes the current document on, and starts the next one, in the same memory
// unless that is large.
func (s *splitter) flush() {
	d := s.current
	s.current = document{}
	if cap(d.data) <= 1<<20 {
		s.current.data = d.data[:0]
		d.data = bytes.Clone(d.data)
	}
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
