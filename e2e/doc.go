// Package e2e holds the end-to-end tests: the built webhook-auditor binary, a
// black box, against a real control plane with real webhooks.
package e2e
