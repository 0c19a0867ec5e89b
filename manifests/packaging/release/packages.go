package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
	"sigs.k8s.io/yaml"
)

// chart packages the Helm chart with the version and the image of the release.
func (r release) chart() (string, error) {
	chart, err := loader.LoadDir(filepath.Join(r.root, "manifests", "chart"))
	if err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	chart.Metadata.Version, chart.Metadata.AppVersion = r.number(), r.version
	for _, file := range chart.Raw {
		if file.Name == "values.yaml" {
			if file.Data, err = r.values(file.Data); err != nil {
				return "", err
			}
		}
	}
	path, err := util.Save(chart, r.out)
	if err != nil {
		return "", fmt.Errorf("packaging the chart: %w", err)
	}
	return path, nil
}

// values puts the image of the release into the values, whose comments stay.
func (r release) values(text []byte) ([]byte, error) {
	repository, tag, isDigest := strings.Cut(r.image, "@")
	if !isDigest {
		colon := strings.LastIndex(r.image, ":")
		repository, tag = r.image[:colon], r.image[colon+1:]
	}
	for _, line := range []struct{ usual, want string }{
		{"\n  repository: " + program + "\n", "\n  repository: " + repository + "\n"},
		{"\n  tag: \"\"\n", "\n  tag: \"" + tag + "\"\n"},
	} {
		if bytes.Count(text, []byte(line.usual)) != 1 {
			return nil, fmt.Errorf("packaging the chart: values.yaml must have the line %q once", strings.TrimSpace(line.usual))
		}
		text = bytes.ReplaceAll(text, []byte(line.usual), []byte(line.want))
	}
	return text, nil
}

// bundle packs the bundle for the Operator Lifecycle Manager.
func (r release) bundle() (string, error) {
	csv, err := r.print("bundle", "--bundle-version="+r.number(), "--image="+r.image)
	if err != nil {
		return "", err
	}
	written := filepath.Join(r.out, "clusterserviceversion.yaml")
	if err := os.WriteFile(written, csv, 0o644); err != nil {
		return "", fmt.Errorf("writing the bundle: %w", err)
	}
	defer os.Remove(written)
	dir := filepath.Join(r.root, "manifests", "bundle")
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.yaml"))
	if err != nil {
		return "", err
	}
	var content []packed
	for _, file := range append(files, filepath.Join(dir, "bundle.Dockerfile")) {
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return "", err
		}
		if strings.HasSuffix(name, ".clusterserviceversion.yaml") {
			file = written
		}
		content = append(content, packed{filepath.ToSlash(name), file, 0o644})
	}
	path := filepath.Join(r.out, strings.Join([]string{program, r.version, "bundle.tar.gz"}, "_"))
	return path, pack(path, content)
}

// plugin is the manifest by which krew installs a plugin of kubectl.
type plugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       pluginSpec        `json:"spec"`
}

type pluginSpec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []download `json:"platforms"`
}

// download is the archive of one platform.
type download struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	Sha256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

// krew writes the manifest of the plugin, with the checksums of the archives.
func (r release) krew(archives []string) (string, error) {
	p := plugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin",
		Metadata: map[string]string{"name": program},
		Spec: pluginSpec{
			Version:          r.version,
			Homepage:         home,
			ShortDescription: "Report which webhooks put a cluster at risk",
			Description: "Reports what the admission and conversion webhooks of a cluster intercept,\nwhether their backends work, what fails if they do not, and how to recover.\n" +
				"It only reads.\n",
			Caveats: "It needs to list webhook configurations, CRDs, Namespaces, Services, EndpointSlices\nand Pods; what it may not read is reported as unknown.\n",
		},
	}
	for i, platform := range r.platforms {
		d := download{URI: r.url + "/" + r.version + "/" + filepath.Base(archives[i]), Bin: program}
		system, architecture, _ := strings.Cut(platform, "/")
		if system == "windows" {
			d.Bin += ".exe"
		}
		d.Selector.MatchLabels = map[string]string{"os": system, "arch": architecture}
		var err error
		if d.Sha256, err = digest(archives[i]); err != nil {
			return "", err
		}
		p.Spec.Platforms = append(p.Spec.Platforms, d)
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("writing the manifest for krew: %w", err)
	}
	path := filepath.Join(r.out, program+".yaml")
	return path, os.WriteFile(path, text, 0o644)
}
