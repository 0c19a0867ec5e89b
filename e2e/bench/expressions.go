package main

import (
	"context"
	"fmt"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withoutExpressions is the column that the others of expressions are compared with.
const withoutExpressions = "2,000 webhooks on everything"

// expressions are files of which matchConditions and selectors make the evaluation
// expensive.
var expressions = []struct {
	name  string
	hooks int
	shape shape
}{
	{withoutExpressions, 2000, shape{webhook: func(i, _ int) admissionv1.ValidatingWebhook { return hookOn(i, "*", "*/*") }}},
	{"the same with a matchCondition each that reads the user", 2000, conditioned(1, `request.userInfo.username != "system:serviceaccount:team-%d:controller-%d"`)},
	{"that reads the resource", 2000, conditioned(1, `request.resource.resource != "widgets-%d-%d"`)},
	{"that reads the object", 2000, conditioned(1, `!has(object.metadata.labels) || !("team-%d-%d" in object.metadata.labels)`)},
	{"125 with 64 matchConditions each that read the user", 125, conditioned(64, `request.userInfo.username != "system:serviceaccount:team-%d:controller-%d"`)},
	{"200 with selectors of 20 keys with 200 values each", 200, shape{webhook: manyValues}},
}

// conditioned are webhooks on everything with n matchConditions each, of which no two
// are the same.
func conditioned(n int, expression string) shape {
	return shape{webhook: func(i, _ int) admissionv1.ValidatingWebhook {
		w := hookOn(i, "*", "*/*")
		for k := range n {
			w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: fmt.Sprintf("condition-%d", k), Expression: fmt.Sprintf(expression, i, k)})
		}
		return w
	}}
}

func manyValues(i, _ int) admissionv1.ValidatingWebhook {
	w := hookOn(i, "*", "*/*")
	w.NamespaceSelector = &metav1.LabelSelector{}
	for key := range 20 {
		r := metav1.LabelSelectorRequirement{Key: fmt.Sprintf("key-%d", key), Operator: metav1.LabelSelectorOpNotIn}
		for value := range 200 {
			r.Values = append(r.Values, fmt.Sprintf("value-%d-%d", i, value))
		}
		w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, r)
	}
	return w
}

func measureExpressions(ctx context.Context, o options, folder string) (*table, error) {
	t := newTable()
	for range o.rounds {
		for _, e := range expressions {
			file := filepath.Join(folder, "expressions.yaml")
			if err := writeShape(file, e.shape, e.hooks); err != nil {
				return nil, err
			}
			if err := t.column(e.name).run(ctx, file, o.binaries[0], "audit", file); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}
