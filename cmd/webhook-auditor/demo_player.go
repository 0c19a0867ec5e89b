package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

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

// configurationOf is the validating configuration of the name.
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

// player plays the acts, and says what begins and what ends.
type player struct {
	*daemon
	out     io.Writer
	options report.TextOptions
	acts    []act
	// begun is the time of the record that the first act has.
	begun time.Time
	// last is the act that was played last.
	last string
	// firingSince are the facts that hold, with their begin.
	firingSince map[fact]time.Time
}

// fact is what holds for a time, in words for its begin and its end.
type fact struct{ begin, end string }

// follow plays until the context ends.
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
	taken := p.begun.Add(elapsed)
	p.publish(ctx, admission.New(now.objects.Snapshot(taken)))
	if now.text != p.last {
		p.last = now.text
		p.say(report.Plain, "", taken.Format("15:04")+" "+now.text)
	}
	facts, alerts := p.facts(taken)
	p.observation.Store(&observation{observed: &inventory.Observation{Alerts: alerts}})
	p.compareFacts(facts, taken)
}

// compareFacts says what begins and what ends.
func (p *player) compareFacts(facts []fact, snapshotTime time.Time) {
	standing := map[fact]time.Time{}
	for _, f := range facts {
		begun, before := p.firingSince[f]
		if !before {
			begun = snapshotTime
			p.say(report.Critical, f.begin)
		}
		standing[f] = begun
	}
	for _, f := range slices.SortedFunc(maps.Keys(p.firingSince),
		func(a, b fact) int { return cmp.Compare(a.end, b.end) }) {
		if _, stands := standing[f]; !stands {
			p.say(report.Good, fmt.Sprintf("%s, after %.0f min.", f.end, snapshotTime.Sub(p.firingSince[f]).Minutes()))
		}
	}
	p.firingSince = standing
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

// say prints lines, wrapped to the terminal.
func (p *player) say(tone report.Tone, lines ...string) {
	var b report.Block
	for _, line := range lines {
		b.Lines = append(b.Lines, report.Line{Text: line, Tone: tone})
	}
	_ = report.Blocks{b}.WriteText(p.out, p.options) // a reader that is gone ends the program by its context
}
