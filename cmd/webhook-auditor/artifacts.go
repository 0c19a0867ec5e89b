package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/dashboards"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/manifests"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/rules"
)

// artifacts is all that is derived: one table for "print", "make generate" and
// the test that what is committed is up to date.
func artifacts() []artifact {
	return []artifact{
		document("checks", "all checks, with links to their runbooks", "pkg/classify/README.md", report.WriteChecks),
		document("policy", "all keys of the Policy, with their defaults and examples", "pkg/classify/POLICY.md", report.WritePolicy),
		document("metrics", "all metrics, with their labels", "pkg/exporter/README.md", exporter.WriteMetrics),
		{"rules", "the alerts", ruleFiles, rulesFlags},
		{"dashboards", "the dashboards", dashboardFiles, dashboardsFlags},
		policyArtifact("run-level-guard", "the policy that keeps webhooks off run level 0, for Kubernetes 1.36 and newer",
			"manifests/run-level-guard/guard.yaml", manifests.RunLevelGuard),
		policyArtifact("registration-warnings", "the policy that warns of unapproved webhooks, for Kubernetes 1.30 and newer",
			"manifests/run-level-guard/warnings/warnings.yaml", manifests.RegistrationWarnings),
		{"rbac", "what the auditor is granted in a cluster", rbacFiles, rbacFlags},
		{"crd", "the definition of the kind WebhookAudit", noFiles, crdFlags},
		{"install", "all that a cluster applies, as one file", installFiles, installFlags},
		{"bundle", "the ClusterServiceVersion of the bundle for the Operator Lifecycle Manager", bundleFiles, bundleFlags},
		{"schema", "the JSON Schema of what commands print with -o json", schemaFiles, nil},
	}
}

// document is an artifact of one file and without flags.
func document(name, summary, file string, write func(io.Writer) error) artifact {
	files := func() (map[string][]byte, error) { return rendered(map[string]content{file: printed(write)}) }
	return artifact{name, summary, files, func(*pflag.FlagSet) content { return printed(write) }}
}

func printed(write func(io.Writer) error) content {
	return func() ([]byte, error) {
		var b bytes.Buffer
		err := write(&b)
		return b.Bytes(), err
	}
}

func policyArtifact(name, summary, file string, write func(classify.Policy) ([]byte, error)) artifact {
	files := func() (map[string][]byte, error) {
		return rendered(map[string]content{file: func() ([]byte, error) { return write(classify.DefaultPolicy()) }})
	}
	return artifact{name, summary, files, func(flags *pflag.FlagSet) content {
		flagInput := &input{}
		flags.StringVar(&flagInput.config, "config", "", "Policy file: classes, platform webhooks, run level 0 namespaces")
		return func() ([]byte, error) {
			policy, err := flagInput.policy()
			if err != nil {
				return nil, err
			}
			return write(policy)
		}
	}}
}

func ruleFiles() (map[string][]byte, error) {
	files, err := rules.Files()
	return inFolder("rules/", files), err
}

func inFolder(folder string, files map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for name, text := range files {
		out[folder+name] = text
	}
	return out
}

func rulesFlags(flags *pflag.FlagSet) content {
	var o rules.Options
	var form, severities, signals string
	var summary, central bool
	enumFlag(flags, &form, "form", "", "output format", lists.Strings(rules.Forms))
	flags.BoolVar(&summary, "fleet-summary", false, fmt.Sprintf("print what a store of many clusters needs of each: at most %d series, recorded", rules.SummarySeries))
	flags.BoolVar(&central, "fleet-central", false, "print what a store of many clusters records itself: how webhooks are registered in most of them")
	enumFlag(flags, &severities,
		"severities", "", "severity set for signal alerts", []string{string(rules.DefaultSeverities), string(rules.EnhancementSeverities)})
	enumFlag(flags, &signals, "signals", "", "where the series of signal alerts come from: API servers that Prometheus scrapes, or auditors that run with --web.observed-metrics", []string{string(rules.APIServerSignals), string(rules.AuditorSignals)})
	flags.StringVar(&o.ClusterLabel, "cluster-label", rules.DefaultClusterLabel, "label that identifies the cluster in a shared store")
	flags.StringVar(&o.Selector, "selector", "", `label matchers added to every selector, for example cluster="one"`)
	flags.StringVar(&o.RunbookBaseURL, "runbook-base-url", "", "URL that the runbooks' paths are appended to (default: the project's)")
	flags.StringVar(&o.PageURL, "page-url", "", "address of the status page: adds the annotation page_url to every alert (default: none)")
	flags.StringVarP(&o.Namespace, "namespace", "n", "", "namespace of the objects (default: webhook-auditor)")
	flags.StringToStringVar(&o.ObjectLabels, "labels", nil, "labels of the object, for example release=prometheus")
	flags.StringToStringVar(&o.Labels, "alert-labels", nil, "labels added to every alert, for example team=platform")
	flags.StringSliceVar(&o.Disabled, "disable", nil, "names of alerts to leave out")
	flags.StringSliceVar(&o.Critical, "critical", nil, "names of alerts that page, for example WebhookFailingOpen where a webhook enforces signatures")
	thresholds := flags.StringToString("threshold", nil, "numbers that decide when alerts fire, for example WebhookFailingOpen=0.1; --form=markdown lists them")
	return func() ([]byte, error) {
		o.Severities, o.Signals = rules.Severities(severities), rules.Signals(signals)
		if err := errors.Join(readThresholds(&o, *thresholds), checkPageURL(o.PageURL)); err != nil {
			return nil, err
		}
		switch {
		case o.ClusterLabel == "":
			return nil, errors.New("--cluster-label: must be a label name, as cluster is")
		case summary && central:
			return nil, errors.New("--fleet-central: must be given without --fleet-summary, which each cluster records")
		case summary:
			return rules.RenderSummary(rules.Form(form), o)
		case central:
			return rules.RenderCentral(rules.Form(form), o)
		}
		return rules.Render(rules.Form(form), o)
	}
}

// checkPageURL refuses what a browser would take for a path of the page with the link.
func checkPageURL(address string) error {
	u, err := url.Parse(address)
	if address == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return nil
	}
	return fmt.Errorf("--page-url: must be a URL as https://auditor.example.com, not %q", address)
}

// readThresholds reads numbers, which a flag of names and texts does not.
func readThresholds(o *rules.Options, texts map[string]string) error {
	o.Thresholds = map[string]float64{}
	for name, number := range texts {
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return fmt.Errorf("--threshold: %s=%s: must be a number, as %s=0.1", name, number, name)
		}
		o.Thresholds[name] = value
	}
	return nil
}

func dashboardFiles() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, form := range dashboards.Committed {
		files, err := dashboards.Render(form, dashboards.Options{})
		if err != nil {
			return nil, err
		}
		maps.Copy(out, inFolder("dashboards/", files))
	}
	return out, nil
}

func dashboardsFlags(flags *pflag.FlagSet) content {
	var form string
	var o dashboards.Options
	enumFlag(flags, &form, "form", "", "output format", lists.Strings(dashboards.Forms))
	flags.StringVar(&o.PageURL, "page-url", "", "address of the status page, for boards in Grafana to link to (default: none)")
	return func() ([]byte, error) {
		if err := checkPageURL(o.PageURL); err != nil {
			return nil, err
		}
		return dashboards.Print(dashboards.Form(form), o)
	}
}

// rbacFiles are what the auditor is granted: on any cluster, on OpenShift
// besides, and as templates of the Helm chart.
func rbacFiles() (map[string][]byte, error) {
	return rendered(map[string]content{
		"manifests/base/rbac.yaml":                      func() ([]byte, error) { return manifests.RBAC(manifests.Namespace) },
		"manifests/overlays/openshift/rbac.yaml":        func() ([]byte, error) { return manifests.OpenShiftRBAC(manifests.OpenShiftNamespace) },
		"manifests/chart/templates/rbac.yaml":           func() ([]byte, error) { return manifests.RBAC(manifests.ReleaseNamespace) },
		"manifests/chart/templates/rbac-openshift.yaml": manifests.OpenShiftTemplate,
		"manifests/parts/openshift-page/rbac.yaml":      manifests.PageRBAC,
	})
}

func installFiles() (map[string][]byte, error) {
	return rendered(map[string]content{
		"manifests/install.yaml":                         func() ([]byte, error) { return manifests.Install(manifests.Image) },
		"manifests/parts/enhancement/kustomization.yaml": manifests.Enhancement,
	})
}

// bundleFiles are those of the bundle, by path. The PrometheusRule in it is that of
// rules, without a namespace.
func bundleFiles() (map[string][]byte, error) {
	files, err := manifests.Bundle(manifests.DefaultBundle)
	return inFolder("manifests/bundle/", files), err
}

func bundleFlags(flags *pflag.FlagSet) content {
	o := manifests.DefaultBundle
	flags.StringVar(&o.Version, "bundle-version", o.Version, "version of the bundle, without v")
	flags.StringVar(&o.Image, "image", o.Image, "image of the auditor")
	return func() ([]byte, error) { return manifests.ClusterServiceVersion(o) }
}

func rendered(files map[string]content) (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, write := range files {
		text, err := write()
		if err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, nil
}

func rbacFlags(flags *pflag.FlagSet) content {
	namespace := flags.String("namespace", "", "namespace of the auditor (default: webhook-auditor, openshift-webhook-auditor on OpenShift)")
	openshift := flags.Bool("openshift", false, "print the additional rules of OpenShift")
	return func() ([]byte, error) {
		write, usual := manifests.RBAC, manifests.Namespace
		if *openshift {
			write, usual = manifests.OpenShiftRBAC, manifests.OpenShiftNamespace
		}
		return write(cmp.Or(*namespace, usual))
	}
}

func installFlags(flags *pflag.FlagSet) content {
	image := flags.String("image", manifests.Image, "image of the auditor")
	return func() ([]byte, error) { return manifests.Install(*image) }
}

// crdFlags is for an artifact that is written by hand: it has no files.
func crdFlags(*pflag.FlagSet) content { return manifests.CRD }

func noFiles() (map[string][]byte, error) { return nil, nil }
