package main

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// TestSeveralContexts: one report of two clusters and of one that does not exist.
func TestSeveralContexts(t *testing.T) {
	kubeconfig := fakeCluster(t)
	flags := []string{"audit", "--kubeconfig", kubeconfig, "--context", "here", "--context", "nowhere", "--context", "there", "--fail-on", "never"}
	t.Run("JSON", func(t *testing.T) {
		got := execute(t, "", append(flags, "-o", "json")...)
		var d report.Document
		if err := json.Unmarshal([]byte(got.out), &d); err != nil || got.code != exitError {
			t.Fatalf("exit code %d, %v: %s", got.code, err, got.err)
		}
		counts := map[string]int{}
		for _, w := range d.Webhooks {
			counts[w.Context]++
		}
		if len(counts) != 2 || counts["here"] != counts["there"] || counts["here"] == 0 || d.Totals.Webhooks != len(d.Webhooks) {
			t.Errorf("webhooks by context are %v, %d in all", counts, d.Totals.Webhooks)
		}
		if !strings.Contains(got.err, "context nowhere: ") {
			t.Errorf("stderr lacks the context that does not exist:\n%s", got.err)
		}
	})
	t.Run("text", func(t *testing.T) {
		got := execute(t, "", flags...)
		expect.Contains(t, got.out, "Context here:\n", "Context nowhere:\n", "Context there:\n")
	})
	t.Run("a webhook of all", func(t *testing.T) {
		got := execute(t, "", append(flags, "-o", "json", "validatingwebhookconfiguration/policy")...)
		if strings.Contains(got.out, "widgets.example.com") || strings.Count(got.out, `"context": "here"`) == 0 {
			t.Errorf("the report is\n%s", got.out)
		}
	})
	t.Run("table", func(t *testing.T) {
		got := execute(t, "", append(flags, "-o", "table")...)
		_, clusters, _ := strings.Cut(got.out, "\n\nCONTEXT ")
		lines := strings.Split(clusters, "\n")
		if len(lines) != 5 || strings.Join(strings.Fields(lines[1]), " ") != "nowhere not read - - - - 1" || !strings.HasPrefix(lines[2], "here ") {
			t.Errorf("the table by cluster is\n%s", got.out)
		}
	})
	t.Run("HTML", func(t *testing.T) {
		got := execute(t, "", append(flags, "-o", "html")...)
		if got.code != exitError || strings.Count(got.out, `<div id="clusters/`) != 3 || !strings.Contains(got.err, "context nowhere: ") {
			t.Errorf("exit code %d, %s, the page is\n%s", got.code, got.err, got.out)
		}
	})
	for _, wrong := range []string{"--watch", "--baseline=x", "-o=sarif", "--observe=apiserver", "manifests"} {
		if got := execute(t, "", append(flags, wrong)...); got.code != exitUsage || !strings.Contains(got.err, "--context: must be given") {
			t.Errorf("%s: exit code %d, %s", wrong, got.code, got.err)
		}
	}
}

// TestContextNames: names with commas are as several flags; all contexts are those of
// other clusters or users.
func TestContextNames(t *testing.T) {
	kubeconfig := fakeCluster(t)
	for _, test := range []struct {
		flags []string
		want  []string
	}{
		{[]string{"--context=here,there"}, []string{"here", "there"}},
		{[]string{"--context=here,there", "--context=here"}, []string{"here", "there"}},
		{[]string{"--all-contexts"}, []string{"here"}}, // there is of the same cluster and user
	} {
		got := execute(t, "", append([]string{"audit", "--kubeconfig", kubeconfig, "-o=json", "--fail-on=never"}, test.flags...)...)
		var d report.Document
		if err := json.Unmarshal([]byte(got.out), &d); err != nil {
			t.Fatalf("%v: %v: %s", test.flags, err, got.err)
		}
		var names []string
		for _, c := range d.Contexts {
			names = append(names, c.Context)
		}
		if !slices.Equal(names, test.want) {
			t.Errorf("%v reads %v, want %v", test.flags, names, test.want)
		}
	}
	for flag, want := range map[string]string{
		"--context=here,":               "must be names, with a comma between two",
		"--all-contexts --context=here": "--all-contexts: must be given without --context",
		"--all-contexts manifests":      "must be given without PATH",
	} {
		got := execute(t, "", append([]string{"audit", "--kubeconfig", kubeconfig}, strings.Fields(flag)...)...)
		if got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit code %d, %s", flag, got.code, got.err)
		}
	}
	empty := must.File(t, "kubeconfig", "apiVersion: v1\nkind: Config\n")
	if got := execute(t, "", "audit", "--kubeconfig", empty, "--all-contexts"); got.code != exitUsage || !strings.Contains(got.err, "has no context") {
		t.Errorf("no context: exit code %d, %s", got.code, got.err)
	}
}

// TestHangingContexts: more contexts than are read at once hang, whatever becomes of
// their own context, and the others are read all the same.
func TestHangingContexts(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	var names []string
	for i := range 2 * contextsAtOnce {
		names = append(names, "hangs-"+strconv.Itoa(i))
	}
	names = append(names, "answers")
	reads := contextRead[string]{names, 200 * time.Millisecond, time.Millisecond, func(_ context.Context, name string, _ streams) (string, error) {
		if name != "answers" {
			<-never
		}
		return name, nil
	}}
	got := reads.all(t.Context(), streams{err: io.Discard})
	for i, outcome := range got[:len(names)-1] {
		if want := "reading the cluster: timed out after 200ms: see what it waits for with --context " + names[i] + " alone"; outcome.err == nil || outcome.err.Error() != want {
			t.Errorf("%s: %v, want %s", names[i], outcome.err, want)
		}
	}
	if last := got[len(names)-1]; last.value != "answers" || last.err != nil {
		t.Errorf("the one that answers: %+v", last)
	}
}

// TestTopOfContexts: one table of two clusters and of one that does not exist.
func TestTopOfContexts(t *testing.T) {
	kubeconfig := fakeCluster(t)
	flags := []string{"top", "--kubeconfig", kubeconfig, "--context=here,nowhere,there", "--observe-for=1s"}
	got := execute(t, "", append(flags, "-o", "json")...)
	var top report.Top
	if err := json.Unmarshal([]byte(got.out), &top); err != nil || got.code != exitError || len(top.Contexts) != 3 {
		t.Fatalf("exit code %d, %v: %s", got.code, err, got.err)
	}
	if !strings.Contains(got.err, "context nowhere: ") {
		t.Errorf("stderr lacks the context that does not exist:\n%s", got.err)
	}
	if got := execute(t, "", append(flags, "--prometheus-url=http://127.0.0.1:1")...); got.code != exitUsage || !strings.Contains(got.err, "one --context") {
		t.Errorf("one Prometheus of several clusters: exit code %d, %s", got.code, got.err)
	}
}

// TestLastContextOfOneCluster: a command that reads one cluster takes the last
// --context, as kubectl does.
func TestLastContextOfOneCluster(t *testing.T) {
	kubeconfig := fakeCluster(t)
	got := execute(t, "", "explain", "--kubeconfig", kubeconfig, "--context", "nowhere", "--context", "here", "create", "pods")
	if strings.Contains(got.err, "nowhere") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}
