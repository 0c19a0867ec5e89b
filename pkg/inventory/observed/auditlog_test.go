package observed

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// readText reads a log from standard input.
func readText(t testing.TB, text string) (*inventory.AuditLog, []inventory.Error) {
	t.Helper()
	return AuditLogs{Paths: []string{"-"}, Stdin: strings.NewReader(text)}.Read(t.Context())
}

// counted are the requests of each outcome at each webhook, as "type name outcome".
func counted(log *inventory.AuditLog) map[string]int {
	out := map[string]int{}
	for _, r := range log.Rows {
		if r.Outcome == inventory.AuditChanged {
			continue
		}
		out[fmt.Sprintf("%s %s %s", r.Type, r.Name, r.Outcome)] += r.Requests
	}
	return out
}

func compareCounts(t *testing.T, got, want map[string]int) {
	t.Helper()
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%s: %d requests, want %d", key, got[key], n)
		}
		delete(got, key)
	}
	for key, n := range got {
		t.Errorf("%s: %d requests, want none", key, n)
	}
}

// sampleLog has lines that kube-apiserver 1.37.1 wrote.
const sampleLog = "testdata/audit.log"

var sampleCounts = map[string]int{
	"admit label.team.example mutated":                  4,
	"admit label.team.example failed":                   1, // a patch on DELETE
	"admit nochange.team.example unchanged":             4,
	"admit slow.team.example unchanged":                 2,
	"admit gone.team.example failedOpen":                2,
	"admit timeout.team.example failedOpen":             2,
	"admit timeoutfail.team.example failed":             2,
	"admit ww.ord.example mutated":                      1, // called twice for one request
	"validating gone.registry.example failedOpen":       2,
	"validating deny.registry.example denied":           3,
	"validating dead.registry.example failed":           2,
	"validating broken.registry.example failed":         2,
	"validating delopen.example.com failedOpen":         1,
	"validatingpolicy needs-owner.team.example denied":  4, // two of them are audited as well
	"validatingpolicy needs-owner.team.example audited": 2,
}

// TestAuditLog counts each request once at each webhook, whatever the file looks like.
func TestAuditLog(t *testing.T) {
	text := must.Get(os.ReadFile(sampleLog))(t)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		must.Write(t, path, string(content))
		return path
	}
	half := bytes.Index(text, []byte("\n{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Request\"")) + 1
	const folder = "quay-io/audit_logs/kube-apiserver/"
	gather := map[string][]byte{
		folder + "master-0-audit-2026-11-23T19-12-02.log.gz": must.Gzip(t, text[:half]),
		folder + "master-0-audit.log.gz":                     must.Gzip(t, text[half:]),
		folder + "kube-apiserver.audit_log_listing":          []byte("audit.log\n"),
		"quay-io/namespaces/x/pods/y/current.log":            []byte("I1123 no audit log\n"),
	}
	for name, content := range gather {
		write("must-gather/"+name, content)
	}
	rotated := t.TempDir()
	must.Write(t, filepath.Join(rotated, "audit.log.1"), string(text[:half]))
	must.Write(t, filepath.Join(rotated, "audit.log-20261123.gz"), string(must.Gzip(t, text[half:])))
	must.Write(t, filepath.Join(rotated, "audit.log.sha256"), "3f5a")
	for name, path := range map[string]string{
		"file":        sampleLog,
		"gzip":        write("one.log.gz", must.Gzip(t, text)),
		"must-gather": filepath.Join(dir, "must-gather"),
		"archive":     write("gather.tar", must.Tar(t, gather)),
		"gzip of it":  write("gather.tar.gz", must.Gzip(t, must.Tar(t, gather))),
		"logrotate":   rotated,
		"spaced":      write("spaced.log", bytes.ReplaceAll(text, []byte(`":`), []byte(`": `))),
		"no end":      write("no-end.log", bytes.TrimSpace(text)),
		"returns":     write("returns.log", bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n\r\n"))),
	} {
		t.Run(name, func(t *testing.T) {
			log, errs := AuditLogs{Paths: []string{path}}.Read(t.Context())
			if len(errs) > 0 || log.Broken > 0 {
				t.Errorf("errors %v, broken lines %v", errs, log.Breaks)
			}
			compareCounts(t, counted(log), sampleCounts)
			if from, to := log.From.Format(time.TimeOnly), log.To.Format(time.TimeOnly); log.Lines != 36 || from != "19:12:01" || to != "19:32:16" {
				t.Errorf("%d lines from %s to %s, want 36 from 19:12:01 to 19:32:16", log.Lines, from, to)
			}
		})
	}
}

// eventStart is how an API server begins a line.
const eventStart = `{"kind":"Event","apiVersion":"audit.k8s.io/v1",`

// event is a line of a log.
func event(fields string) string {
	return eventStart + `"stage":"ResponseComplete","verb":"create","user":{"username":"jane"},"objectRef":{"resource":"pods","namespace":"shop","name":"p"},"stageTimestamp":"2026-11-23T19:12:01.5Z",` + fields + "}\n"
}

// TestAuditOutcomes are messages that only real servers of other releases write, and
// texts that only look like those of admission.
func TestAuditOutcomes(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/outcomes.tsv", 3) {
		t.Run(row[1], func(t *testing.T) {
			log, errs := readText(t, event(row[2]))
			if len(errs) > 0 || log.Broken > 0 {
				t.Errorf("errors %v, broken lines %v", errs, log.Breaks)
			}
			want := map[string]int{}
			for key := range strings.SplitSeq(row[0], ", ") {
				want[key] = 1
			}
			delete(want, "")
			compareCounts(t, counted(log), want)
		})
	}
}

// TestAuditKey: who did what to which resource.
func TestAuditKey(t *testing.T) {
	denied := `"responseStatus":{"code":403,"message":"admission webhook \"w\" denied the request: no"}`
	for fields, want := range map[string]string{
		``:                           "CREATE pods shop jane no",
		`"verb":"patch",`:            "UPDATE pods shop jane no",
		`"verb":"deletecollection",`: "DELETE pods shop jane no",
		`"impersonatedUser":{"username":"system:serviceaccount:ci:bot"},`:                                         "CREATE pods shop system:serviceaccount:ci:bot no",
		`"verb":"get","objectRef":{"resource":"pods","subresource":"exec","namespace":"web","name":"p"},`:         "CONNECT pods/exec web jane no",
		`"objectRef":{"resource":"deployments","apiGroup":"apps","namespace":"web","subresource":"scale"},`:       "CREATE deployments.apps/scale web jane no",
		`"objectRef":{"resource":"namespaces","name":"web"},"user":{"username":"system:node:a"},"verb":"update",`: "UPDATE namespaces shop system:node:a no",
	} {
		log, _ := readText(t, event(fields+denied))
		if len(log.Rows) != 1 {
			t.Fatalf("%s: %d rows, want 1", fields, len(log.Rows))
		}
		r := log.Rows[0]
		if got := fmt.Sprintf("%s %s %s %s %s", r.Operation, r.Resource, r.Namespace, r.User, r.Message); got != want {
			t.Errorf("%s: %s, want %s", fields, got, want)
		}
	}
}

// TestAuditMessages: names and numbers do not make two messages of one.
func TestAuditMessages(t *testing.T) {
	expect.Results(t, new(auditEvent).pattern, map[string]string{
		`Pod 'web-1' uses image nginx:1.29, not one of "registry.example"`: `Pod … uses image … not one of …`,
		"cpu 4000m\nexceeds 2":    "cpu … exceeds …",
		strings.Repeat("ä ", 200): strings.Repeat("ä ", 79) + "ä…",
	})
}

// TestBrokenLines are counted and named, and spoil no other.
func TestBrokenLines(t *testing.T) {
	good := event(`"responseStatus":{"code":403,"message":"admission webhook \"w\" denied the request: no"}`)
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"cut off":       {good[:100] + "\n", "it is no JSON object"},
		"text":          {"I1123 started\n", "it is no JSON object"},
		"another JSON":  {`{"kind":"Pod","apiVersion":"v1"}` + "\n", "no event of audit.k8s.io/v1"},
		"within a text": {`{"message":"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\"}"}` + "\n", "no event of audit.k8s.io/v1"},
		"a list":        {`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{"annotations":{"mutation.webhook.admission.k8s.io/round_0_index_0":"{}"}}]}` + "\n", "no event of audit.k8s.io/v1"},
		"syntax":        {eventStart + `"annotations":{"x.webhook.admission.k8s.io/"}}` + "\n", "invalid character"},
		"an annotation": {event(`"annotations":{"mutation.webhook.admission.k8s.io/round_0_index_0":"x"}`), "annotation mutation.webhook.admission.k8s.io/round_0_index_0"},
		"binary":        {"\x00\xff{\x01}\n", "it is no JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			log, errs := readText(t, good+c.text+good)
			if len(errs) > 0 || log.Lines != 3 || log.Broken != 1 || counted(log)["validating w denied"] != 2 {
				t.Fatalf("errors %v; %d lines, %d broken, %v", errs, log.Lines, log.Broken, counted(log))
			}
			if !strings.HasPrefix(log.Breaks[0], "-:2: ") || !strings.Contains(log.Breaks[0], c.want) {
				t.Errorf("%q, want line 2: %q", log.Breaks[0], c.want)
			}
			if _, isEvent := strings.CutPrefix(c.want, "annotation"); isEvent {
				return
			}
			if log, errs := readText(t, c.text); len(errs) != 1 || !strings.Contains(errs[0].Message, c.want) || log.Broken != 1 {
				t.Errorf("a file of such a line: errors %v, %d broken", errs, log.Broken)
			}
		})
	}
	log, errs := readText(t, strings.Repeat("x\n", 100)+good)
	if len(errs) > 0 || log.Broken != 100 || len(log.Breaks) != maxBreaks {
		t.Errorf("errors %v, %d broken lines, %d named", errs, log.Broken, len(log.Breaks))
	}
}

// TestAuditLogErrors: what cannot be read is named, the rest is read.
func TestAuditLogErrors(t *testing.T) {
	dir := t.TempDir()
	text := must.Get(os.ReadFile(sampleLog))(t)
	short := must.Gzip(t, bytes.Repeat(text, 20))
	truncated := filepath.Join(dir, "truncated.log.gz")
	must.Write(t, truncated, string(short[:len(short)-20]))
	empty := t.TempDir()
	log, errs := AuditLogs{Paths: []string{sampleLog, truncated, filepath.Join(dir, "none.log"), empty}}.Read(t.Context())
	var got []string
	for _, e := range errs {
		got = append(got, e.Message)
	}
	for _, want := range []string{"the file is truncated", "no such file", "it holds no audit log"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if _, errs := (AuditLogs{Paths: []string{""}}).Read(t.Context()); len(errs) != 1 || !strings.Contains(errs[0].Message, "no such file") {
		t.Errorf("an empty path: %v", errs)
	}
	if n := counted(log)["validating deny.registry.example denied"]; n < 3*20 {
		t.Errorf("%d denials, want those before the end of the truncated file too", n)
	}
	for text, want := range map[string]string{"": "no line of it is an event", event(`"a":""`) + strings.Repeat("x", maxEvent+1): "an event is longer than 8 MiB"} {
		if _, errs := readText(t, text); len(errs) != 1 || !strings.Contains(errs[0].Message, want) {
			t.Errorf("%.20q: %v", text, errs)
		}
	}
}

// TestAuditBounds: however many names a log holds, the counts of a webhook stay exact.
func TestAuditBounds(t *testing.T) {
	table := newAuditTable(AuditLogs{})
	const requests = maxRows + 1000
	for i := range requests {
		key := inventory.AuditKey{Series: inventory.Series{Type: inventory.Validating, Name: "w"}, Outcome: inventory.AuditDenied}
		key.User, key.Message = fmt.Sprint("user", i), fmt.Sprint("message ", i%1000)
		table.addRow(key, time.Time{})
	}
	log := table.log()
	if n := counted(log)["validating w denied"]; n != requests || len(log.Rows) > maxRows+1 || log.Merged != 1000 {
		t.Errorf("%d requests in %d rows, %d merged", n, len(log.Rows), log.Merged)
	}
}

// TestAuditRequest is the event that is asked for.
func TestAuditRequest(t *testing.T) {
	log, _ := AuditLogs{Paths: []string{sampleLog}, RequestID: "6ba0ef20-938b-43c2-a9a2-7153a65c700e"}.Read(t.Context())
	r := log.Request
	if r == nil || r.Name != "cm-policy-deny" || r.Code != 422 || r.At[inventory.Series{Type: "validatingpolicy", Name: "needs-owner.team.example"}] != inventory.AuditDenied {
		t.Errorf("%+v", r)
	}
	proxied := strings.Replace(event(`"responseStatus":{"code":201}`), `"stage"`, `"auditID":"a","stage"`, 1)
	mutated := strings.Replace(proxied, `{"code":201}`, `{"code":201},"annotations":{"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"webhook\":\"w\"}"}`, 1)
	for _, text := range []string{proxied + mutated, mutated + proxied} { // an aggregated API server's, and what kube-apiserver says of it
		log, _ := AuditLogs{Paths: []string{"-"}, Stdin: strings.NewReader(text), RequestID: "a"}.Read(t.Context())
		if len(log.Request.Calls) != 1 {
			t.Errorf("the calls of an aggregated API server are not there: %+v", log.Request)
		}
	}
	if log, _ := (AuditLogs{Paths: []string{sampleLog}, RequestID: "none"}).Read(t.Context()); log.Request != nil {
		t.Errorf("%+v", log.Request)
	}
}

// FuzzAuditLog reads anything as a log: each line that is not empty is counted, in
// whatever blocks it is read.
func FuzzAuditLog(f *testing.F) {
	text := must.Get(os.ReadFile(sampleLog))(f)
	for line := range bytes.Lines(text) {
		f.Add(line)
		f.Add(slices.Concat(line[:len(line)/2], []byte("\n"), line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want int64
		for line := range bytes.Lines(data) {
			if len(bytes.TrimSpace(line)) > 0 {
				want++
			}
		}
		table := newAuditTable(AuditLogs{RequestID: "x"})
		err := table.readEvents(t.Context(), "x", bufio.NewScanner(iotest.OneByteReader(bytes.NewReader(data))))
		if got := table.result; err != nil && got.Broken < got.Lines || got.Lines != want || got.Broken > want || got.Bytes != int64(len(data)) {
			t.Errorf("%d lines, %d broken, %d bytes, want %d lines of %d bytes; %v", got.Lines, got.Broken, got.Bytes, want, len(data), err)
		}
	})
}
