package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/manifests"
)

// rbacFiles are what the auditor is granted: on any cluster, on OpenShift
// besides, and as templates of the Helm chart.
func rbacFiles() (map[string][]byte, error) {
	return rendered(map[string]func() ([]byte, error){
		"manifests/base/rbac.yaml":                      func() ([]byte, error) { return manifests.RBAC(manifests.Namespace) },
		"manifests/overlays/openshift/rbac.yaml":        func() ([]byte, error) { return manifests.OpenShiftRBAC(manifests.OpenShiftNamespace) },
		"manifests/chart/templates/rbac.yaml":           func() ([]byte, error) { return manifests.RBAC(manifests.ReleaseNamespace) },
		"manifests/chart/templates/rbac-openshift.yaml": manifests.OpenShiftTemplate,
		"manifests/parts/openshift-page/rbac.yaml":      manifests.PageRBAC,
	})
}

func installFiles() (map[string][]byte, error) {
	return rendered(map[string]func() ([]byte, error){
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
		out[manifests.BundlePath(name)] = text
	}
	return out, err
}

func bundleFlags(flags *pflag.FlagSet) func(io.Writer) error {
	o := manifests.DefaultBundle
	flags.StringVar(&o.Version, "bundle-version", o.Version, "version of the bundle, without v")
	flags.StringVar(&o.Image, "image", o.Image, "image of the auditor")
	return func(w io.Writer) error {
		return printTo(w, func() ([]byte, error) { return manifests.ClusterServiceVersion(o) })
	}
}

// rendered writes files by name.
func rendered(files map[string]func() ([]byte, error)) (map[string][]byte, error) {
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

func rbacFlags(flags *pflag.FlagSet) func(io.Writer) error {
	namespace := flags.String("namespace", "", "namespace of the auditor (default: webhook-auditor, openshift-webhook-auditor on OpenShift)")
	openshift := flags.Bool("openshift", false, "print the additional rules of OpenShift")
	return func(w io.Writer) error {
		write, usual := manifests.RBAC, manifests.Namespace
		if *openshift {
			write, usual = manifests.OpenShiftRBAC, manifests.OpenShiftNamespace
		}
		return printTo(w, func() ([]byte, error) { return write(cmp.Or(*namespace, usual)) })
	}
}

func installFlags(flags *pflag.FlagSet) func(io.Writer) error {
	image := flags.String("image", manifests.Image, "image of the auditor")
	return func(w io.Writer) error {
		return printTo(w, func() ([]byte, error) { return manifests.Install(*image) })
	}
}

// crdFlags is for an artifact that is written by hand: it has no files.
func crdFlags(*pflag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error { return printTo(w, manifests.CRD) }
}

func noFiles() (map[string][]byte, error) { return nil, nil }

func printTo(w io.Writer, write func() ([]byte, error)) error {
	text, err := write()
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	_, err = w.Write(text)
	return err
}
