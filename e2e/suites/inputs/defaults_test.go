package inputs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// minimal is an object of each kind that is read, with the fields that an API server
// demands and no others: it fills in the rest when it stores them.
const minimal = `apiVersion: v1
kind: Namespace
metadata: {name: minimal}
---
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: minimal}
spec: {ports: [{port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hook-a, namespace: minimal, labels: {kubernetes.io/service-name: hook}}
addressType: IPv4
endpoints: [{addresses: [10.1.2.3]}]
ports: [{port: 8443}]
---
apiVersion: v1
kind: Service
metadata: {name: old, namespace: minimal}
spec: {ports: [{port: 443}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: old, namespace: minimal}
subsets: [{addresses: [{ip: 10.1.2.4}], ports: [{port: 8443}]}]
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: minimal}
spec: {ports: [{port: 443}], selector: {app: hook}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hook, namespace: minimal}
spec:
  selector: {matchLabels: {app: hook}}
  template: {metadata: {labels: {app: hook}}, spec: {containers: [{name: hook, image: hook}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: hook, namespace: minimal}
spec:
  selector: {matchLabels: {app: hook}}
  template: {metadata: {labels: {app: hook}}, spec: {containers: [{name: hook, image: hook}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: hook, namespace: minimal}
spec:
  selector: {matchLabels: {app: hook}}
  template: {metadata: {labels: {app: hook}}, spec: {containers: [{name: hook, image: hook}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: hook, namespace: minimal, labels: {app: hook}}
spec: {containers: [{name: hook, image: hook}]}
---
apiVersion: v1
kind: Node
metadata: {name: minimal}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.minimal.example.net}
spec: {group: minimal.example.net, version: v1, groupPriorityMinimum: 10, versionPriority: 10, insecureSkipTLSVerify: true, service: {namespace: minimal, name: hook}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.minimal.example.com}
spec:
  group: minimal.example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: minimal, name: old}}}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: minimal}
webhooks:
- {name: slices.minimal.example.com, clientConfig: {service: {namespace: minimal, name: hook}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [CREATE], apiGroups: [minimal.example.com], apiVersions: [v1], resources: [things]}]}
- {name: endpoints.minimal.example.com, clientConfig: {service: {namespace: minimal, name: old}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [CREATE], apiGroups: [minimal.example.com], apiVersions: [v1], resources: [things]}]}
- {name: empty.minimal.example.com, clientConfig: {service: {namespace: minimal, name: empty}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods/exec]}, {operations: [CREATE], apiGroups: [minimal.example.com], apiVersions: [v1], resources: [things]}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: minimal}
webhooks:
- {name: aggregated.minimal.example.com, clientConfig: {service: {namespace: default, name: kubernetes, path: /apis/minimal.example.net/v1/reviews}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [CREATE], apiGroups: [minimal.example.com], apiVersions: [v1], resources: [things]}]}
`

// TestDefaults: a file of minimal objects and what the API server stores of them are
// reported alike: what it sets by default is not missing in files.
func TestDefaults(t *testing.T) {
	w := environment{older.Use(t)}
	dir := t.TempDir()
	written, stored := filepath.Join(dir, "written.yaml"), filepath.Join(dir, "stored.yaml")
	testenv.Must(t, os.WriteFile(written, []byte(minimal), 0o600))
	w.Kubectl(t, "apply", "--server-side", "-f", written)
	defer w.remove(t)
	got := w.Kubectl(t, "get", "-o", "yaml", "-f", written)
	testenv.Must(t, os.WriteFile(stored, []byte(got), 0o600))
	want, have := reported(t, stored), reported(t, written)
	if !slices.Equal(want.Findings, have.Findings) {
		t.Errorf("findings as stored:\n%+v\nand as written:\n%+v", want.Findings, have.Findings)
	}
	if !want.HasFinding("dead-rule", "minimal") {
		t.Errorf("the rule on pods/exec is not reported: %+v", want.Findings)
	}
	if !slices.Equal(want.Webhooks, have.Webhooks) || len(want.Webhooks) != 5 {
		t.Errorf("webhooks as stored:\n%+v\nand as written:\n%+v", want.Webhooks, have.Webhooks)
	}
}

// TestDefaultsAreTheAPIServers: a unit test holds what is read of files against a record
// of what the tables of defaults of kube-apiserver make of them; this is how to renew it.
func TestDefaultsAreTheAPIServers(t *testing.T) {
	t.Parallel()
	const folder = "../../../pkg/inventory/manifest/testdata/defaults/"
	tables, err := programs.Defaults()
	testenv.Must(t, err)
	written, err := os.Open(folder + "written.yaml")
	testenv.Must(t, err)
	defer written.Close()
	recorded, err := os.ReadFile(folder + "stored.yaml")
	testenv.Must(t, err)
	program := exec.CommandContext(t.Context(), tables)
	program.Stdin = written
	got, err := program.Output()
	testenv.Must(t, err)
	if string(got) != string(recorded) {
		t.Errorf("stored.yaml is out of date: %s <written.yaml >stored.yaml in %s", tables, folder)
	}
}

// remove deletes what was created; namespaces stay where no controllers run.
func (w environment) remove(t *testing.T) {
	w.Unregister(t, "minimal")
	for object := range strings.FieldsSeq("mutatingwebhookconfiguration/minimal crd/things.minimal.example.com apiservice/v1.minimal.example.net node/minimal") {
		w.Kubectl(t, "delete", "--wait=false", object)
	}
}

// reported is the report on the file, which can be read as a whole.
func reported(t *testing.T, file string) testenv.Document {
	t.Helper()
	d, got := testenv.Report(t, "--fail-on=never", "--server-version=v1.37", file)
	if got.Code != 0 || len(d.Errors) > 0 {
		t.Fatalf("auditing %s: %+v", file, got)
	}
	return d
}
