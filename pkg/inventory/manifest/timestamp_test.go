package manifest

import (
	"archive/tar"
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestTaken: an archive says when it was collected, itself or by its files;
// manifests have no time.
func TestTaken(t *testing.T) {
	march, april := time.Date(2024, time.March, 1, 9, 0, 0, 0, time.UTC), time.Date(2024, time.April, 1, 9, 0, 0, 0, time.UTC)
	const (
		namespaceFile = "must-gather.local.1/image/namespaces/a/a.yaml"
		timestampFile = "must-gather.local.1/timestamp"
		// As oc prints it: when it began, and when it ended.
		stamps = "2024-02-29 23:00:00.123456789 -0500 EST m=+0.3\n2024-03-01 04:00:00 -0500 EST m=+900.1\n"
	)
	for name, tc := range map[string]struct {
		files tree
		want  time.Time
	}{
		"its own word":           {tree{namespaceFile: namespace("a"), timestampFile: stamps}, march},
		"that of an image":       {tree{namespaceFile: namespace("a"), "must-gather.local.1/image/timestamp": stamps}, march},
		"of inspect":             {tree{"inspect.local.1/namespaces/a/a.yaml": namespace("a"), "inspect.local.1/timestamp": stamps}, march},
		"the time of its files":  {tree{namespaceFile: namespace("a")}, april},
		"no time":                {tree{namespaceFile: namespace("a"), timestampFile: "this morning, at nine\n\n"}, april},
		"a time that cannot be":  {tree{namespaceFile: namespace("a"), timestampFile: "1970-01-01 00:00:00 +0000 UTC\n"}, april},
		"an insights archive":    {tree{"config/version.json": `{"metadata": {"name": "version"}}`}, april},
		"a dump":                 {tree{"dump/a/replication-controllers.json": "{}", "dump/a/services.json": "{}"}, april},
		"manifests":              {tree{"a.yaml": namespace("a"), "timestamp": stamps}, time.Time{}},
		"a log is newer, unread": {tree{namespaceFile: namespace("a"), "must-gather.local.1/image/namespaces/a/a.log": "x"}, april},
		"recognized further on":  {tree{"a/timestamp": stamps, "b/cluster-scoped-resources/core/nodes/n.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"}, march},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			tc.files.write(t, ".")
			for file := range tc.files {
				must.Succeed(t, os.Chtimes(file, april, april))
			}
			checkTaken(t, ".", nil, tc.want)
			checkTaken(t, "-", packed(t, tc.files, april), tc.want)
			if tc.want.Equal(april) {
				// Archives that are the same each time have no times.
				checkTaken(t, "-", packed(t, tc.files, time.Unix(0, 0)), time.Time{})
			}
		})
	}
}

func checkTaken(t *testing.T, path string, stdin []byte, want time.Time) {
	t.Helper()
	o, summary := Read([]string{path}, Options{Stdin: bytes.NewReader(stdin)})
	if got := summary.Inputs[0].Taken; !got.Equal(want) {
		t.Errorf("%s was taken %s, want %s", path, got, want)
	}
	if len(o.Errors) > 0 {
		t.Error(o.Errors)
	}
}

// packed is the tree as an archive; its logs are newer.
func packed(t *testing.T, files tree, now time.Time) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		must.Add(t, w, &tar.Header{Name: name, Typeflag: tar.TypeReg, ModTime: now}, content)
	}
	must.Add(t, w, &tar.Header{Name: "z.log", Typeflag: tar.TypeReg, ModTime: now.AddDate(1, 0, 0)}, "a log")
	must.Succeed(t, w.Close())
	return b.Bytes()
}
