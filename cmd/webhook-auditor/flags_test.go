package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// changing are values of flags that change an answer, where the first that comes to mind
// does not; the file is a Policy.
var changing = map[string][]string{
	"aggregator-routing": {"true"},
	"audit-log":          {"testdata/audit.log"},
	"checks":             {"label-opt-out,any-pod-may-call"},
	"as":                 {"helm"},
	"as-group":           {"system:masters"},
	"color":              {"always"},
	"down":               {"policy/policy"},
	"down-node":          {"a"},
	"error":              {`failed calling webhook "pods.policy.example.com": x509: certificate signed by unknown authority`},
	"fail-on":            {"info"},
	"labels":             {"checked=no"},
	"namespace":          {"elsewhere"},
	"output":             {"json"},
	"server-version":     {"v1.30"},
	"sort":               {"p99"},
	"delete":             {"policy"},
}

var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

const impactCluster = "../../pkg/classify/impact/testdata/cluster.yaml"

func fixture(check string) string { return "../../pkg/classify/testdata/" + check + ".yaml" }

// TestFlagsHaveEffects: each flag of each command changes one of its answers about files, or
// is a usage error beside files. What a flag does to a cluster, its own tests show.
func TestFlagsHaveEffects(t *testing.T) {
	config := must.File(t, "policy.yaml", "platformWebhooks: ['*']\n")
	empty := must.File(t, "empty.yaml", "")
	groups := must.File(t, "groups.yaml", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: a.example.com,
  clientConfig: {url: "https://a.example.com"}, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}],
  matchConditions: [{name: a, expression: "'system:masters' in request.userInfo.groups"}]}]}`)
	from, log := " --from "+impactCluster, auditLogFile(t)
	for command, bases := range map[string][]string{
		"audit":   {impactCluster, impactCluster + " -n nowhere", empty, fixture("label-opt-out"), fixture("service-unroutable")},
		"explain": {from + " create pods -n shop", from + " create deployments", "--from " + fixture("service-unroutable") + " create pods", from + " create secrets -l checked=yes", from + " create secrets", "--from " + fixture("service-unroutable") + " create jobs.batch", "--from " + groups + " --as a create pods"},
		"impact":  {from + " policy", from + " --down policy/policy", from + " --down policy", from + " --delete policy", "--down policy/policy --from " + fixture("service-unroutable"), "--down policy/headless --from " + fixture("service-unroutable"), from + " --down-node a", from + " --delete a", "--from " + fixture("virtual-resource") + " reviews"},
		"top":     {"--audit-log " + log + " --from testdata/webhooks.yaml", "--audit-log " + log + " --from testdata/webhooks.yaml -n nowhere", "--audit-log " + log + " --kubeconfig testdata/none"},
		"diff":    {from + " testdata/webhooks.yaml", impactCluster + " testdata/webhooks.yaml", impactCluster + " " + empty, "--from " + empty + " --allow-empty " + fixture("label-opt-out"), fixture("service-unroutable") + " " + impactCluster},
	} {
		t.Run(command, func(t *testing.T) {
			found := must.Get(newRootOf(command))(t)
			found.VisitAll(func(f *pflag.Flag) {
				values := append(slices.Clone(changing[f.Name]), map[string]string{"config": config, "from": groups, "filename": config, "by": "user"}[f.Name], f.NoOptDefVal, "5s")
				values = slices.DeleteFunc(values, func(s string) bool { return s == "" })
				flag := "--" + f.Name + "=" + values[0]
				if !f.Hidden && !slices.ContainsFunc(bases, func(base string) bool {
					args := append([]string{command}, strings.Fields(base)...)
					return answerOf(t, args) != answerOf(t, slices.Insert(args, 1, flag))
				}) {
					t.Errorf("%s has no effect", flag)
				}
			})
		})
	}
}

// newRootOf are the flags of a command.
func newRootOf(command string) (*pflag.FlagSet, error) {
	found, _, err := newRoot(program, streams{reader: strings.NewReader(""), out: io.Discard, err: io.Discard}).Find([]string{command})
	return found.Flags(), err
}

// answerOf is what a command prints, without its times, and "usage" where it refuses a flag.
func answerOf(t *testing.T, args []string) string {
	t.Helper()
	r := execute(t, "", args...)
	if r.code == exitUsage {
		return "usage"
	}
	return moment.ReplaceAllString(string(rune('0'+r.code))+r.out+r.err, "")
}
