package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// churned is how many namespaces change, one each churnPace.
	churned   = 1000
	churnPace = 20 * time.Millisecond
	// edited is how often one matchCondition changes.
	edited = 2000
)

// measureChurn is the CPU of changes that clusters make all the time: of namespaces
// that no webhook reads anything of, and of new ones.
func (c *filled) measureChurn(ctx context.Context, r *running, to *column) error {
	namespaces := c.kube.CoreV1().Namespaces()
	patch := func(text string) func(int) error {
		return func(i int) error {
			name := fmt.Sprintf("other-%d", i%c.size.OtherNamespaces)
			_, err := namespaces.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, text, i), metav1.PatchOptions{})
			return err
		}
	}
	created := func(i int) string { return fmt.Sprintf("churn-%d-%d", r.process.PID(), i) }
	for _, kind := range []struct {
		what   string
		change func(int) error
	}{
		{"labelled", patch(`{"metadata":{"labels":{"churn":"%d"}}}`)},
		{"annotated", patch(`{"metadata":{"annotations":{"churn":"%d"}}}`)},
		{"created", func(i int) error {
			_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: created(i)}}, metav1.CreateOptions{})
			return err
		}},
	} {
		cpu := cpuSeconds(r.process.PID())
		for i := range churned {
			if err := errors.Join(kind.change(i), sleep(ctx, churnPace)); err != nil {
				return fmt.Errorf("%s namespaces: %w", kind.what, err)
			}
		}
		to.add(fmt.Sprintf("CPU of %d namespaces %s, one each %s, s", churned, kind.what, churnPace), cpuSeconds(r.process.PID())-cpu)
	}
	return nil
}

// measureSequence is the memory that remains after one matchCondition of a webhook on
// everything was edited again and again.
func (c *filled) measureSequence(ctx context.Context, o options, r *running, to *column) error {
	configurations := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	configuration, err := c.configuration(1)
	if err != nil {
		return err
	}
	configuration.Name = "edited"
	configuration.Webhooks = configuration.Webhooks[:1]
	w := &configuration.Webhooks[0]
	w.Rules = []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}}}
	w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"edited": "true"}} // nothing has to wait for it
	w.ObjectSelector = w.NamespaceSelector
	w.MatchConditions = []admissionv1.MatchCondition{{Name: "edited", Expression: `request.name != "0"`}}
	if _, err := configurations.Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := sleep(ctx, o.settle); err != nil {
		return err
	}
	before := memory(r.process.PID(), "VmRSS")
	for i := range edited {
		body := fmt.Appendf(nil, `[{"op":"replace","path":"/webhooks/0/matchConditions/0/expression","value":"request.name != \"revision-%d\""}]`, i)
		_, err := configurations.Patch(ctx, configuration.Name, types.JSONPatchType, body, metav1.PatchOptions{})
		if err := errors.Join(err, sleep(ctx, churnPace)); err != nil {
			return err
		}
	}
	if err := sleep(ctx, o.settle); err != nil {
		return err
	}
	to.add(fmt.Sprintf("RSS after %d edits of a matchCondition, MiB more", edited), memory(r.process.PID(), "VmRSS")-before)
	return configurations.Delete(ctx, configuration.Name, metav1.DeleteOptions{})
}
