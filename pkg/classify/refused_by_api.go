package classify

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var refusedByAPI = &Check{
	Name:     "refused-by-api",
	Summary:  "The API server will refuse a registration in the files, or never serve it.",
	Severity: Critical, // nothing of the object will be registered
	Find: func(p *Profile) []Problem {
		refused := p.Matcher.RefusedWebhook(p.Webhook)
		if len(refused) == 0 {
			return invalidConversionBundle(p)
		}
		return refusal(refused, ObjectName(p), "it")
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		var out []Problem
		if !p.Absent {
			out = refusal(p.Matcher.RefusedPolicy(p.AdmissionPolicy), objectName(&p.Registration), "it")
		}
		for _, b := range p.Bindings {
			out = append(out, refusal(p.Matcher.RefusedBinding(b), bindingName(b), "its binding "+b.Object.Name)...)
		}
		return out
	},
}

// refusal is what the API server finds wrong with an object, which the short sentence calls subject.
func refusal(refused field.ErrorList, object, subject string) []Problem {
	if len(refused) == 0 {
		return nil
	}
	out := Problem{Brief: "the API server refuses " + subject, Fix: "correct the file; kubectl diff -f FILE ends in the same error until then"}
	var faults []string
	for _, e := range refused {
		detail, _, _ := strings.Cut(cmp.Or(e.Detail, e.ErrorBody()), " expecting {") // what CEL's parser would have taken
		out.Details = append(out.Details, e.Field+": "+detail)
		text := strings.Join(strings.Fields(strings.Replace(e.ErrorBody(), "Forbidden: ", "", 1)), " ")
		faults = append(faults, e.Field+": "+text)
	}
	if out.Message = fmt.Sprintf("is refused by the API server when %s is applied: %s", object, strings.Join(faults, "; ")); len(faults) > 1 {
		out.Brief += ", for " + inventory.Counted(len(faults), "error")
	} else {
		out.Brief, out.Details = out.Brief+": "+out.Details[0], nil
	}
	return []Problem{out}
}

// isToApply reports whether a file holds the configuration, which no API server has stored.
func (p *Profile) isToApply() bool { return p.Object.Applied != nil }

// isUnserved reports whether the API server serves nothing by the CRD of a file until its
// caBundle has a certificate. Source: kubernetes/kubernetes#124061.
func (p *Profile) isUnserved() bool {
	server := p.Snapshot.Server
	return p.lacksCA() && p.isToApply() && (!server.Known() || server.AtLeast(1, 31))
}

// ServesNothing reports whether the API server cannot serve the CRD of a cluster, in any version: it
// makes the client of the conversion first. Source: NewWebhookConverter in
// k8s.io/apiextensions-apiserver pkg/apiserver/conversion.
func (p *Profile) ServesNothing() bool { return p.lacksCA() && !p.isToApply() }

func (p *Profile) lacksCA() bool {
	a := p.Webhook.Backend.Authority
	return p.Type == inventory.Conversion && a != nil && !a.Blanked && len(a.Certificates) == 0
}

// invalidConversionBundle is about those that no injector is to fill in.
func invalidConversionBundle(p *Profile) []Problem {
	if !p.isUnserved() || injectorOf(p.Object.Annotations).name != "" {
		return nil
	}
	return []Problem{{
		Severity: Warning,
		Message:  fmt.Sprintf("has a caBundle without a certificate in it: from v1.31 on the API server does not serve %s until it has one, and refuses to apply the CRD a second time", p.CRD.Resource),
		Brief:    fmt.Sprintf("from v1.31 on the API server does not serve %s: its caBundle has no certificate in it", p.CRD.Resource),
		Fix:      "leave spec.conversion.webhook.clientConfig.caBundle out of the file: who issues the certificate fills it in",
	}}
}
