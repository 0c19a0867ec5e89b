package observed

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// AuditLogs says which audit logs to read.
type AuditLogs struct {
	// Paths are files, archives, directories, or "-" for Stdin.
	Paths []string
	Stdin io.Reader
	// RequestID is the auditID of the event to keep; "" for none.
	RequestID string
	// Progress is called with the bytes read, by one goroutine at a time.
	Progress func(bytes int64)
}

// The bounds of memory: blocks of lines are read by a few goroutines and decoded
// by as many as there are cores. An API server takes objects of 3 MiB, and an event
// may hold two of them.
const (
	blockSize = 1 << 20
	maxEvent  = 8 << 20
	maxOpen   = 4
)

// block is a part of a file that ends with a line.
type block struct {
	file string
	// first is the number of the first line.
	first int64
	lines []byte
	// tooLong says that it is the beginning of a line of more than maxEvent.
	tooLong bool
}

// Read reads the logs. The errors name what cannot be read, and what holds no audit
// event; the rest is read.
func (l AuditLogs) Read(ctx context.Context) (*inventory.AuditLog, []inventory.Error) {
	files, errs := l.files()
	t := newAuditTable(l)
	blocks := make(chan block)
	var decoders, readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		decoders.Go(func() {
			for b := range blocks {
				t.add(b.file, decodeBlock(b, l.RequestID))
			}
		})
	}
	open := make(chan bool, maxOpen)
	failed := make([][]inventory.Error, len(files))
	for i, file := range files {
		open <- true
		readers.Go(func() {
			failed[i] = l.readFile(file, func(b block) error {
				blocks <- b
				return ctx.Err()
			})
			<-open
		})
	}
	readers.Wait()
	close(blocks)
	decoders.Wait()
	errs = append(errs, slices.Concat(failed...)...)
	return t.log(), append(errs, t.foreign()...)
}

// files are those that the paths stand for.
func (l AuditLogs) files() (files []string, errs []inventory.Error) {
	for _, path := range l.Paths {
		info, err := os.Stat(path)
		switch {
		case path == "-" || err == nil && !info.IsDir():
			files = append(files, path)
			continue
		case err == nil:
			var found []string
			if found, err = auditLogsIn(path); err == nil && len(found) == 0 {
				err = errors.New("it holds no audit log: must be a file, a must-gather of gather_audit_logs, or a directory of *audit*.log")
			}
			files = append(files, found...)
		}
		if err != nil {
			errs = append(errs, auditError(path, err))
		}
	}
	return text.Distinct(files), errs
}

func auditLogsIn(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && isAuditLog(path) {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// isAuditLog reports whether a file of a directory or an archive is a log: must-gather
// writes audit_logs/kube-apiserver/NODE-audit-TIME.log.gz, API servers
// audit-TIME.log.
func isAuditLog(file string) bool {
	folder, name := path.Split(filepath.ToSlash(file))
	name = strings.TrimSuffix(name, ".gz")
	known := strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jsonl")
	return known && (strings.Contains(name, "audit") || strings.Contains("/"+folder, "/audit_logs/"))
}

func auditError(file string, err error) inventory.Error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file is truncated: what precedes is read")
	}
	return inventory.Error{Source: inventory.Source{File: file}, Message: shortened(err).Error()}
}

func (l AuditLogs) readFile(path string, emit func(block) error) []inventory.Error {
	in := l.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return []inventory.Error{auditError(path, err)}
		}
		defer f.Close()
		in = f
	}
	if err := readLog(path, in, emit); err != nil {
		return []inventory.Error{auditError(path, err)}
	}
	return nil
}

// readLog reads a log, one that is compressed, or those of a tar archive.
func readLog(name string, in io.Reader, emit func(block) error) error {
	const tarMagic = 257
	buffered := bufio.NewReaderSize(in, 4<<10)
	start, _ := buffered.Peek(tarMagic + 5)
	switch {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")):
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		return readLog(name, unpacked, emit)
	case len(start) > tarMagic && string(start[tarMagic:]) == "ustar":
		return readArchive(name, tar.NewReader(buffered), emit)
	}
	return splitLines(name, buffered, emit)
}

func readArchive(name string, members *tar.Reader, emit func(block) error) error {
	for {
		member, err := members.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath): // nothing is unpacked to disk
			return err
		}
		if member.Typeflag != tar.TypeReg || !isAuditLog(member.Name) {
			continue
		}
		if err := readLog(name+"!"+member.Name, members, emit); err != nil {
			return fmt.Errorf("%s: %w", member.Name, err)
		}
	}
}

// splitLines reads blocks of whole lines.
func splitLines(name string, in io.Reader, emit func(block) error) error {
	next := block{file: name, first: 1}
	pending := make([]byte, 0, blockSize)
	for {
		read, err := fill(in, pending)
		end := bytes.LastIndexByte(read, '\n') + 1
		if err != nil {
			end = len(read)
		}
		switch {
		case end > 0 || err != nil:
			next.lines = read[:end]
			pending = append(make([]byte, 0, min(max(blockSize, 2*len(read[end:])), maxEvent+1)), read[end:]...)
			if stop := emit(next); stop != nil {
				return stop
			}
			next = block{file: name, first: next.first + int64(bytes.Count(next.lines, []byte("\n")))}
		case next.tooLong || len(read) > maxEvent:
			next.tooLong, pending = true, read[:0]
		default:
			pending = append(make([]byte, 0, min(2*cap(read), maxEvent+1)), read...)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// fill reads until the buffer is full, or the end.
func fill(in io.Reader, buffer []byte) ([]byte, error) {
	for len(buffer) < cap(buffer) {
		n, err := in.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if err != nil {
			return buffer, err
		}
	}
	return buffer, nil
}

// maxRows bounds the rows, maxMessages the different messages of one webhook, and
// maxBreaks the lines that are named.
const (
	maxRows     = 200_000
	maxMessages = 100
	maxBreaks   = 5
)

// auditTable adds up what the decoders find. It is safe for concurrent use.
type auditTable struct {
	mu       sync.Mutex
	result   inventory.AuditLog
	rows     map[inventory.AuditKey]*inventory.AuditSum
	messages map[inventory.Series]map[string]bool
	breaks   []lineError
	// lines and broken count those of each file.
	lines, broken map[string]int64
	progress      func(int64)
}

func newAuditTable(l AuditLogs) *auditTable {
	return &auditTable{
		rows: map[inventory.AuditKey]*inventory.AuditSum{}, messages: map[inventory.Series]map[string]bool{}, lines: map[string]int64{}, broken: map[string]int64{}, progress: l.Progress,
	}
}

func (t *auditTable) add(file string, d decoded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Bytes += d.bytes
	t.result.Lines += d.lines
	t.result.Broken += int64(len(d.breaks))
	t.lines[file] += d.lines
	t.broken[file] += int64(len(d.breaks))
	t.breaks = append(t.breaks, d.breaks...)
	slices.SortFunc(t.breaks, func(a, b lineError) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line)) })
	t.breaks = t.breaks[:min(len(t.breaks), maxBreaks)]
	t.result.From, t.result.To = earliest(t.result.From, d.from), latest(t.result.To, d.to)
	for _, r := range d.rows {
		t.addRow(r)
	}
	t.result.Request = cmp.Or(d.request, t.result.Request)
	if t.progress != nil {
		t.progress(t.result.Bytes)
	}
}

// addRow adds requests. Where the table is full, what is left of the key is what
// there are few of.
func (t *auditTable) addRow(r inventory.AuditRow) {
	if known := t.messages[r.Series]; r.Message != "" && !known[r.Message] {
		if known == nil {
			known = map[string]bool{}
			t.messages[r.Series] = known
		}
		if len(known) < maxMessages {
			known[r.Message] = true
		} else {
			r.Message = "(other messages)"
		}
	}
	if t.rows[r.AuditKey] == nil && len(t.rows) >= maxRows {
		r.Namespace, r.User, r.Message = "", "", ""
		t.result.Merged += r.Requests
	}
	if t.rows[r.AuditKey] == nil {
		t.rows[r.AuditKey] = &inventory.AuditSum{}
	}
	t.rows[r.AuditKey].Add(r.AuditSum)
}

// log is the result, when all is added.
func (t *auditTable) log() *inventory.AuditLog {
	for key, sum := range t.rows {
		t.result.Rows = append(t.result.Rows, inventory.AuditRow{AuditKey: key, AuditSum: *sum})
	}
	slices.SortFunc(t.result.Rows, func(a, b inventory.AuditRow) int { return a.Compare(b.AuditKey) })
	for _, b := range t.breaks {
		t.result.Breaks = append(t.result.Breaks, fmt.Sprintf("%s:%d: %s", b.file, b.line, b.reason))
	}
	t.result.Files = slices.Sorted(maps.Keys(t.lines))
	return &t.result
}

// foreign are the files that are no audit logs.
func (t *auditTable) foreign() []inventory.Error {
	var out []inventory.Error
	for _, file := range t.result.Files {
		reason := "no line of it is an event of audit.k8s.io/v1"
		if i := slices.IndexFunc(t.breaks, func(b lineError) bool { return b.file == file }); i >= 0 {
			reason += "; the first one: " + t.breaks[i].reason
		}
		rotated := t.lines[file] == 0 && t.result.Lines > 0 // an API server has begun it just now
		if t.lines[file] == t.broken[file] && !rotated {
			out = append(out, auditError(file, errors.New(reason)))
		}
	}
	return out
}
