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

func (d *document) add(line []byte) {
	if len(d.data)+len(line) > maxDocument {
		d.tooLarge, d.data = true, nil
	}
	if !d.tooLarge {
		d.data = append(d.data, line...)
	}
}

// splitter cuts a file into documents, as the YAMLReader of apimachinery does. It
// also counts lines, bounds the size, takes what follows a marker on its line,
// separates JSON objects and skips container logs, none of which YAMLReader can.
type splitter struct {
	r *bufio.Reader
	// line is the number of the last line read.
	line int
	// unread is the last line where it belongs to the next document.
	unread []byte
	// buffer is where documents grow; each is then copied to its size.
	buffer []byte
}

func newSplitter(r io.Reader) *splitter {
	return &splitter{r: bufio.NewReaderSize(r, 256<<10)}
}

// The output of kubectl cluster-info dump has the logs of all containers
// between its JSON objects.
const (
	logsStart = "==== START logs for container "
	logsEnd   = "==== END logs for container "
)

// next returns the next document, or io.EOF. After any other error the start of
// a document is dropped.
func (s *splitter) next() (document, error) {
	d, err := s.collect(document{data: s.buffer})
	s.buffer = nil
	if cap(d.data) <= minCut {
		s.buffer = d.data[:0]
	}
	d.data = bytes.Clone(d.data)
	return d, err
}

func (s *splitter) collect(d document) (document, error) {
	closed := false // the last line ended a JSON object, or a part of it
	for {
		line, err := s.readLine()
		content := bytes.TrimSpace(line)
		started := d.line > 0
		switch {
		case errors.Is(err, io.EOF) && started:
			return d, nil
		case err != nil:
			return document{}, err
		case bytes.HasPrefix(line, []byte(logsStart)):
			s.skipLogs()
			if started {
				return d, nil
			}
			continue
		case started && (isMarker(line) || closed && bytes.HasPrefix(content, []byte("{"))):
			s.unread = line
			return d, nil
		case isMarker(line):
			// The rest of the line belongs to the document.
			copy(line, "   ")
			content = bytes.TrimSpace(line)
		}
		if !started && isBlank(content) {
			continue
		}
		if !started {
			d.line = s.line
		}
		d.add(line)
		if len(content) > 0 {
			// Two braces in a row are two objects: in one, a comma is between them.
			closed = content[len(content)-1] == '}' && isJSON(d.data)
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

// readLine returns the next line, cut off after maxDocument and a byte. It is
// valid until the next call.
func (s *splitter) readLine() ([]byte, error) {
	if line := s.unread; line != nil {
		s.unread = nil
		return line, nil
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

// isJSON reports whether data starts as a JSON object does. One in YAML's flow
// style has no quote after its brace.
func isJSON(data []byte) bool {
	rest, isObject := bytes.CutPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	rest = bytes.TrimLeft(rest, " \t\r")
	return isObject && (len(rest) == 0 || strings.IndexByte("\"}\n", rest[0]) >= 0)
}
