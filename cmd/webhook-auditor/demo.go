package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// recorded is a cluster with broken webhooks, that of "make demo-live" as
// e2e/demo/archive.sh writes it down.
//
//go:embed demo.tar.gz
var recorded []byte

// recordedHooks are webhooks that change Pods, recordedLog is the audit log of an API server with
// them, and recordedCall what "explain --call" printed there. TestWhoChanged of
// e2e/suites/observe writes them.
var (
	//go:embed demo_webhooks.yaml
	recordedHooks []byte
	//go:embed demo_audit.log
	recordedLog []byte
	//go:embed demo_call.json
	recordedCall []byte
)

var auditIDs = regexp.MustCompile(`"auditID":"([^"]+)"`)

// recordedVersion is the version of its API server, which the archive does not hold.
const recordedVersion = "v1.37.1"

type demo struct {
	listen               string
	once, fixes, changes bool
}

func demoCommand(s streams) *cobra.Command {
	d := &demo{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a recorded incident: its status page, metrics and alerts, without a cluster",
		Long: `Plays what happened to a recorded cluster, again and again, until Ctrl-C: all is
well, two webhooks break, alerts fire, both are repaired. The status page and
/metrics on loopback, and the terminal, say the same. It needs no cluster.`,
		Example: `  webhook-auditor demo

  # The report of the recorded cluster, with five broken webhooks
  webhook-auditor demo --once`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              untilStopped(s, d.run),
	}
	c.Flags().StringVar(&d.listen, "web.listen-address", "127.0.0.1:0", "loopback address to serve the status page and /metrics on; port 0 is any free port")
	c.Flags().BoolVar(&d.once, "once", false, "print the report of the recorded cluster, and end")
	c.Flags().BoolVar(&d.changes, "changes", false, "print which webhook changed which field, as a recorded audit log and recorded calls show it, and end")
	c.Flags().BoolVar(&d.fixes, "fixes", false, "with --once: print what to do about each finding")
	return c
}

func (d *demo) run(ctx context.Context, _ []string, s streams) error {
	switch {
	case !loopback(d.listen):
		return usageError{fmt.Errorf("--web.listen-address: must be a loopback address, not %s", d.listen)}
	case d.fixes && !d.once:
		return usageError{errors.New("--fixes: must be given with --once: the status page has the commands")}
	}
	if d.changes {
		return showChanges(ctx, s)
	}
	objects, err := readRecorded(recorded)
	if err != nil {
		return fmt.Errorf("reading the recorded cluster: %w", err)
	}
	snapshotTime := collected(objects.Inputs, time.Now())
	if !d.once {
		return d.play(ctx, &player{firstTime: snapshotTime, acts: newActs(objects)}, s)
	}
	evaluated, err := classify.DefaultPolicy().Evaluate(ctx, objects.Snapshot(snapshotTime))
	if err != nil {
		return err
	}
	return (&audit{output: "text", fixes: d.fixes, served: true}).write(report.NewDocument(evaluated), s)
}

// showChanges prints the commands that say who changed which field, each with its answer.
func showChanges(ctx context.Context, s streams) error {
	objects, err := readRecorded(recordedHooks)
	if err != nil {
		return err
	}
	log := auditLogFlags{paths: []string{"-"}, requestID: string(auditIDs.FindSubmatch(recordedLog)[1])}
	snapshot := log.addTo(ctx, objects.Snapshot(time.Now()),
		streams{reader: bytes.NewReader(recordedLog), err: io.Discard})
	evaluated, err := classify.DefaultPolicy().Evaluate(ctx, snapshot)
	if err != nil {
		return err
	}
	chain, err := audited(admission.New(snapshot), snapshot.AuditLog.Request)
	if err != nil {
		return err
	}
	var call report.CalledRequest
	if err := json.Unmarshal(recordedCall, &call); err != nil {
		return err
	}
	for _, answer := range []struct {
		command string
		view    report.View
	}{
		{"top --audit-log audit.log", report.NewAuditTop(evaluated, report.AuditDimensions[0])},
		{"explain --audit-log audit.log --request-id " + log.requestID + " -v", report.NewAuditedRequest(snapshot, chain)},
		{"explain create -f pod.yaml --call", call},
	} {
		fmt.Fprintf(s.out, "$ webhook-auditor %s\n\n", answer.command)
		if err := show("text", answer.view, s); err != nil {
			return err
		}
		fmt.Fprintln(s.out)
	}
	return nil
}

func readRecorded(archive []byte) (inventory.Objects, error) {
	objects, err := (&input{server: recordedVersion}).objects([]string{"-"},
		streams{reader: bytes.NewReader(archive), err: io.Discard})
	for i := range objects.Inputs {
		objects.Inputs[i].Path = "a recorded cluster"
	}
	return objects, err
}

// play does what "run" does, over what the player shows, until the context ends.
func (d *demo) play(ctx context.Context, p *player, s streams) error {
	listener, err := net.Listen("tcp", d.listen)
	if err != nil {
		return fmt.Errorf("serving the status page: %w", err)
	}
	p.out, p.options = s.out, formatOptions("text", s)
	p.daemon = newDaemon(classify.DefaultPolicy(), operator.NewTracker(operator.TrackerOptions{
		RollUp: operator.RollUpOn, Inertia: 2 * time.Minute, Version: version.Version,
	}), slog.New(slog.DiscardHandler))
	p.daemon.clock = lastTaken
	p.say(report.Plain, fmt.Sprintf("A recorded incident plays, again and again. A minute of it takes %g seconds. Ctrl-C ends.", time.Minute.Seconds()/playSpeed))
	p.say(report.Plain, fmt.Sprintf("Status page: http://%s/", listener.Addr()), fmt.Sprintf("Metrics: http://%s/metrics", listener.Addr()))
	p.step(ctx, 0)
	web := webFlags{maxSeries: exporter.DefaultMaxSeries}
	server := newServer(web.ownHosts(web.handler(p.daemon)))
	ended := make(chan error, 1)
	go func() {
		ended <- serveUntil(ctx, server, 0, func() error { return server.Serve(listener) })
	}()
	p.follow(ctx)
	if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the status page: %w", err)
	}
	return nil
}

// The pace of the player: a minute takes three seconds, so that alerts, which wait for
// minutes, fire while a user watches. The incident begins anew after playLength.
const (
	playSpeed  = 20
	playLength = 40 * time.Minute
	playStep   = time.Second
)

// act is a state of the recorded cluster, and what led to it.
type act struct {
	begins  time.Duration
	text    string
	objects inventory.Objects
}

// The software whose webhooks break while the player plays: an upgrade of the gateway
// registers a port that its Service lacks, and the Service behind a conversion is deleted.
const (
	gateway        = "gateway"
	storage        = "storage"
	backupOperator = "backup-operator"
)

// newActs are those of the incident. The recorded cluster has more broken webhooks, and one
// that degrades it: they are repaired, and gone, in all acts.
func newActs(recorded inventory.Objects) []act {
	sound := withBackend(recorded, "scheduler", "scheduler")
	sound = withBackend(sound, "legacy", "legacy-operator")
	placement := configurationOf(sound, "placement")
	sound.Validating = slices.DeleteFunc(slices.Clone(sound.Validating),
		func(c *admissionv1.ValidatingWebhookConfiguration) bool { return c == placement })
	trusted := configurationOf(recorded, gateway).Webhooks[0].ClientConfig.CABundle
	sound = registering(sound, "quota", func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.CABundle = trusted })
	upgraded := withBackend(sound, storage, backupOperator)
	down := sound
	healthy := func(o inventory.Objects) inventory.Objects {
		return registering(o, gateway,
			func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.Service.Port = new(int32(443)) })
	}
	return []act{
		{0, "All webhooks can be called.", healthy(upgraded)},
		{6 * time.Minute, "An upgrade of the gateway registers port 8443, which its Service does not have.", upgraded},
		{14 * time.Minute, "The Service of the backup operator is deleted.", down},
		{26 * time.Minute, "The gateway's registration has port 443 again.", healthy(down)},
		{34 * time.Minute, "The Service of the backup operator is back.", healthy(upgraded)},
	}
}

func configurationOf(o inventory.Objects, name string) *admissionv1.ValidatingWebhookConfiguration {
	i := slices.IndexFunc(o.Validating,
		func(c *admissionv1.ValidatingWebhookConfiguration) bool { return c.Name == name })
	return o.Validating[i]
}

// registering returns the objects with another registration of the configuration's webhooks.
func registering(o inventory.Objects, name string, edit func(*admissionv1.ValidatingWebhook)) inventory.Objects {
	before := configurationOf(o, name)
	after := before.DeepCopy()
	for i := range after.Webhooks {
		edit(&after.Webhooks[i])
	}
	o.Validating = slices.Clone(o.Validating)
	o.Validating[slices.Index(o.Validating, before)] = after
	return o
}

// withBackend returns the objects with a Service that has a ready endpoint.
func withBackend(o inventory.Objects, namespace, name string) inventory.Objects {
	meta := metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name},
	}
	o.Services = append(slices.DeleteFunc(slices.Clone(o.Services), func(s *corev1.Service) bool {
		return s.Namespace == namespace && s.Name == name
	}), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type:  corev1.ServiceTypeClusterIP,
		Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}},
	}})
	o.EndpointSlices = append(slices.Clone(o.EndpointSlices), &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}},
		Ports:     []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(8443))}},
	})
	return o
}

type player struct {
	*daemon
	out     io.Writer
	options report.TextOptions
	acts    []act
	// firstTime is the time of the record that the first act has.
	firstTime time.Time
	last      string
	// firingSince are the facts that hold, with their begin.
	firingSince map[fact]time.Time
}

// fact is what holds for a time, in words for its begin and its end.
type fact struct{ begin, end string }

func (p *player) follow(ctx context.Context) {
	elapsed := time.Duration(0)
	_ = eachTick(ctx, time.Tick(playStep), func() {
		elapsed += playStep * playSpeed
		p.step(ctx, elapsed)
	})
}

// step plays what is so long after the begin.
func (p *player) step(ctx context.Context, elapsed time.Duration) {
	now := p.acts[0]
	for _, a := range p.acts {
		if a.begins <= elapsed%playLength {
			now = a
		}
	}
	snapshotTime := p.firstTime.Add(elapsed)
	p.publish(ctx, admission.New(now.objects.Snapshot(snapshotTime)))
	if now.text != p.last {
		p.last = now.text
		p.say(report.Plain, "", snapshotTime.Format("15:04")+" "+now.text)
	}
	facts, alerts := p.facts(snapshotTime)
	p.observation.Store(&observation{observed: &inventory.Observation{Alerts: alerts}})
	p.compareFacts(facts, snapshotTime)
}

func (p *player) compareFacts(facts []fact, snapshotTime time.Time) {
	begins := map[fact]time.Time{}
	for _, f := range facts {
		began, before := p.firingSince[f]
		if !before {
			began = snapshotTime
			p.say(report.Critical, f.begin)
		}
		begins[f] = began
	}
	for _, f := range slices.SortedFunc(maps.Keys(p.firingSince),
		func(a, b fact) int { return cmp.Compare(a.end, b.end) }) {
		if _, stands := begins[f]; !stands {
			p.say(report.Good, fmt.Sprintf("%s, after %.0f min.", f.end, snapshotTime.Sub(p.firingSince[f]).Minutes()))
		}
	}
	p.firingSince = begins
}

// facts are the webhooks that fail, the alerts that would fire and the conditions that are
// True.
func (p *player) facts(snapshotTime time.Time) (out []fact, alerts []inventory.Alert) {
	now := p.current()
	for _, f := range now.Findings {
		if !f.Check.Fails() || f.Acknowledged {
			continue
		}
		out = append(out, fact{f.Webhook.Name + " fails: " + f.Brief + ".", f.Webhook.Name + " can be called again"})
		name, since := f.Check.Alerts[f.Severity], p.history.FailingSince(f.Webhook)
		if name != "" && snapshotTime.Sub(since) >= f.Check.For {
			alerts = append(alerts,
				inventory.Alert{
					Name: name, Severity: f.Severity.String(), Series: f.Webhook.Series(),
					Since: since.Add(f.Check.For),
				})
			subject := fmt.Sprintf("Alert %s (%s) of %s ", name, f.Severity, f.Webhook.Name)
			out = append(out, fact{subject + "fires.", subject + "ends"})
		}
	}
	for _, c := range now.Conditions {
		if c.Type != operator.Upgradeable && c.Type != operator.Available && c.Status == metav1.ConditionTrue {
			out = append(out, fact{fmt.Sprintf("Condition %s is True.", c.Type), fmt.Sprintf("Condition %s is False again", c.Type)})
		}
	}
	return out, alerts
}

func (p *player) say(tone report.Tone, lines ...string) {
	var b report.Block
	for _, line := range lines {
		b.Lines = append(b.Lines, report.Line{Text: line, Tone: tone})
	}
	_ = report.Blocks{b}.WriteText(p.out, p.options) // a reader that is gone ends the program by its context
}
