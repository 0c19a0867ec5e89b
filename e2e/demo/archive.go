package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// archived are the resources of an archive: of the whole cluster, and of each namespace.
var (
	archivedOfCluster = []string{
		"core/namespaces",
		"admissionregistration.k8s.io/validatingwebhookconfigurations", "admissionregistration.k8s.io/mutatingwebhookconfigurations",
		"apiextensions.k8s.io/customresourcedefinitions", "apiregistration.k8s.io/apiservices",
	}
	archivedOfNamespace = []string{"core/services", "core/pods", "discovery.k8s.io/endpointslices", "apps/deployments"}
)

// archive records the cluster in the layout of a must-gather, as "webhook-auditor demo"
// reads it. kubectl is in the folder of the binaries.
func (d *demo) archive(ctx context.Context, binaries, file string) error {
	d.say("recording the cluster to %s", file)
	kubectl := func(args ...string) ([]byte, error) {
		command := exec.CommandContext(ctx, filepath.Join(binaries, "kubectl"), append([]string{"--kubeconfig=" + d.plane.Kubeconfig()}, args...)...)
		output, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("running %s: %w", command, err)
		}
		return output, nil
	}
	files := map[string][]byte{"must-gather.local.demo/timestamp": fmt.Appendf(nil, "%s\n", time.Now().UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST"))}
	names, err := kubectl("get", "namespaces", "-o", "name")
	if err != nil {
		return err
	}
	get := func(path, resource string, args ...string) error {
		group, name, _ := strings.Cut(resource, "/")
		if group != "core" {
			name += "." + group
		}
		content, err := kubectl(append([]string{"get", name, "-o", "yaml"}, args...)...)
		files["must-gather.local.demo/"+path+resource+".yaml"] = content
		return err
	}
	for _, resource := range archivedOfCluster {
		err = errors.Join(err, get("cluster-scoped-resources/", resource))
	}
	for name := range strings.Lines(string(names)) {
		namespace := strings.TrimPrefix(strings.TrimSpace(name), "namespace/")
		for _, resource := range archivedOfNamespace {
			err = errors.Join(err, get("namespaces/"+namespace+"/", resource, "-n", namespace))
		}
	}
	return errors.Join(err, writeArchive(file, files))
}

func writeArchive(file string, files map[string][]byte) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	for name, content := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Now()}); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close(), out.Close())
}
