package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/manifests"
)

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
	out := map[string][]byte{}
	for name, text := range files {
		out["manifests/bundle/"+name] = text
	}
	return out, err
}

func bundleFlags(flags *pflag.FlagSet) content {
	o := manifests.DefaultBundle
	flags.StringVar(&o.Version, "bundle-version", o.Version, "version of the bundle, without v")
	flags.StringVar(&o.Image, "image", o.Image, "image of the auditor")
	return func() ([]byte, error) { return manifests.ClusterServiceVersion(o) }
}

// rendered writes files by name.
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
