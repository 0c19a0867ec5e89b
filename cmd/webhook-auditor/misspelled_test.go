package main

import (
	"strings"
	"testing"
)

// TestMisspelledPolicy: a check about a misspelled resource would never find
// anything.
func TestMisspelledPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"controlPlane: {kube-system: [leasess.coordination.k8s.io]}":                                "leasess.coordination.k8s.io is served by no API server; did you mean leases.coordination.k8s.io?",
		"controlPlane: {kube-system: [pods/bindng]}":                                                "pods/bindng is served by no API server; did you mean pods/binding?",
		"classes: {critical: [pod]}":                                                                "did you mean pods?",
		"budgets: [{resource: deployment.apps, seconds: 5}]":                                        "did you mean deployments.apps?",
		"classes: {critical: [clustertrustbundles.certificates.k8s.io, widgets.example.com, pods]}": "",
	} {
		in := &input{}
		_, err := in.parsePolicy([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
