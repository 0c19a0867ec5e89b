//go:build linux && node

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

const victim = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: victim, namespace: NAME-used}
spec:
  selector: {matchLabels: {app: victim}}
  template:
    metadata: {labels: {app: victim}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: IMAGE}]
`

// lasted is how long the outages last, of which recoveries are measured.
const lasted = 30 * time.Second

// TestRecovery: after an outage, Pods that were refused come back by and by, and at once
// with the command that impact and the runbook print.
func TestRecovery(t *testing.T) {
	h := hook{name: "recovery", resources: "pods"}
	h.start(t)
	apply(t, h.render(victim))
	ready(t, h.name+"-used", "victim")
	restart := "kubectl rollout restart"
	contains(t, "impact", says(t, "impact", "--down", h.name+"/"+h.name), restart)
	alone := h.outage(t, "")
	helped := h.outage(t, "-n "+h.name+"-used rollout restart deployment/victim")
	measured.recovery = fmt.Sprintf("After an outage of %s, a Pod that was refused meanwhile was ready after %s, and after %s with `kubectl rollout restart`.\n",
		seconds(lasted), seconds(alone), seconds(helped))
	t.Log(measured.recovery)
}

// outage deletes the victim's Pod while its webhook is down, and returns how long the
// Deployment takes to be ready once the webhook is back, with a command typed then.
func (h hook) outage(t testing.TB, command string) time.Duration {
	t.Helper()
	do(t, "-n "+h.name+" scale deployment "+h.name+" --replicas=0")
	_, _, err := h.refused(t.Context(), "failed calling webhook")
	testenv.Must(t, err)
	do(t, "-n "+h.name+"-used delete pods --all")
	time.Sleep(lasted)
	do(t, "-n "+h.name+" scale deployment "+h.name+" --replicas=1")
	h.admitted(t)
	begun := time.Now()
	if command != "" {
		do(t, command)
	}
	ready(t, h.name+"-used", "victim")
	return time.Since(begun)
}
