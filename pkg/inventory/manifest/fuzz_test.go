package manifest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func documents(t testing.TB) []string {
	t.Helper()
	files := must.Get(filepath.Glob("testdata/read/*"))(t)
	var out []string
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		out = append(out, strings.Split(string(data), "---\n")...)
	}
	return out
}

// FuzzRead reads anything as a file. Whatever it is, all objects and errors have
// a line of it.
func FuzzRead(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d))
		f.Add([]byte(d + "---\n" + hookYAML))
	}
	f.Add(must.Gzip(f, []byte(hookYAML)))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, summary := Read([]string{"-"}, Options{Stdin: bytes.NewReader(data)})
		if len(summary.Inputs) != 1 || summary.Inputs[0].Objects > len(data) {
			t.Errorf("%+v", summary)
		}
		if bytes.HasPrefix(data, []byte(gzipMagic)) || len(data) > 262 && isTar(data[:262]) {
			return
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for key, source := range o.Sources {
			if source.File != stdinName || source.Line < 1 || source.Line > lines {
				t.Errorf("%v at %v of %d lines", key, source, lines)
			}
		}
		for _, e := range o.Errors {
			if e.Source.File != stdinName || e.Source.Line > lines+1 || e.Message == "" {
				t.Errorf("%#v of %d lines", e, lines)
			}
		}
	})
}

// FuzzReadArchive reads anything as an archive, packed and not. To minimize an archive
// takes all the time there is:
//
//	go test -fuzz=FuzzReadArchive -fuzzminimizetime=1x ./pkg/inventory/manifest
func FuzzReadArchive(f *testing.F) {
	f.Add(mustGatherTree().tar(f))
	f.Add(must.Gzip(f, mustGatherTree().tar(f)))
	f.Add(tree{"../a.yaml": hookYAML, "b/c.json": "{}"}.tar(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		little := limits{objects: 100, entries: 100, member: 1 << 20, members: 1 << 20}
		for _, packed := range [][]byte{data, must.Gzip(t, data)} {
			o, _ := Read([]string{"-"}, Options{Stdin: bytes.NewReader(packed), limits: little})
			for _, e := range o.Errors {
				if !strings.HasPrefix(e.Source.File, stdinName) && e.Source.File != "" || e.Message == "" {
					t.Errorf("%#v", e)
				}
			}
		}
	})
}

// TestReadKeepsOrder reads more documents than are under way at once.
func TestReadKeepsOrder(t *testing.T) {
	var b strings.Builder
	for range 3000 {
		b.WriteString("---\n" + namespace("a") + "  labels:\n    line: \"x\"\n")
	}
	b.WriteString("---\n" + namespace("a") + "  labels:\n    line: last\n")
	o, summary := Read([]string{"-"}, Options{Stdin: strings.NewReader(b.String())})
	if got := o.Namespaces[0].Labels["line"]; got != "last" || summary.Inputs[0].Objects != 1 || len(o.Errors) != 0 {
		t.Errorf("%q, %+v, %v", got, summary, o.Errors)
	}
	key := inventory.SourceKey{Kind: "Namespace", Name: "a"}
	if got := o.Sources[key].Line; got != 3000*7+2 {
		t.Error(got)
	}
}
