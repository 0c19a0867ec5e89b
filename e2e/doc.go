// Package e2e is the root of the end-to-end tests: the built webhook-auditor
// binary, a black box, against a real control plane with real webhooks. The
// tests are in suites.
package e2e
