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

// maxEvent bounds a line: an API server takes objects of 3 MiB, and an event may hold two
// of them.
const maxEvent = 8 << 20

// Read reads the logs, as many at a time as there are cores. The errors name what cannot be
// read, and what holds no audit event; the rest is read.
func (l AuditLogs) Read(ctx context.Context) (*inventory.AuditLog, []inventory.Error) {
	files, errs := l.files()
	t := newAuditTable(l)
	open := make(chan bool, runtime.GOMAXPROCS(0))
	failed := make([][]inventory.Error, len(files))
	var readers sync.WaitGroup
	for i, file := range files {
		open <- true
		readers.Go(func() {
			failed[i] = t.readFile(ctx, file)
			<-open
		})
	}
	readers.Wait()
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
	isText := strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jsonl")
	return isText && (strings.Contains(name, "audit") || strings.Contains("/"+folder, "/audit_logs/"))
}

func auditError(file string, err error) inventory.Error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file is truncated: what precedes is read")
	}
	return inventory.Error{Source: inventory.Source{File: file}, Message: shortened(err).Error()}
}

func (t *auditTable) readFile(ctx context.Context, path string) []inventory.Error {
	in := t.logs.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return []inventory.Error{auditError(path, err)}
		}
		defer f.Close()
		in = f
	}
	if err := t.readLog(ctx, path, in); err != nil {
		return []inventory.Error{auditError(path, err)}
	}
	return nil
}

// readLog reads a log, one that is compressed, or those of a tar archive.
func (t *auditTable) readLog(ctx context.Context, name string, in io.Reader) error {
	const tarMagic = 257
	buffered := bufio.NewReaderSize(in, 64<<10)
	start, _ := buffered.Peek(tarMagic + 5)
	switch {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")):
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		return t.readLog(ctx, name, unpacked)
	case len(start) > tarMagic && string(start[tarMagic:]) == "ustar":
		return t.readArchive(ctx, name, tar.NewReader(buffered))
	}
	return t.readLines(ctx, name, buffered)
}

func (t *auditTable) readArchive(ctx context.Context, name string, members *tar.Reader) error {
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
		if err := t.readLog(ctx, name+"!"+member.Name, members); err != nil {
			return fmt.Errorf("%s: %w", member.Name, err)
		}
	}
}

// readLines reads the lines of a log. Of those that concern neither webhooks nor policies,
// which are nearly all, the first and the last say what time it covers.
func (t *auditTable) readLines(ctx context.Context, name string, in *bufio.Reader) error {
	read, last := progress{file: name}, []byte(nil)
	defer func() {
		t.add(read, decoded{to: stageTime(last)}, nil)
	}()
	for {
		line, size, err := readLine(in)
		read.line++
		read.bytes += int64(size)
		d, broken := decoded{}, error(nil)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if d, broken = t.decode(line, size); last == nil {
				d.from = earliest(d.from, stageTime(line))
			}
			last = append(last[:0], line...)
			read.lines++
		}
		if !d.isEmpty() || broken != nil || read.bytes > 1<<20 {
			t.add(read, d, broken)
			read.bytes, read.lines = 0, 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// decode returns what a line of the size holds, and why it is no event.
func (t *auditTable) decode(line []byte, size int) (decoded, error) {
	d := decoded{asked: t.logs.RequestID}
	if size > maxEvent {
		return d, fmt.Errorf("it is longer than %d MiB", maxEvent>>20)
	}
	err := d.line(line)
	return d, err
}

// readLine returns the next line, as far as it is no longer than an event, and its size.
func readLine(in *bufio.Reader) (line []byte, size int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		size += len(part)
		if line == nil && !errors.Is(err, bufio.ErrBufferFull) {
			return part, size, err
		}
		line = append(line, part[:min(len(part), maxEvent-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
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
	logs     AuditLogs
	mu       sync.Mutex
	result   inventory.AuditLog
	rows     map[inventory.AuditKey]*inventory.AuditSum
	messages map[inventory.Series]map[string]bool
	breaks   []lineError
	// lines and broken count those of each file.
	lines, broken map[string]int64
}

// progress is how far a file was read: lines and bytes are those since the last time.
type progress struct {
	file               string
	line, lines, bytes int64
}

func newAuditTable(l AuditLogs) *auditTable {
	return &auditTable{
		logs: l, rows: map[inventory.AuditKey]*inventory.AuditSum{}, messages: map[inventory.Series]map[string]bool{}, lines: map[string]int64{}, broken: map[string]int64{},
	}
}

// add adds what a line holds, and what was read before it; broken says why it is no event.
func (t *auditTable) add(read progress, d decoded, broken error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Bytes += read.bytes
	t.result.Lines += read.lines
	t.lines[read.file] += read.lines
	if broken != nil {
		t.result.Broken++
		t.broken[read.file]++
		t.breaks = append(t.breaks, lineError{read.file, read.line, shortened(broken).Error()})
		slices.SortFunc(t.breaks, func(a, b lineError) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line)) })
		t.breaks = t.breaks[:min(len(t.breaks), maxBreaks)]
	}
	t.result.From, t.result.To = earliest(t.result.From, d.from), latest(t.result.To, d.to)
	for _, r := range d.rows {
		t.addRow(r)
	}
	t.result.Request = cmp.Or(d.request, t.result.Request)
	if t.logs.Progress != nil {
		t.logs.Progress(t.result.Bytes)
	}
}

// addRow adds requests. Where the table is full, what is left of the key is what
// there are few of.
func (t *auditTable) addRow(r inventory.AuditRow) {
	if messages := t.messages[r.Series]; r.Message != "" && !messages[r.Message] {
		if messages == nil {
			messages = map[string]bool{}
			t.messages[r.Series] = messages
		}
		if len(messages) < maxMessages {
			messages[r.Message] = true
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
