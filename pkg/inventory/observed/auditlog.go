package observed

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// AuditLogs says which audit logs to read.
type AuditLogs struct {
	// Paths are files, archives, directories, or "-" for Stdin.
	Paths []string
	Stdin io.Reader
	// RequestID is the auditID of the event to keep; "" for none.
	RequestID string
	// Progress is called with the bytes read.
	Progress func(size int64)
}

// maxEvent bounds a line: an API server takes objects of 3 MiB, and an event may hold two
// of them.
const maxEvent = 8 << 20

// Read reads the logs. The errors name what cannot be read, and what holds no audit event;
// the rest is read.
func (l AuditLogs) Read(ctx context.Context) (*inventory.AuditLog, []inventory.Error) {
	files, errs := l.files()
	t := newAuditTable(l)
	for _, file := range files {
		if err := t.readFile(ctx, file); err != nil {
			errs = append(errs, auditError(file, err))
		}
	}
	if t.result.Lines == 0 && len(errs) == 0 && len(files) > 0 {
		errs = append(errs, auditError(files[0], errors.New("no line of it is an event of "+auditVersion)))
	}
	return t.log(), errs
}

func (l AuditLogs) files() (files []string, errs []inventory.Error) {
	for _, location := range l.Paths {
		if location != "" { // which Clean makes the working directory
			location = filepath.Clean(location) // a file that is named twice counts once
		}
		info, err := os.Stat(location)
		switch {
		case location == "-" || err == nil && !info.IsDir():
			files = append(files, location)
			continue
		case err == nil:
			before := len(files)
			err = filepath.WalkDir(location, func(file string, entry fs.DirEntry, err error) error {
				if err == nil && entry.Type().IsRegular() && isAuditLog(file) {
					files = append(files, file)
				}
				return err
			})
			if err == nil && len(files) == before {
				err = errors.New("it holds no audit log: must be a file, a must-gather of gather_audit_logs, or a directory of *audit*.log")
			}
		}
		if err != nil {
			errs = append(errs, auditError(location, err))
		}
	}
	return lists.Distinct(files), errs
}

// logNames are those of files of text, logrotate's with a number or a date among them.
var logNames = regexp.MustCompile(`\.(log|jsonl?)([-.]\d[-.\d]*)?(\.gz)?$`)

// isAuditLog reports whether a file of a directory or an archive is a log: must-gather
// writes audit_logs/kube-apiserver/NODE-audit-TIME.log.gz, API servers
// audit-TIME.log.
func isAuditLog(file string) bool {
	folder, name := path.Split(filepath.ToSlash(file))
	return logNames.MatchString(name) && (strings.Contains(name, "audit") || strings.Contains("/"+folder, "/audit_logs/"))
}

func auditError(file string, err error) inventory.Error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file is truncated: what precedes is read")
	}
	return inventory.Error{Source: inventory.Source{File: file}, Message: shortened(err).Error()}
}

func (t *auditTable) readFile(ctx context.Context, location string) error {
	if location == "-" {
		return t.readLog(ctx, location, t.logs.Stdin)
	}
	f, err := os.Open(location)
	if err != nil {
		return err
	}
	defer f.Close()
	return t.readLog(ctx, location, f)
}

// readLog reads a log, one that is compressed, or those of a tar archive.
func (t *auditTable) readLog(ctx context.Context, name string, reader io.Reader) error {
	const tarMagic = 257
	buffered := bufio.NewReaderSize(reader, 64<<10)
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
	t.result.Files = append(t.result.Files, name)
	scanner := bufio.NewScanner(buffered)
	if first, _, _ := bytes.Cut(start, []byte("\n")); slices.Contains([]string{"{", "["}, string(bytes.TrimSpace(first))) {
		scanner.Split(scanValue)
	}
	return t.readEvents(ctx, name, scanner)
}

// scanValue splits what jq prints into its values: over many lines, or in an array.
func scanValue(text []byte, atEOF bool) (advance int, value []byte, err error) {
	start := len(text) - len(bytes.TrimLeft(text, " \t\r\n[],"))
	values := json.NewDecoder(bytes.NewReader(text[start:]))
	err = values.Decode((*json.RawMessage)(&value))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && !atEOF { // the rest is not read yet
		return start, nil, nil
	}
	return start + int(values.InputOffset()), value, err
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

// readEvents reads the lines of a log. Those that concern neither webhooks nor policies,
// which are nearly all, say what time it covers. A file of which no line is an event is an
// error.
func (t *auditTable) readEvents(ctx context.Context, name string, scanner *bufio.Scanner) error {
	scanner.Buffer(make([]byte, 0, 64<<10), maxEvent)
	before, broken, reason := t.result.Lines, int64(0), error(nil)
	for number := 1; ctx.Err() == nil && scanner.Scan(); number++ {
		t.count(len(scanner.Bytes()) + 1)
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		t.result.Lines++
		if problem := t.line(line); problem != nil {
			if _, isEvent := problem.(annotationError); !isEvent {
				broken++
				reason = cmp.Or(reason, problem)
			}
			t.breakAt(name, number, problem)
		}
		t.covers(stageTime(line))
	}
	err := ctx.Err()
	if err == nil {
		err = scanner.Err()
	}
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("an event is longer than %d MiB: what follows is not read", maxEvent>>20)
	case err == nil && broken > 0 && broken == t.result.Lines-before:
		return fmt.Errorf("no line of it is an event of %s; the first one: %w", auditVersion, reason)
	default:
		return err
	}
}

func (t *auditTable) count(size int) {
	before := t.result.Bytes
	t.result.Bytes += int64(size)
	if t.logs.Progress != nil && before>>20 != t.result.Bytes>>20 {
		t.logs.Progress(t.result.Bytes)
	}
}

func (t *auditTable) breakAt(file string, line int, problem error) {
	if t.result.Broken++; len(t.result.Breaks) < maxBreaks {
		t.result.Breaks = append(t.result.Breaks, fmt.Sprintf("%s:%d: %v", file, line, shortened(problem)))
	}
}

func (t *auditTable) covers(now time.Time) {
	if now.IsZero() {
		return
	}
	if t.result.From.IsZero() || now.Before(t.result.From) {
		t.result.From = now
	}
	if now.After(t.result.To) {
		t.result.To = now
	}
}

// maxRows bounds the rows, and maxBreaks the lines that are named.
const (
	maxRows   = 200_000
	maxBreaks = 5
)

type auditTable struct {
	logs   AuditLogs
	result inventory.AuditLog
	rows   map[inventory.AuditKey]*inventory.AuditSum
}

func newAuditTable(l AuditLogs) *auditTable {
	return &auditTable{logs: l, rows: map[inventory.AuditKey]*inventory.AuditSum{}}
}

// addRow adds a request. Where the table is full, what is left of the key is what there
// are few of.
func (t *auditTable) addRow(key inventory.AuditKey, eventTime time.Time) {
	if t.rows[key] == nil && len(t.rows) >= maxRows {
		key.Namespace, key.User, key.Message, key.Object, key.Owner = "", "", "", "", ""
		if slices.Contains(inventory.AuditOutcomes, key.Outcome) {
			t.result.Merged++
		}
	}
	if t.rows[key] == nil {
		t.rows[key] = &inventory.AuditSum{}
	}
	t.rows[key].Add(inventory.AuditSum{Requests: 1, First: eventTime, Last: eventTime})
}

func (t *auditTable) log() *inventory.AuditLog {
	for key, sum := range t.rows {
		t.result.Rows = append(t.result.Rows, inventory.AuditRow{AuditKey: key, AuditSum: *sum})
	}
	slices.Sort(t.result.Files)
	return &t.result
}
