package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// edited is how often one matchCondition changes, once each editPace.
	edited   = 2000
	editPace = 20 * time.Millisecond
)

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
		if err := errors.Join(err, sleep(ctx, editPace)); err != nil {
			return err
		}
	}
	if err := sleep(ctx, o.settle); err != nil {
		return err
	}
	to.add(fmt.Sprintf("RSS after %d edits of a matchCondition, MiB more", edited), memory(r.process.PID(), "VmRSS")-before)
	return configurations.Delete(ctx, configuration.Name, metav1.DeleteOptions{})
}
