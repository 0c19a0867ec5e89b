package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestDemo: what plays serves its page and metrics until the program is stopped.
func TestDemo(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"demo"}, streams{reader: strings.NewReader(""), out: writer, err: io.Discard})
		writer.Close()
	}()
	var out strings.Builder
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`)
	for buffer := make([]byte, 4096); !address.MatchString(out.String()); {
		n, err := reader.Read(buffer)
		out.Write(buffer[:n])
		if err != nil {
			t.Fatalf("%v after:\n%s", err, out.String())
		}
	}
	go io.Copy(io.Discard, reader)
	metrics := address.FindString(out.String())
	for target, want := range map[string]string{metrics: "webhook_auditor_webhook_info{", strings.TrimSuffix(metrics, "metrics"): "· recorded at <time"} {
		answer := must.Get(http.Get(target))(t)
		body := must.Get(io.ReadAll(answer.Body))(t)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s answers %s, without %q:\n%.900s", target, answer.Status, want, body)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// TestPlay: each act shows on the page, in conditions and in Changes; what begins ends, and
// a second round is as the first one.
func TestPlay(t *testing.T) {
	objects := must.Get(readRecorded(recorded))(t)
	var rounds [2]string
	p := &player{firstTime: collected(objects.Inputs, time.Now()), acts: newActs(objects), daemon: newTestDaemon(&bytes.Buffer{})}
	p.clock = lastTaken
	for round := range rounds {
		var out strings.Builder
		p.out = &out
		for elapsed := time.Duration(0); elapsed < playLength; elapsed += playStep * playSpeed {
			p.step(t.Context(), time.Duration(round)*playLength+elapsed)
		}
		rounds[round] = regexp.MustCompile(`\d\d:\d\d `).ReplaceAllString(out.String(), "")
	}
	expect.Contains(
		t, rounds[0],
		"ingresses.gateway.example.com fails: ", "Alert WebhookBackendDown (critical) of ingresses.gateway.example.com fires.",
		"Condition ValidatingAdmissionWebhookConfigurationError is True.",
		"ingresses.gateway.example.com can be called again, after 20 min.", "backups.storage.example.com can be called again, after 20 min.",
		"Alert WebhookBackendDown (critical) of backups.storage.example.com ends, after ", "Condition CRDConversionWebhookConfigurationError is False again, after ",
	)
	_, first, _ := strings.Cut(rounds[0], "An upgrade")
	_, second, _ := strings.Cut(rounds[1], "An upgrade")
	expect.Equal(t, first, second)
	if changes := p.history.After(0); len(changes) != 4 || len(changes[0].Added) == 0 || len(changes[1].Resolved) == 0 {
		t.Errorf("Changes has %v", changes)
	}
}

// TestDemoOnce: with --once it ends after the report, without an error.
func TestDemoOnce(t *testing.T) {
	var out strings.Builder
	must.Succeed(t, run(t.Context(), []string{"demo", "--once"}, streams{reader: strings.NewReader(""), out: &out, err: io.Discard}))
	if strings.Contains(out.String(), "http://") || !strings.Contains(out.String(), "19 webhooks") {
		t.Errorf("it prints:\n%s", out.String())
	}
}

// TestDemoChanges: a recorded log and recorded calls show who changed which field.
func TestDemoChanges(t *testing.T) {
	r := execute(t, "", "demo", "--changes")
	if r.code != exitOK || strings.Contains(r.out, "TOPSECRET") {
		t.Errorf("exit code %d, %s%s", r.code, r.out, r.err)
	}
	expect.Contains(
		t, squeezed(r.out), "5 times pg/operator CREATE pods pg-1 in shop", `"pg:17" → "mirror.example.com/pg:17" (overwritten by pins.policy.example.com)`,
		"fight /spec/containers/0/image images.mirror.example.com sets it", "not idempotent mesh.example.com",
	)
}
