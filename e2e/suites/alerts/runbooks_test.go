package alerts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// runbooks are all documents with commands to type.
func runbooks(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"../../../rules/runbooks/*.md", "../../../pkg/classify/*.md"} {
		files := testenv.Get(filepath.Glob(pattern))(t)
		if len(files) == 0 {
			t.Fatalf("no runbooks at %s", pattern)
		}
		out = append(out, slices.DeleteFunc(files, func(file string) bool {
			return slices.Contains([]string{"README.md", "POLICY.md"}, filepath.Base(file))
		})...)
	}
	return out
}

// blocks are what a section of a runbook has one paste. Those marked "node" ask a
// node, for which no API server can answer.
func blocks(t *testing.T, file, section string) []string {
	t.Helper()
	text := testenv.Get(os.ReadFile(file))(t)
	_, rest, _ := strings.Cut(string(text), "\n## "+section+"\n")
	body, _, _ := strings.Cut(rest, "\n## ")
	var out []string
	for _, block := range strings.Split(body, "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		out = append(out, strings.TrimSpace(block))
	}
	return out
}

// commands are the lines of these blocks.
func commands(t *testing.T, file, section string) []string {
	t.Helper()
	return strings.FieldsFunc(strings.Join(blocks(t, file, section), "\n"), func(r rune) bool { return r == '\n' })
}

// reading are the commands of a runbook that change nothing: all of its
// diagnosis, and some elsewhere.
func reading(t *testing.T, file string) []string {
	t.Helper()
	out := commands(t, file, "Diagnosis")
	for _, command := range out {
		if !reads.MatchString(command) {
			t.Errorf("%s changes something: it belongs under Mitigation", command)
		}
	}
	for _, section := range []string{"Meaning", "Impact", "Mitigation"} {
		for _, command := range commands(t, file, section) {
			if reads.MatchString(command) && !strings.Contains(command, " > ") { // backups are typed where the glass is broken
				out = append(out, command)
			}
		}
	}
	return out
}

var reads = regexp.MustCompile(`^(kubectl (get|describe|api-resources|auth can-i|apply --dry-run=server)|webhook-auditor (audit|explain|impact|print))( |$)`)

// aFile is what is typed of a FILE: the API server takes it.
const aFile = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"file","namespace":"default"}}`

// shell is where a user types commands: a folder of one's own, and the
// variables that runbooks ask to be set.
type shell struct {
	dir  string
	env  []string
	name string // of the webhook that the alert is about
}

func (s scenario) shell(t *testing.T, file string) shell {
	t.Helper()
	binaries := testenv.Get(programs.ControlPlane())(t)
	crd := s.crd()
	name := s.webhook()
	if strings.HasPrefix(filepath.Base(file), "WebhookConversion") {
		name = crd
	}
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "FILE"), []byte(aFile), 0o600))
	env := append(os.Environ(),
		"PATH="+strings.Join([]string{binaries, filepath.Dir(testenv.Binary(t)), os.Getenv("PATH")}, string(filepath.ListSeparator)),
		"HOME="+dir, "KUBECONFIG="+s.Plane.Kubeconfig(), "KUBECACHEDIR="+s.Plane.Cache(),
		"KIND=validatingwebhookconfiguration", "CONFIGURATION="+s.name, "NAMESPACE="+s.name, "SERVICE=hook",
		"NAME="+name, "INSTANCE="+monitoring.Address(s.Plane.Config().Host), "CRD="+crd, "OPERATION=create", "RESOURCE=pods", "DEPLOYMENT=hook", "BUDGET=one", "CERTIFICATE=hook", "POLICY="+ruled, "BINDING="+ruled)
	return shell{dir: dir, env: env, name: name}
}

// run pastes a block or a line of one and wants it to succeed. A report with findings is a
// success, and a watch is ended after a while. What goes wrong early in a pipe
// shows in what it prints.
func (s shell) run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if strings.Contains(command, " -w") {
		command += " --request-timeout=2s"
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = s.dir, s.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	const findings = 3
	if strings.HasPrefix(command, "webhook-auditor audit") && cmd.ProcessState.ExitCode() == findings {
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", command, err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// typed runs a command that must print something.
func (s shell) typed(t *testing.T, command string) {
	t.Helper()
	output, err := s.run(t.Context(), command)
	if err != nil {
		t.Error(err)
	} else if strings.TrimSpace(output) == "" {
		t.Errorf("%s: prints nothing", command)
	}
}

// ofConversion has the variables be those of an alert on the conversion webhook of a CRD.
func (s shell) ofConversion(crd string) shell {
	s.env = append(slices.Clone(s.env), "KIND=", "CONFIGURATION="+crd, "NAME="+crd)
	return s
}

// TestRunbooks types the commands of the runbooks, in one cluster: first what
// only reads, then what breaks the glass.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	manifests := manifests(t.TempDir())
	w := newEnvironment(t, cluster.Options{APIServerFlags: manifests.flags(t)})
	w.manifests = manifests
	t.Run("read", func(t *testing.T) { typeWhatReads(t, w) })
	t.Run("break the glass", func(t *testing.T) { breakGlass(t, w) })
	t.Run("break the glass of a conversion", func(t *testing.T) { breakGlassOfConversion(t, w) })
}

// typeWhatReads types every command that changes nothing, in a cluster that has
// what they ask for.
func typeWhatReads(t *testing.T, w environment) {
	s := newScenario(t, w, "shop")
	s.createObjects(t)
	s.install(t)
	eventually(t, func(ctx context.Context) error { return s.readWidget(ctx, 0) })
	s.useConditionally(t)
	newScenario(t, w, ruled).useRuled(t)
	typed := map[string]bool{} // many runbooks begin alike
	for _, file := range runbooks(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			sh := s.shell(t, file)
			for _, command := range reading(t, file) {
				if typed[sh.name+command] {
					continue
				}
				typed[sh.name+command] = true
				sh.typed(t, command)
				if strings.Contains(command, "${KIND:-crd}") {
					sh.ofConversion(s.crd()).typed(t, command)
				}
			}
		})
	}
	if len(typed) < 50 {
		t.Errorf("only %d different commands were found: are runbooks still written as they were?", len(typed))
	}
	testenv.Must(t, s.unregister(t.Context())) // it would be in the way of what follows
}

// createObjects makes what diagnoses look for. An API server takes objects of a new kind a
// while after the kind.
func (s scenario) createObjects(t *testing.T) {
	t.Helper()
	objects := testenv.Get(filepath.Abs("testdata/objects.yaml"))(t)
	sh := s.shell(t, "")
	eventually(t, func(ctx context.Context) error {
		_, err := sh.run(ctx, "kubectl apply -f "+objects)
		return err
	})
	testenv.Get(sh.run(t.Context(), "kubectl delete namespace hanging --wait=false"))(t)
	testenv.Must(t, s.manifests.add(scenario{environment: s.environment, name: static, backend: s.backend}))
}

// useConditionally registers a webhook with a matchCondition and has it succeed,
// fail, and be left out by a condition that cannot be evaluated.
func (s scenario) useConditionally(t *testing.T) {
	t.Helper()
	c := s.configuration(configMaps)
	c.Webhooks[0].MatchConditions = []admissionv1.MatchCondition{{Name: "asked", Expression: `object.metadata.labels["asked"] == "yes"`}}
	testenv.Must(t, s.register(t.Context(), c))
	eventually(t, func(ctx context.Context) error {
		if err := s.createConfigMap(ctx, 0); !apierrors.IsForbidden(err) {
			return fmt.Errorf("want a matchCondition that cannot be evaluated, have %v", err)
		}
		return nil
	})
	labels := map[string]string{"asked": "yes"}
	testenv.Must(t, s.create(t.Context(), labels))
	s.Hooks.Behave(s.path(), webhook.Behaviour{FailEvery: 1})
	if err := s.create(t.Context(), labels); err == nil {
		t.Error("the webhook does not fail")
	}
}

// ruled is the scenario whose requests meet admission policies.
const ruled = "ruled"

// useRuled has a policy deny and, where there are such, another one mutate.
func (s scenario) useRuled(t *testing.T) {
	t.Helper()
	s.denies(t, "false")
	seen := "apiserver_validating_admission_policy_check_total{"
	if testenv.MutatingPolicies.There(t) {
		s.mutates(t)
		seen = "apiserver_mutating_admission_policy_check_total{"
	}
	eventually(t, func(ctx context.Context) error {
		if err := s.isRefused(ctx); err != nil {
			return err
		}
		metrics, err := s.Kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err == nil && !bytes.Contains(metrics, []byte(seen)) {
			err = fmt.Errorf("no policy is asked about ConfigMaps in %s", s.namespace())
		}
		return err
	})
}

// lockOut registers a dead webhook on everything that fails closed.
func (s scenario) lockOut(t *testing.T) {
	t.Helper()
	testenv.Must(t, s.backend.DeleteService(t.Context()))
	c := s.configuration(admissionv1.Rule{APIGroups: []string{"*"}, Resources: []string{"*/*"}})
	c.Webhooks[0].Rules[0].Operations = []admissionv1.OperationType{admissionv1.OperationAll}
	c.Webhooks[0].NamespaceSelector = nil
	other := c.Webhooks[0].DeepCopy()
	other.Name, other.Rules[0].Resources = "other."+other.Name, []string{"none"}
	c.Webhooks = append([]admissionv1.ValidatingWebhook{*other}, c.Webhooks...) // so that the first is not the dead one
	testenv.Must(t, s.register(t.Context(), c))
	eventually(t, s.isLockedOut)
}

func (s scenario) isLockedOut(ctx context.Context) error {
	if err := s.createConfigMap(ctx, 0); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		return fmt.Errorf("want to be locked out, have %v", err)
	}
	return nil
}

// breakGlass types what the runbooks do with a webhook configuration
// while no request gets through.
func breakGlass(t *testing.T, w environment) {
	broken := 0
	done := map[string]bool{} // most runbooks break it alike
	for _, file := range runbooks(t) {
		typed := aboutConfigurations(blocks(t, file, "Mitigation"))
		if len(typed) == 0 {
			continue
		}
		broken++
		all := strings.Join(typed, "\n")
		if done[all] {
			continue
		}
		done[all] = true
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := newScenario(t, w, strings.ToLower(strings.TrimSuffix(filepath.Base(file), ".md")))
			s.lockOut(t)
			sh := s.shell(t, file)
			for _, block := range typed {
				if _, err := sh.run(t.Context(), block); err != nil {
					t.Fatal(err)
				}
				eventually(t, s.expected(block))
			}
			testenv.Gone(t, s.unregister(t.Context()))
			eventually(t, s.expected("kubectl delete"))
		})
	}
	if broken < 10 {
		t.Errorf("only %d runbooks break the glass", broken)
	}
}

// aboutConfigurations are the blocks of a mitigation that keeps a copy of a
// webhook configuration, without those for CRDs.
func aboutConfigurations(typed []string) []string {
	var out []string
	keeps := false
	for _, block := range typed {
		keeps = keeps || strings.HasPrefix(block, `kubectl get "$KIND" "$CONFIGURATION" -o yaml > raw.yaml`)
		if !strings.Contains(block, " crd ") {
			out = append(out, block)
		}
	}
	if !keeps {
		return nil
	}
	return out
}

// expected is what must hold after a block: whether requests get through.
func (s scenario) expected(block string) func(context.Context) error {
	switch last := block[strings.LastIndexAny(block, "\n&")+1:]; strings.Fields(last)[1] {
	case "patch", "delete":
		return func(ctx context.Context) error { return s.createConfigMap(ctx, 0) }
	case "create", "replace":
		return s.isLockedOut
	}
	return func(context.Context) error { return nil }
}

// breakGlassOfConversion types what the runbooks do with a CRD whose
// conversion is dead.
func breakGlassOfConversion(t *testing.T, w environment) {
	s := newScenario(t, w, "storage")
	s.install(t)
	eventually(t, func(ctx context.Context) error { return s.readWidget(ctx, 0) })
	testenv.Must(t, s.backend.DeleteService(t.Context()))
	unreadable := func(ctx context.Context) error {
		if err := s.readWidget(ctx, 0); err == nil || !strings.Contains(err.Error(), "conversion webhook for") {
			return fmt.Errorf("want a failing conversion, have %v", err)
		}
		return nil
	}
	readable := func(ctx context.Context) error { return s.readWidget(ctx, 0) }
	const file = "../../../rules/runbooks/WebhookConversionBlocksControllers.md"
	sh := s.shell(t, file)
	holds := unreadable
	for _, block := range blocks(t, file, "Mitigation") {
		eventually(t, holds)
		if _, err := sh.run(t.Context(), block); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(block, "kubectl patch") {
			holds = readable
			if strings.Contains(block, "conversion.json") {
				holds = unreadable
			}
		}
	}
	eventually(t, holds)
	crd := testenv.Get(s.CRDs.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), s.crd(), metav1.GetOptions{}))(t)
	if service := crd.Spec.Conversion.Webhook.ClientConfig.Service; service == nil || service.Namespace != s.name {
		t.Errorf("the conversion was not restored: %+v", crd.Spec.Conversion)
	}
}
