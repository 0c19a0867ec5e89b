package install

import (
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestPrintedRules applies what "print rules" prints, as people do: with the
// longest flags, into a namespace of theirs, and again.
func TestPrintedRules(t *testing.T) {
	t.Parallel()
	w := testenv.New(t, cluster.Options{})
	openShift(t, w)
	prometheusOperator(t, w)
	w.Namespace(t, "monitoring")
	w.Namespace(t, "webhook-auditor")
	long := []string{
		"--cluster-label=kubernetes_cluster_name", "--severities=enhancement", "--labels=release=prometheus", "--alert-labels=team=platform-engineering",
		"--page-url=https://webhook-auditor.apps.cluster.example.com", "--runbook-base-url=https://git.example.com/platform/runbooks",
	}
	selector := `--selector=job="apiserver",environment="production"`
	for name, flags := range map[string][]string{
		"as it is":       nil,
		"in a namespace": {"-n", "monitoring", "--labels=release=prometheus"},
		"long":           long,
		"long of some":   append([]string{selector}, long...),
	} {
		t.Run(name, func(t *testing.T) {
			file := testenv.File(t, "rules.yaml", testenv.Command(t, append([]string{"print", "rules"}, flags...)...).Stdout)
			for range 2 {
				if applied := w.Kubectl(t, "apply", "-f", file); strings.Count(applied, "\n") < 5 {
					t.Errorf("applied %s", applied)
				}
			}
			w.Kubectl(t, "delete", "-f", file)
		})
	}
}
