package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// csv is a ClusterServiceVersion with these metadata and webhooks, in flow style.
func csv(metadata, webhooks string) string {
	return `{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {name: hook.v1, ` + metadata + `}, spec: {
  installModes: [{type: AllNamespaces, supported: true}],
  install: {strategy: deployment, spec: {deployments: [{name: hook.op, spec: {selector: {matchLabels: {app: hook}},
    template: {metadata: {labels: {app: hook}}, spec: {containers: [{name: c, image: i}]}}}}]}},
  webhookdefinitions: [` + webhooks + `]}}
`
}

// defined is a webhook of a ClusterServiceVersion.
func defined(kind, name, more string) string {
	return `
  {type: ` + kind + `, generateName: ` + name + `, deploymentName: hook.op, admissionReviewVersions: [v1], sideEffects: None` + more + `,
   rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`
}

// converted describes the webhooks, one a line: whom they call, whom the Service selects, and
// where they stand.
func converted(s *inventory.Snapshot) string {
	var out []string
	for _, w := range s.Webhooks {
		line := fmt.Sprintf("%s %s %s", strings.Replace(string(w.Type), "admit", "mutating", 1), cmp.Or(w.Name, w.Configuration), strings.TrimPrefix(w.Backend.String(), "Service ")+w.Backend.Service.Path)
		if service, read := s.Services[inventory.Key{Namespace: w.Backend.Service.Namespace, Name: w.Backend.Service.Name}]; read {
			i := slices.IndexFunc(service.Ports, func(p corev1.ServicePort) bool { return p.Port == w.Backend.Service.Port })
			line += fmt.Sprintf(" → %s", service.Ports[i].TargetPort.String())
		}
		if !w.NamespaceSelector.Empty() {
			line += " of " + w.NamespaceSelector.String()
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestClusterServiceVersions(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.x.example}\nspec: {group: x.example, names: {plural: a, kind: A}, scope: Cluster, versions: [{name: v1, served: true, storage: true}]}\n"
	conversion := `{type: ConversionWebhook, generateName: c, deploymentName: hook.op, targetPort: web, admissionReviewVersions: [v1], conversionCRDs: [a.x.example]}`
	validating := defined("ValidatingAdmissionWebhook", "v.x.example", ", containerPort: 4343, targetPort: 9443, webhookPath: /v")
	mutating := defined("MutatingAdmissionWebhook", "m.x.example", "")
	gathered := func(name string) string {
		return "must-gather/namespaces/ns/operators.coreos.com/clusterserviceversions/" + name
	}
	registered := func(label string) string {
		return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: v.x.example-abcde, uid: u, labels: {" + label + "}}\nwebhooks: [{name: v.x.example, clientConfig: {service: {namespace: ns, name: real}}, sideEffects: None, admissionReviewVersions: [v1]}]\n"
	}
	const made = "validating v.x.example default/hook-op-service:4343/v → 9443"
	for name, c := range map[string]struct {
		files tree
		want  string
		lacks string
	}{
		"bundle":              {tree{"m/csv.yaml": csv("namespace: placeholder", validating)}, made, "the namespace of ClusterServiceVersion hook.v1"},
		"suggested":           {tree{"csv.yaml": csv("annotations: {operatorframework.io/suggested-namespace: ns}", mutating)}, "mutating m.x.example ns/hook-op-service:443 → 443", ""},
		"conversion":          {tree{"a/csv.yaml": csv("namespace: ns", conversion), "b/crd.yaml": strings.Replace(crd, "versions", "conversion: {strategy: None}, versions", 1)}, "conversion a.x.example ns/hook-op-service:443/ → web", ""},
		"CRD elsewhere":       {tree{"csv.yaml": csv("namespace: ns", strings.Replace(conversion, ", targetPort: web", "", 1)+","+mutating)}, "mutating m.x.example ns/hook-op-service:443 → 443", "the conversion of a.x.example by ClusterServiceVersion hook.v1 is not read: no file has the CRD"},
		"CRD not owned":       {tree{"a/csv.yaml": csv("namespace: ns", conversion), "b/crd.yaml": crd}, "conversion a.x.example ns/hook-op-service:443/ → web", "OLM does not install ClusterServiceVersion hook.v1, which converts a.x.example: spec.customresourcedefinitions.owned lacks the CRD"},
		"other modes":         {tree{"a/csv.yaml": strings.Replace(csv("namespace: ns", conversion), "[{type", "[{type: OwnNamespace, supported: true}, {type", 1), "b/crd.yaml": crd}, "conversion a.x.example ns/hook-op-service:443/ → web", "must support AllNamespaces alone, not OwnNamespace"},
		"CRD with conversion": {tree{"a/csv.yaml": csv("namespace: ns", conversion), "b/crd.yaml": strings.Replace(crd, "versions", "conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: sys}}}}, versions", 1)}, "conversion a.x.example ns/hook-op-service:443/ → web", "a.x.example has a spec.conversion of its own, which OLM applies before the operator of hook.v1 serves"},
		"one namespace":       {tree{"csv.yaml": strings.Replace(csv("namespace: ns", mutating), "supported: true", "supported: false", 1)}, "mutating m.x.example ns/hook-op-service:443 → 443 of olm.operatorgroup.uid/UID=", ""},
		"preserved fields":    {tree{"a/csv.yaml": csv("namespace: ns", conversion), "b/crd.yaml": strings.Replace(crd, "group", "preserveUnknownFields: true, group", 1)}, "conversion a.x.example ns/hook-op-service:443/ → web", "its spec.preserveUnknownFields must be false"},
		"in two namespaces":   {tree{"must-gather/must-gather.logs": "", gathered("hook.v1.yaml"): strings.Replace(csv("namespace: ns, uid: u", mutating), "true", "false", 1), "must-gather/namespaces/other/operators.coreos.com/clusterserviceversions/hook.v1.yaml": strings.Replace(csv("namespace: other, uid: v", mutating), "true", "false", 1)}, "mutating m.x.example ns/hook-op-service:443 of olm.operatorgroup.uid/UID=\nmutating m.x.example other/hook-op-service:443 of olm.operatorgroup.uid/UID=", ""},
		"not begun":           {tree{gathered("hook.v1.yaml"): strings.Replace(csv("namespace: ns, uid: u", validating), "spec:", "status: {phase: Pending}, spec:", 1)}, "", ""},
		"refused":             {tree{gathered("hook.v1.yaml"): strings.Replace(csv("namespace: ns, uid: u", validating), "spec:", "status: {phase: Failed, reason: InvalidWebhookDescription}, spec:", 1)}, "", ""},
		"list":                {tree{"all.yaml": "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersionList\nitems:\n- " + csv("namespace: ns, uid: u", mutating)}, "mutating m.x.example ns/hook-op-service:443", ""},
		"a Service of a file": {tree{"csv.yaml": csv("namespace: default", validating), "svc.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: hook-op-service}\nspec: {ports: [{port: 4343, targetPort: 1}]}\n"}, strings.Replace(made, "9443", "1", 1), ""},
		"gathered":            {tree{gathered("hook.v1.yaml"): csv("namespace: ns, uid: u", validating), "must-gather/version": ""}, "validating v.x.example ns/hook-op-service:4343/v", ""},
		"gathered with both":  {tree{gathered("hook.v1.yaml"): csv("namespace: ns, uid: u", validating+","+mutating), "must-gather/cluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations/v.yaml": registered("")}, "validating v.x.example ns/real:443", ""},
		"file beside a real":  {tree{"csv.yaml": csv("namespace: ns", validating+","+mutating), "real.yaml": registered("olm.webhook-description-generate-name: v.x.example")}, "mutating m.x.example ns/hook-op-service:443 → 443\nvalidating v.x.example ns/real:443", ""},
		"copied":              {tree{gathered("hook.v1.yaml"): csv("namespace: ns, uid: u, labels: {olm.copiedFrom: other}", validating)}, "", ""},
		"replaced":            {tree{gathered("hook.v1.yaml"): strings.Replace(csv("namespace: ns, uid: u", validating), "spec:", "status: {phase: Replacing}, spec:", 1)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.files.write(t, dir)
			objects, summary := Read([]string{dir}, Options{})
			if got := converted(objects.Snapshot(time.Now())); got != c.want || len(objects.Errors) > 0 {
				t.Errorf("read\n%s\nwant\n%s\n%v", got, c.want, objects.Errors)
			}
			if got := strings.Join(summary.Inputs[0].Lacks, "\n"); !strings.Contains(got, c.lacks) {
				t.Errorf("it lacks %q, not %q", got, c.lacks)
			}
		})
	}
	for what, webhooks := range map[string]string{
		"no type":                              strings.Replace(validating, "Validating", "Other", 1),
		`deploymentName "hook" `:               strings.Replace(validating, "hook.op", "hook", 1),
		"one of its deployments: hook.op; OLM": "\n" + strings.Replace(conversion, "hook.op", "hook-op", 1),
		"must be of one webhook alone":         strings.ReplaceAll(mutating, "\n", "") + "," + strings.Replace(validating, "v.x", "m.x", 1),
		"must have one targetPort alone":       conversion + "," + mutating,
		"webhook c must name a CRD":            "\n" + strings.Replace(conversion, ", conversionCRDs: [a.x.example]", "", 1),
	} {
		o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(csv("namespace: ns", webhooks))})
		if len(o.Errors) != 1 || o.Errors[0].Source.Line != 6 || !strings.Contains(o.Errors[0].Message, what) {
			t.Errorf("%s: %v", what, o.Errors)
		}
	}
}
