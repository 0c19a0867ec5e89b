package explain

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// validatingPolicy is a policy on ConfigMaps with a label of its number.
const validatingPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: validated-%[1]d.example.com}
spec:
  matchConstraints:
    objectSelector: {matchLabels: {validated: "%[1]d"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  variables: [{name: size, expression: "has(object.data) ? object.data.size() : 0"}, {name: broken, expression: "object.data.none"}]
  validations: %[2]s
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: validated-%[1]d.example.com}
spec: {policyName: validated-%[1]d.example.com, validationActions: [%[3]s]}
---
`

// validationCases are validations and the actions of their bindings; a new line is written as \n.
var validationCases = strings.Split(strings.TrimSpace(validations), "\n")

//go:embed testdata/validations.tsv
var validations string

// TestVerdictsOfPolicies: what explain -f says a validating policy makes of an object is
// what the API server does, with its message.
func TestVerdictsOfPolicies(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	w.Namespace(t, "validated")
	var manifests strings.Builder
	for i, row := range validationCases {
		validation, actions, _ := strings.Cut(strings.ReplaceAll(row, `\n`, "\n"), "\t")
		fmt.Fprintf(&manifests, validatingPolicy, i, validation, actions)
	}
	folder := t.TempDir()
	policies, file := filepath.Join(folder, "policies.yaml"), filepath.Join(folder, "object.json")
	testenv.Must(t, os.WriteFile(policies, []byte(manifests.String()), 0o600))
	w.Kubectl(t, "apply", "-f", policies)
	t.Cleanup(func() { _ = testenv.Get(w.TryKubectl(context.Background(), "delete", "-f", policies))(t) })
	testenv.Eventually(t, func() error { // the last one is in effect
		if _, err := w.validate(t, validatedObject(len(validationCases)-2, "one", nil)); err == nil {
			return errors.New("the policies do nothing yet")
		}
		return nil
	})
	certain := 0
	for i := range validationCases {
		for name, data := range map[string]map[string]string{"one": {"a": "1"}, "two": {"a": "2", "b": "33"}} {
			object := validatedObject(i, name, data)
			testenv.Must(t, os.WriteFile(file, testenv.Get(json.Marshal(object))(t), 0o600))
			message, err := w.validate(t, object)
			var explained struct {
				Chain []struct {
					Denies bool
					Detail string
				}
			}
			answer := testenv.Command(t, "explain", "-o", "json", "-f", file, "--from", policies)
			testenv.Must(t, json.Unmarshal([]byte(answer.Stdout), &explained))
			if len(explained.Chain) != 1 {
				t.Errorf("policy %d, %s: %s", i, name, answer.Stdout)
				continue
			}
			step := explained.Chain[0]
			allows := strings.HasPrefix(step.Detail, "allows")
			switch {
			case step.Denies && err == nil, allows && err != nil:
				t.Errorf("policy %d, %s: %q, but the API server says %v", i, name, step.Detail, err)
			case step.Denies && strings.Contains(step.Detail, "is false: ") && !strings.HasSuffix(message, step.Detail[strings.Index(step.Detail, "is false: ")+len("is false: "):]):
				t.Errorf("policy %d, %s: %q, but the API server says %q", i, name, step.Detail, message)
			}
			if step.Denies || allows {
				certain++
			}
		}
	}
	if certain < len(validationCases) {
		t.Errorf("only %d verdicts of %d are certain", certain, 2*len(validationCases))
	}
}

func validatedObject(i int, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "validated", Labels: map[string]string{"validated": fmt.Sprint(i)}}, Data: data,
	}
}

// validate sends the object, and returns the message of a policy that denies it.
func (w environment) validate(t *testing.T, object *corev1.ConfigMap) (message string, err error) {
	t.Helper()
	_, err = w.Kube.CoreV1().ConfigMaps("validated").Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		message = status.ErrStatus.Message
	}
	return message, err
}
