package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// namespaceFlags narrow to the webhooks whose Service is in a namespace. All
// namespaces are the default, which users of kubectl write as -A.
type namespaceFlags struct {
	name string
	all  bool
}

// register adds the flags; verb completes their help.
func (n *namespaceFlags) register(flags *pflag.FlagSet, verb string) {
	flags.StringVarP(&n.name, "namespace", "n", "", verb+" only webhooks whose Service is in this namespace")
	flags.BoolVarP(&n.all, "all-namespaces", "A", false, verb+" webhooks whose Service is in any namespace (default); wins over --namespace")
}

func (n *namespaceFlags) selected() string {
	if n.all {
		return ""
	}
	return n.name
}

// selection is what a report is about; the zero selection is about all webhooks.
type selection struct {
	targets []arguments.Target
	// namespace is that of the Services of the webhooks.
	namespace string
}

func (s selection) keeps(w report.Webhook) bool {
	if s.namespace != "" && (w.Backend.Service == nil || w.Backend.Service.Namespace != s.namespace) {
		return false
	}
	return len(s.targets) == 0 || slices.ContainsFunc(s.targets, func(t arguments.Target) bool { return t.Selects(w) })
}

func (s selection) narrowed(d report.Document, r *classify.Report) report.Document {
	if s.namespace == "" && len(s.targets) == 0 {
		return d
	}
	return d.Select(r, s.keeps)
}

// check refuses targets that the input does not have. A namespace without webhooks
// is no error, as for kubectl get, but a notice.
func (s selection) check(d report.Document, o streams) error {
	registered := d.Registered()
	for _, t := range s.targets {
		switch {
		case t.Configuration == "" || slices.ContainsFunc(registered, t.Selects):
		case t.Type.IsPolicy():
			return notFound(fmt.Errorf("no %s found%s", t, arguments.Suggested(t.Similar(registered))), d.Errors, o)
		default:
			return notFound(fmt.Errorf("no webhook of %s found%s", t, arguments.Suggested(t.Similar(registered))), d.Errors, o)
		}
	}
	ofServices := lists.Filter(d.Webhooks, func(w report.Webhook) bool { return w.Backend.Service != nil })
	namespaces := lists.Map(ofServices, func(w report.Webhook) string { return w.Backend.Service.Namespace })
	namespaces = lists.Distinct(namespaces)
	if s.namespace != "" && !slices.Contains(namespaces, s.namespace) {
		complain(o.err, "no webhook has its Service in namespace %s%s", s.namespace, arguments.Suggested(arguments.Like(s.namespace, namespaces)))
	}
	return nil
}
