package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/operator-framework/api/pkg/manifests"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

const image = "registry.example.com:5000/platform/webhook-auditor:v1.2.3"

// TestRelease makes a release for this platform, and reads all of it back.
func TestRelease(t *testing.T) {
	if output, err := exec.Command("make", "-C", "../../..", "build").CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, output)
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	r := release{
		root: "../../..", out: t.TempDir(), version: "v1.2.3", image: image,
		url: "https://example.com/download", ldflags: "-s -w -X github.com/prometheus/common/version.Version=v1.2.3", platforms: []string{platform},
	}
	must.Succeed(t, os.WriteFile(filepath.Join(r.out, "webhook-auditor-image.tar"), []byte("an image"), 0o600))
	must.Succeed(t, r.write())
	stem := "webhook-auditor_v1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
	t.Run("checksums", func(t *testing.T) { checksumsHold(t, r.out) })
	t.Run("provenance", func(t *testing.T) { provenanceNamesAll(t, r) })
	t.Run("binary", func(t *testing.T) { runs(t, filepath.Join(r.out, stem+".tar.gz")) })
	t.Run("SBOM", func(t *testing.T) { listsModules(t, filepath.Join(r.out, stem+".cdx.json")) })
	t.Run("chart", func(t *testing.T) { chartIsOfTheRelease(t, filepath.Join(r.out, "webhook-auditor-1.2.3.tgz")) })
	t.Run("bundle", func(t *testing.T) {
		bundleIsOfTheRelease(t, filepath.Join(r.out, "webhook-auditor_v1.2.3_bundle.tar.gz"))
	})
	t.Run("krew", func(t *testing.T) {
		output, err := exec.CommandContext(t.Context(), "go", "tool", "validate-krew-manifest", "-skip-install", "-manifest", filepath.Join(r.out, "webhook-auditor.yaml")).CombinedOutput()
		if err != nil { // krew's own validator
			t.Errorf("%v\n%s", err, output)
		}
		krewInstalls(t, r, stem+".tar.gz")
	})
	t.Run("workflow", func(t *testing.T) { workflowPublishes(t, r) })
	t.Run("install.yaml", func(t *testing.T) {
		if text := read(t, filepath.Join(r.out, "install.yaml")); !bytes.Contains(text, []byte("image: "+image+"\n")) {
			t.Error("it does not name the image of the release")
		}
	})
}

// TestReleaseRefuses what could not be installed later.
func TestReleaseRefuses(t *testing.T) {
	for name, r := range map[string]release{
		"no version":         {image: image},
		"a version as 1.2.3": {version: "1.2.3", image: image},
		"no image":           {version: "v1.2.3"},
		"no tag":             {version: "v1.2.3", image: "registry.example.com:5000/webhook-auditor"},
		"plan9":              {version: "v1.2.3", image: image, platforms: []string{"plan9/amd64"}},
	} {
		if err := r.check(); err == nil || !strings.Contains(err.Error(), "must") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(path))(t)
}

// checksumsHold: sha256sum agrees, and each file has one.
func checksumsHold(t *testing.T, dir string) {
	check := exec.Command("sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = dir
	output, err := check.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	entries := must.Get(os.ReadDir(dir))(t)
	for _, entry := range entries {
		if name := entry.Name(); name != "checksums.txt" && !strings.Contains(string(output), name+": OK") {
			t.Errorf("%s has no checksum", name)
		}
	}
}

// provenanceNamesAll: each file that has a checksum is a subject with that digest, and the
// commit is named.
func provenanceNamesAll(t *testing.T, r release) {
	var s statement
	must.Succeed(t, json.Unmarshal(read(t, filepath.Join(r.out, "provenance.json")), &s))
	var lines []string
	for _, subject := range s.Subject {
		lines = append(lines, subject.Digest["sha256"]+"  "+subject.Name)
	}
	for line := range strings.Lines(string(read(t, filepath.Join(r.out, "checksums.txt")))) {
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, "provenance.json") && !slices.Contains(lines, line) {
			t.Errorf("the provenance lacks %s", line)
		}
	}
	build := s.Predicate.BuildDefinition
	if len(build.ResolvedDependencies) != 1 || len(build.ResolvedDependencies[0].Digest["gitCommit"]) != 40 || build.ExternalParameters["image"] != image {
		t.Errorf("of which commit and image: %+v", build)
	}
}

func unpacked(t *testing.T, path string) map[string][]byte {
	t.Helper()
	zipped := must.Get(gzip.NewReader(bytes.NewReader(read(t, path))))(t)
	out := map[string][]byte{}
	archive := tar.NewReader(zipped)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// runs: the binary is there with the license, and knows its version.
func runs(t *testing.T, archive string) {
	files := unpacked(t, archive)
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"LICENSE", program}) {
		t.Fatalf("the archive has %v", names)
	}
	path := filepath.Join(t.TempDir(), "kubectl-webhook_auditor")
	must.Succeed(t, os.WriteFile(path, files[program], 0o755))
	output, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "v1.2.3") {
		t.Errorf("%v\n%s", err, output)
	}
}

func listsModules(t *testing.T, path string) {
	var bom cyclonedx.BOM
	must.Succeed(t, cyclonedx.NewBOMDecoder(bytes.NewReader(read(t, path)), cyclonedx.BOMFileFormatJSON).Decode(&bom))
	var names []string
	for _, c := range *bom.Components {
		if c.Version == "" || c.PackageURL == "" {
			t.Errorf("%s: version %q, package %q", c.Name, c.Version, c.PackageURL)
		}
		names = append(names, c.Name)
	}
	for _, want := range []string{"std", "k8s.io/client-go", "github.com/prometheus/client_golang"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
}

// chartIsOfTheRelease: installed with no values, it takes the image of the release.
func chartIsOfTheRelease(t *testing.T, path string) {
	chart := must.Get(loader.LoadFile(path))(t)
	values := chart.Values["image"].(map[string]any)
	if got := values["repository"].(string) + ":" + values["tag"].(string); got != image || chart.Metadata.AppVersion != "v1.2.3" {
		t.Errorf("image %s, version %s", got, chart.Metadata.AppVersion)
	}
	if err := chart.Validate(); err != nil {
		t.Error(err)
	}
	for name, content := range unpacked(t, path) { // of regular files: a link has no content
		if len(content) == 0 {
			t.Errorf("%s is empty in the chart", name)
		}
	}
}

func bundleIsOfTheRelease(t *testing.T, path string) {
	dir := t.TempDir()
	for name, content := range unpacked(t, path) {
		must.Succeed(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	bundle := must.Get(manifests.GetBundleFromDir(dir))(t)
	if bundle.CSV.Name != "webhook-auditor.v1.2.3" || bundle.CSV.Spec.RelatedImages[0].Image != image {
		t.Errorf("%s with %v", bundle.CSV.Name, bundle.CSV.Spec.RelatedImages)
	}
	if _, err := os.Stat(filepath.Join(dir, "bundle.Dockerfile")); err != nil {
		t.Errorf("it lacks what makes its image: %v", err)
	}
}

// krewInstalls: the archive that the manifest names is the one of the release.
func krewInstalls(t *testing.T, r release, archive string) {
	var p plugin
	must.Succeed(t, yaml.UnmarshalStrict(read(t, filepath.Join(r.out, "webhook-auditor.yaml")), &p))
	if len(p.Spec.Platforms) != 1 {
		t.Fatalf("%d platforms", len(p.Spec.Platforms))
	}
	d := p.Spec.Platforms[0]
	sum := must.Get(digest(filepath.Join(r.out, archive)))(t)
	if d.URI != "https://example.com/download/v1.2.3/"+archive {
		t.Errorf("the URI is %s", d.URI)
	}
	if d.Sha256 != sum || unpacked(t, filepath.Join(r.out, archive))[d.Bin] == nil {
		t.Errorf("checksum %s, binary %s", d.Sha256, d.Bin)
	}
	if want := map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}; !maps.Equal(d.Selector.MatchLabels, want) {
		t.Errorf("the selector is %v", d.Selector.MatchLabels)
	}
}
